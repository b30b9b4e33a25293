//! Reads of many rows, and their cost.

use std::ops::AddAssign;

use anyhow::Context as _;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};

use super::read::{TIME_SHARDS, Waiting};
use super::transition::{QUARANTINED, WORK_SHARDS};
use super::{Item, Ledger, item, time_index};
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

/// The cost of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub calls: u64,
    pub read_units: f64,
}

/// One part of the `time` index, which contains a share of the events of a source in one UTC hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourPart {
    source: String,
    from: UnixMillis,
    to: UnixMillis,
    place: Place,
}

/// The partition of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Day,
    Hour { shard: u8 },
}

/// The result of one request, and the place where the next request starts.
#[derive(Debug)]
pub struct Page<T> {
    pub found: Vec<T>,
    pub next: Option<Next>,
    pub cost: Cost,
}

/// A place in an index.
#[derive(Clone, Debug)]
pub struct Next(Item);

impl HourPart {
    /// Returns the parts that contain the events of a source from one time to another. Both times
    /// are inclusive and within one UTC hour.
    pub fn of(source: &str, from: UnixMillis, to: UnixMillis) -> impl Iterator<Item = Self> {
        std::iter::once(Self::of_day(source, from, to)).chain(Self::of_hour(source, from, to))
    }

    /// Returns the part in the partition of the day. Both times must be within one UTC day.
    pub fn of_day(source: &str, from: UnixMillis, to: UnixMillis) -> Self {
        Self {
            source: source.to_owned(),
            from,
            to,
            place: Place::Day,
        }
    }

    /// Returns the parts in the partitions of the hour. Both times must be within one UTC hour.
    pub fn of_hour(source: &str, from: UnixMillis, to: UnixMillis) -> impl Iterator<Item = Self> {
        (0..TIME_SHARDS).map(move |shard| Self {
            source: source.to_owned(),
            from,
            to,
            place: Place::Hour { shard },
        })
    }

    /// Returns whether the part is in a partition of its hour.
    pub fn is_of_hour(&self) -> bool {
        self.place != Place::Day
    }

    /// Returns the name of the partition.
    fn partition(&self) -> String {
        match self.place {
            Place::Day => time_index::of_day(&self.source, self.from),
            Place::Hour { shard } => time_index::of_hour(&self.source, self.from, shard),
        }
    }
}

impl<T> Page<T> {
    /// Converts each item of the page with `read`. Leaves out the items that `read` rejects.
    pub(super) fn read<U>(self, read: impl Fn(&T) -> Option<U>) -> Page<U> {
        Page {
            found: self.found.iter().filter_map(read).collect(),
            next: self.next,
            cost: self.cost,
        }
    }
}

impl Ledger {
    /// Returns the next entries of a part of the `time` index, by time of receipt. Without a limit,
    /// the page has as many entries as one response holds.
    pub(crate) async fn of_hour(
        &self,
        part: &HourPart,
        forward: bool,
        limit: Option<i32>,
        start: Option<Next>,
    ) -> anyhow::Result<Page<Item>> {
        let from = format!("{:013}", part.from.0.max(0));
        let to = format!("{:013}#\u{10FFFF}", part.to.0.max(0));
        let query = self.table.query().index_name("time");
        let query = query
            .key_condition_expression("tpk = :part AND tsk BETWEEN :from AND :to")
            .projection_expression("pk, tsk")
            .expression_attribute_values(":part", item::s(part.partition()))
            .expression_attribute_values(":from", item::s(from))
            .expression_attribute_values(":to", item::s(to))
            .scan_index_forward(forward)
            .set_limit(limit);
        let page = self.page(query, start).await;
        page.context("list the events of an hour")
    }

