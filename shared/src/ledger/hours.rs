//! Counts for people, at a price that does not grow with the table: hours that are over are counted
//! once and kept, and what is open, dead or done is looked at within bounds.

use std::collections::BTreeMap;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConsumedCapacity, KeysAndAttributes, ReturnConsumedCapacity,
};

use super::read::TIME_SHARDS;
use super::transition::{WORK_SHARDS, hours as change};
use super::{Item, Ledger, State, Waiting, Write, item};
use crate::clock::Millis;
use crate::event::EventKey;
use crate::hours::{Arrived, Hour};

/// For how long the count of an hour is kept.
const KEEP: std::time::Duration = std::time::Duration::from_secs(180 * 24 * 3600);

/// Keys that one request may name.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html>
const BATCH: usize = 100;

/// How often the rest of a batch is asked for again.
const TRIES: usize = 5;

/// What reading has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub calls: u64,
    pub read_units: f64,
}

impl Spent {
    /// Notes one call.
    pub fn on(&mut self, told: Option<&ConsumedCapacity>) {
        self.calls += 1;
        self.read_units += told
            .and_then(ConsumedCapacity::capacity_units)
            .unwrap_or(0.0);
    }

    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.read_units += other.read_units;
    }
}

/// The count of an hour that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourCount {
    pub hour: Hour,
    /// When it was counted.
    pub as_of: Millis,
    /// By source; one without events may be missing.
    pub sources: BTreeMap<String, Arrived>,
}

/// What statistics need to know of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    pub key: EventKey,
    pub state: State,
    pub kind: String,
    pub received_at: Millis,
    /// When it was done, of one that never was replayed.
    pub done_at: Option<Millis>,
}

/// A part of the `time` index: an hour of a source, cut into shards.
struct Part<'p> {
    source: &'p str,
    shard: u8,
    from: Millis,
    to: Millis,
}

impl Ledger {
    /// The hours that are counted, from one to another, both inclusive, in their order.
    pub async fn hour_counts(
        &self,
        from: Hour,
        to: Hour,
    ) -> anyhow::Result<(Vec<HourCount>, Spent)> {
        let (mut found, mut spent) = (Vec::new(), Spent::default());
        let mut start: Option<Item> = None;
        loop {
            let answer = self
                .dynamodb
                .query()
                .table_name(&self.table)
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":pk", item::s("SYS"))
                .expression_attribute_values(":from", item::s(sk(from)))
                .expression_attribute_values(":to", item::s(sk(to)))
                .set_exclusive_start_key(start)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .context("read the counts of past hours")?;
            spent.on(answer.consumed_capacity());
            found.extend(answer.items().iter().filter_map(read));
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok((found, spent));
            }
        }
    }

    /// Keeps the count of an hour. `false`: a newer one is there.
    pub async fn keep_hour(&self, count: &HourCount) -> anyhow::Result<bool> {
        let sources = count.sources.iter();
        let sources = sources.map(|(name, arrived)| (name.clone(), write(&arrived.kept())));
        let sources = AttributeValue::M(sources.collect());
        let change = change::count_hour(sources, count.as_of, count.hour.ends() + KEEP);
        let answer = self.change_item("SYS", &sk(count.hour), change).await?;
        // An answer that was lost is a refusal the second time, and the count is there.
        Ok(match answer {
            Write::Applied(_) => true,
            Write::Refused(there) => {
                there.is_some_and(|there| item::time(&there, "as_of") == Some(count.as_of))
            }
        })
    }

    /// Counts what came for a source from `from` to `to`, both inclusive and within one hour of
    /// UTC, newest first, in at most `pages` reads of each part of the index. What is kept apart
    /// from an event of the same key is no event of its own.
    pub async fn arrived(
        &self,
        source: &str,
        (from, to): (Millis, Millis),
        pages: usize,
    ) -> anyhow::Result<(Arrived, Spent)> {
        let (mut arrived, mut spent) = (Arrived::default(), Spent::default());
        for shard in 0..TIME_SHARDS {
            let part = Part {
                source,
                shard,
                from,
                to,
            };
            let mut start = None;
            for page in 1.. {
                let (items, next) = self.page(&part, None, start, &mut spent).await?;
                for (at, kind, _) in items.iter().filter_map(listed) {
                    arrived.add(at, kind);
                }
                start = next;
                if start.is_none() {
                    break;
                }
                if page >= pages {
                    arrived.or_more = true;
                    break;
                }
            }
        }
        Ok((arrived, spent))
    }

    /// About the newest `most` events of a source within one hour of UTC: as many of each part of
    /// the index as fall to it.
    pub async fn newest_of_hour(
        &self,
        source: &str,
        (from, to): (Millis, Millis),
        most: usize,
    ) -> anyhow::Result<(Vec<EventKey>, Spent)> {
        let (mut keys, mut spent) = (Vec::new(), Spent::default());
        let limit = i32::try_from(most.div_ceil(usize::from(TIME_SHARDS)).max(1))?;
        for shard in 0..TIME_SHARDS {
            let part = Part {
                source,
                shard,
                from,
                to,
            };
            let (items, _) = self.page(&part, Some(limit), None, &mut spent).await?;
            keys.extend(items.iter().filter_map(listed).map(|(_, _, key)| key));
        }
        Ok((keys, spent))
    }

    async fn page(
        &self,
        part: &Part<'_>,
        limit: Option<i32>,
        start: Option<Item>,
        spent: &mut Spent,
    ) -> anyhow::Result<(Vec<Item>, Option<Item>)> {
        let Part {
            source,
            shard,
            from,
            to,
        } = part;
        let name = format!("T#{source}#{}#{shard}", from.hour());
        let answer = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .index_name("time")
            .key_condition_expression("tpk = :part AND tsk BETWEEN :from AND :to")
            .projection_expression("pk, tsk")
            .expression_attribute_values(":part", item::s(name))
            .expression_attribute_values(":from", item::s(format!("{:013}", from.0.max(0))))
            .expression_attribute_values(":to", item::s(format!("{:013}#\u{10FFFF}", to.0.max(0))))
            .scan_index_forward(false)
            .set_limit(limit)
            .set_exclusive_start_key(start)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .context("count the events of an hour")?;
        spent.on(answer.consumed_capacity());
        Ok((answer.items.unwrap_or_default(), answer.last_evaluated_key))
    }

    /// The events that wait, whatever their source: at most `limit` of each part of the index, those
    /// first that are to be looked at next. And whether there are more.
    pub async fn all_waiting(
        &self,
        what: Waiting,
        limit: i32,
    ) -> anyhow::Result<(Vec<EventKey>, bool, Spent)> {
        let (mut keys, mut more, mut spent) = (Vec::new(), false, Spent::default());
        let kind = match what {
            Waiting::Open => "W",
            Waiting::Dead => "D",
        };
        for shard in 0..WORK_SHARDS {
            let answer = self
                .dynamodb
                .query()
                .table_name(&self.table)
                .index_name("work")
                .key_condition_expression("gpk = :part")
                .projection_expression("pk")
                .expression_attribute_values(":part", item::s(format!("{kind}#{shard}")))
                .limit(limit)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .context("count the events that wait")?;
            spent.on(answer.consumed_capacity());
            let found = answer.items().iter();
            keys.extend(found.filter_map(|found| EventKey::from_pk(item::text(found, "pk")?)));
            more |= answer.last_evaluated_key.is_some();
        }
        Ok((keys, more, spent))
    }

    /// What is known of these events, as of a moment ago. Those that are gone are left out, and so
    /// are rows that cannot be read.
    pub async fn briefs(&self, keys: &[EventKey]) -> anyhow::Result<(Vec<Brief>, Spent)> {
        let (mut found, mut spent) = (Vec::new(), Spent::default());
        for keys in keys.chunks(BATCH) {
            let keys = keys.iter().map(|key| {
                let pk = ("pk".to_owned(), item::s(key.pk()));
                Item::from([pk, ("sk".to_owned(), item::s("M"))])
            });
            let mut asked = Some(
                KeysAndAttributes::builder()
                    .set_keys(Some(keys.collect()))
                    .projection_expression("pk, st, ty, rcv, done_at, run")
                    .build()?,
            );
            for _ in 0..TRIES {
                let Some(now) = asked.take() else { break };
                let answer = self
                    .dynamodb
                    .batch_get_item()
                    .request_items(&self.table, now)
                    .return_consumed_capacity(ReturnConsumedCapacity::Total)
                    .send()
                    .await
                    .context("look at several events")?;
                spent.on(answer.consumed_capacity().first());
                let items = answer.responses.unwrap_or_default();
                found.extend(items.into_values().flatten().filter_map(|row| brief(&row)));
                let rest = answer.unprocessed_keys.unwrap_or_default();
                asked = rest.into_values().next();
            }
            anyhow::ensure!(
                asked.is_none(),
                "DynamoDB left some events unread, {TRIES} times"
            );
        }
        Ok((found, spent))
    }
}

