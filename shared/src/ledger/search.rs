//! Reads of many events for people, and what they cost.

use std::ops::AddAssign;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use aws_sdk_dynamodb::types::{ConsumedCapacity, KeysAndAttributes, ReturnConsumedCapacity};

use super::read::{TIME_SHARDS, listed};
use super::transition::WORK_SHARDS;
use super::{Item, Ledger, Listed, Row, Waiting, item};
use crate::clock::Millis;
use crate::event::EventKey;

/// The most items that one request may name.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html>
pub(super) const MOST_AT_ONCE: usize = 100;

/// How often keys are asked for that DynamoDB did not get to.
pub(super) const TRIES: u32 = 8;

/// What reads cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub calls: u64,
    pub read_units: f64,
}

/// One part of the `time` index: a share of the events of a source in one hour of UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourPart {
    pub source: String,
    /// Both inclusive, and within one hour.
    pub from: Millis,
    pub to: Millis,
    shard: u8,
}

/// What one request found, and where the next one goes on.
#[derive(Debug)]
pub struct Page<T> {
    pub found: Vec<T>,
    pub next: Option<Next>,
    pub cost: Cost,
}

/// A place in an index.
#[derive(Clone, Debug)]
pub struct Next(Item);

/// A row, with what of it only its body is read from.
#[derive(Clone, Debug)]
pub struct Stored {
    pub row: Row,
    item: Item,
}

impl HourPart {
    /// The parts that hold the events of a source from one time to another, both inclusive and
    /// within one hour of UTC.
    pub fn of(source: &str, from: Millis, to: Millis) -> impl Iterator<Item = Self> {
        (0..TIME_SHARDS).map(move |shard| Self {
            source: source.to_owned(),
            from,
            to,
            shard,
        })
    }
}

impl Ledger {
    /// The next events of a part, newest first, or oldest first if `forward`.
    pub async fn hour_page(
        &self,
        part: &HourPart,
        forward: bool,
        limit: usize,
        start: Option<Next>,
    ) -> anyhow::Result<Page<Listed>> {
        let name = format!("T#{}#{}#{}", part.source, part.from.hour(), part.shard);
        let answer = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .index_name("time")
            .key_condition_expression("tpk = :part AND tsk BETWEEN :from AND :to")
            .expression_attribute_values(":part", item::s(name))
            .expression_attribute_values(":from", item::s(format!("{:013}", part.from.0.max(0))))
            .expression_attribute_values(
                ":to",
                item::s(format!("{:013}#\u{10FFFF}", part.to.0.max(0))),
            )
            .scan_index_forward(forward)
            .limit(i32::try_from(limit.clamp(1, 1000))?)
            .set_exclusive_start_key(start.map(|next| next.0))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .context("list the events of an hour")?;
        Ok(Page {
            found: answer.items().iter().filter_map(listed).collect(),
            cost: Cost::of(answer.consumed_capacity()),
            next: answer.last_evaluated_key.map(Next),
        })
    }

    /// The next events in one part of the `work` index, whatever their source; without a limit, as
    /// many as one answer holds. What was received at `since` or later is looked at again, or died,
    /// after that; the rest may be left out.
    pub async fn waiting_page(
        &self,
        what: Waiting,
        shard: u8,
        since: Millis,
        limit: Option<i32>,
        start: Option<Next>,
    ) -> anyhow::Result<Page<EventKey>> {
        let kind = match what {
            Waiting::Open => "W",
            Waiting::Dead => "D",
        };
        let answer = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .index_name("work")
            .key_condition_expression("gpk = :part AND gsk >= :since")
            .expression_attribute_values(
                ":part",
                item::s(format!("{kind}#{}", shard % WORK_SHARDS)),
            )
            .expression_attribute_values(":since", item::ms(since))
            .set_limit(limit)
            .set_exclusive_start_key(start.map(|next| next.0))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .context("list the events that wait")?;
        let keys = answer.items().iter();
        let keys = keys.filter_map(|keys| EventKey::from_pk(item::text(keys, "pk")?));
        Ok(Page {
            found: keys.collect(),
            cost: Cost::of(answer.consumed_capacity()),
            next: answer.last_evaluated_key.map(Next),
        })
    }

    /// The rows of at most a hundred events, in no order, as they were a moment ago; what has no
    /// row is left out.
    pub async fn rows(&self, keys: &[EventKey]) -> anyhow::Result<(Vec<Stored>, Cost)> {
        let key = |key: &EventKey| {
            let sk = ("sk".to_owned(), item::s("M"));
            Item::from([("pk".to_owned(), item::s(key.pk())), sk])
        };
        ensure!(keys.len() <= MOST_AT_ONCE, "too many rows for one request");
        let (mut rows, mut cost) = (Vec::with_capacity(keys.len()), Cost::default());
        let mut open: Vec<Item> = keys.iter().map(key).collect();
        let mut tries = 0;
        while !open.is_empty() {
            ensure!(
                tries < TRIES,
                "DynamoDB does not get to {} rows",
                open.len()
            );
            wait_for_rest(tries).await;
            tries += 1;
            let asked = KeysAndAttributes::builder().set_keys(Some(open));
            let answer = self
                .dynamodb
                .batch_get_item()
                .request_items(&self.table, asked.build()?)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .context("read rows of the ledger")?;
            cost.calls += 1;
            let used = answer.consumed_capacity().iter();
            cost.read_units += used
                .filter_map(ConsumedCapacity::capacity_units)
                .sum::<f64>();
            let of_table = answer.responses.unwrap_or_default().remove(&self.table);
            for item in of_table.unwrap_or_default() {
                let row = Row::read(&item)?;
                rows.push(Stored { row, item });
            }
            let left = answer.unprocessed_keys.unwrap_or_default();
            open = left
                .get(&self.table)
                .map(|left| left.keys().to_vec())
                .unwrap_or_default();
        }
        Ok((rows, cost))
    }

    /// The body of an event whose row was read with others; `None` where there is none that can be
    /// read.
    pub async fn body_of(&self, stored: &Stored) -> anyhow::Result<(Option<super::Body>, Cost)> {
        let inline = stored.row.body_at == super::BodyAt::Inline;
        let body = self.body(&stored.row, &stored.item).await?.ok();
        // It is kept compressed, so that this is the most that it can be.
        let units = u32::try_from(stored.row.body_len.div_ceil(4096)).unwrap_or(u32::MAX);
        let cost = Cost {
            calls: 1,
            read_units: f64::from(units.max(1)),
        };
        Ok((body, if inline { Cost::default() } else { cost }))
    }
}

/// What is left of a batch comes sooner to who waits.
pub(super) async fn wait_for_rest(tries: u32) {
    if tries > 0 {
        tokio::time::sleep(Duration::from_millis(25 << tries)).await;
    }
}

impl Cost {
    pub(super) fn of(used: Option<&ConsumedCapacity>) -> Self {
        Self {
            calls: 1,
            read_units: used
                .and_then(ConsumedCapacity::capacity_units)
                .unwrap_or(0.0),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.read_units += other.read_units;
    }
}