    /// Returns the next events in one part of the `work` index, from all sources. Without a limit,
    /// the page has as many events as one response holds. The index time of an event is its next
    /// check, or the time at which it became a dead letter. This time is later than the receipt, so
    /// the pages include every event that was received at `since` or later. Older events may be
    /// missing.
    pub async fn waiting_page(
        &self,
        what: Waiting,
        shard: u8,
        since: UnixMillis,
        limit: Option<i32>,
        start: Option<Next>,
    ) -> anyhow::Result<Page<EventKey>> {
        let name = match what {
            Waiting::Open => format!("W#{}", shard % WORK_SHARDS),
            Waiting::Dead => format!("D#{}", shard % WORK_SHARDS),
            Waiting::Quarantined => QUARANTINED.to_owned(),
        };
        let query = self.table.query().index_name("work");
        let query = query
            .key_condition_expression("gpk = :part AND gsk >= :since")
            .projection_expression("pk")
            .expression_attribute_values(":part", item::s(name))
            .expression_attribute_values(":since", item::ms(since))
            .set_limit(limit);
        let page = self.page(query, start).await;
        Ok(page.context("list the waiting events")?.read(key_of))
    }

    /// Returns the next page of a query.
    pub(crate) async fn page(
        &self,
        query: QueryFluentBuilder,
        start: Option<Next>,
    ) -> anyhow::Result<Page<Item>> {
        let query = query
            .set_exclusive_start_key(start.map(|next| next.0))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        // The box keeps the futures of callers that read many pages small.
        let answer = Box::pin(query.send()).await?;
        Ok(Page {
            cost: Cost::of(answer.consumed_capacity()),
            found: answer.items.unwrap_or_default(),
            next: answer.last_evaluated_key.map(Next),
        })
    }

    /// Returns all items of a partition whose sort key begins with `prefix`. The read is eventually
    /// consistent.
    pub(crate) async fn items_below(
        &self,
        pk: &str,
        prefix: &str,
    ) -> anyhow::Result<(Vec<Item>, Cost)> {
        let (mut found, mut cost, mut start) = (Vec::new(), Cost::default(), None);
        loop {
            let query = self.table.query();
            let query = query
                .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
                .expression_attribute_values(":pk", item::s(pk))
                .expression_attribute_values(":prefix", item::s(prefix));
            let page = self.page(query, start).await;
            let page = page.with_context(|| format!("list the items {pk} {prefix}"))?;
            cost += page.cost;
            found.extend(page.found);
            start = page.next;
            if start.is_none() {
                return Ok((found, cost));
            }
        }
    }

    /// Returns the state rows of events in no order, with the given attributes or with all
    /// attributes. The read is eventually consistent. Events without a row are left out.
    pub(crate) async fn state_rows(
        &self,
        keys: &[EventKey],
        attributes: Option<&str>,
    ) -> anyhow::Result<(Vec<Item>, Cost)> {
        let keys: Vec<Item> = keys.iter().map(row_of).collect();
        self.items(&keys, attributes).await
    }

    /// Reads items by their keys. Items that do not exist are left out.
    pub(crate) async fn items(
        &self,
        keys: &[Item],
        attributes: Option<&str>,
    ) -> anyhow::Result<(Vec<Item>, Cost)> {
        let (items, used) = self.table.batch(keys, attributes, false).await?;
        let mut cost = Cost::default();
        for used in &used {
            cost += Cost::of(used.as_ref());
        }
        Ok((items, cost))
    }
}

/// Returns the event that an item belongs to.
pub(super) fn key_of(item: &Item) -> Option<EventKey> {
    EventKey::from_pk(item::text(item, "pk")?)
}

fn row_of(key: &EventKey) -> Item {
    Item::from([
        ("pk".to_owned(), item::s(key.pk())),
        ("sk".to_owned(), item::s("M")),
    ])
}

impl Cost {
    /// Returns the cost of one call.
    pub(super) fn of(used: Option<&ConsumedCapacity>) -> Self {
        let units = used.and_then(ConsumedCapacity::capacity_units);
        Self {
            calls: 1,
            read_units: units.unwrap_or(0.0),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.read_units += other.read_units;
    }
}