fn brief(row: &Item) -> Option<Brief> {
    let first_run = item::number::<u64>(row, "run") == Some(0);
    Some(Brief {
        key: EventKey::from_pk(item::text(row, "pk")?)?,
        state: State::parse(item::text(row, "st")?)?,
        kind: item::text(row, "ty").unwrap_or_default().to_owned(),
        received_at: item::time(row, "rcv")?,
        done_at: item::time(row, "done_at").filter(|_| first_run),
    })
}

/// Time, type and key of an event in the `time` index; `None` of what is kept apart.
fn listed(keys: &Item) -> Option<(Millis, &str, EventKey)> {
    let key = EventKey::from_pk(item::text(keys, "pk")?)?;
    let (time, kind) = item::text(keys, "tsk")?.split_once('#')?;
    let apart = key.id().contains('~');
    (!apart).then_some((Millis(time.parse().ok()?), kind, key))
}

fn sk(hour: Hour) -> String {
    format!("STAT#{}", hour.name())
}

fn read(item: &Item) -> Option<HourCount> {
    let hour = Hour::parse(item::text(item, "sk")?.strip_prefix("STAT#")?)?;
    let sources = item.get("n")?.as_m().ok()?.iter();
    let sources = sources.filter_map(|(name, arrived)| {
        let arrived = arrived.as_m().ok()?;
        let kinds = arrived.get("k").and_then(|kinds| kinds.as_m().ok());
        let kinds = kinds.into_iter().flatten();
        let kinds =
            kinds.filter_map(|(kind, n)| Some((kind.clone(), n.as_n().ok()?.parse().ok()?)));
        let arrived = Arrived {
            events: item::number(arrived, "n")?,
            kinds: kinds.collect(),
            ..Arrived::default()
        };
        Some((name.clone(), arrived))
    });
    Some(HourCount {
        hour,
        as_of: item::time(item, "as_of")?,
        sources: sources.collect(),
    })
}

fn write(arrived: &Arrived) -> AttributeValue {
    let kinds = arrived.kinds.iter();
    let kinds = kinds.map(|(kind, n)| (kind.clone(), item::n(n)));
    AttributeValue::M(Item::from([
        ("n".to_owned(), item::n(arrived.events)),
        ("k".to_owned(), AttributeValue::M(kinds.collect())),
    ]))
}
