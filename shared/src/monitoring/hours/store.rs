//! Counts for operators, at a cost that does not grow with the table. Past hours are counted once
//! and stored; reads of open events, dead letters and done events are limited.

use std::collections::BTreeMap;
use std::ops::Deref;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::base::calendar::Hour;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::pages::{Cost, HourPart};
use crate::inbox::ledger::read::TIME_SHARDS;
use crate::inbox::ledger::transition::{WORK_SHARDS, hours as change};
use crate::inbox::ledger::{Item, Ledger, State, Waiting, Write, item};
use crate::monitoring::hours::Arrived;
use crate::webhook::event::EventKey;

/// How long the count of an hour is kept.
const KEEP: std::time::Duration = std::time::Duration::from_secs(180 * 24 * 3600);

/// The count of a past hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourCount {
    pub hour: Hour,
    /// When it was counted.
    pub as_of: UnixMillis,
    /// The counts by source; a source without events can be missing.
    pub sources: BTreeMap<String, Arrived>,
}

/// The attributes of an event that statistics need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    pub key: EventKey,
    pub state: State,
    pub kind: String,
    pub received_at: UnixMillis,
    /// When the event was done; `None` for a replayed event.
    pub done_at: Option<UnixMillis>,
}

/// Stored statistics: coverage by day, events by hour, gaps between webhooks.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'l>(&'l Ledger);

impl Ledger {
    /// Stored statistics: coverage by day, events by hour, gaps between webhooks.
    pub fn statistics(&self) -> Statistics<'_> {
        Statistics(self)
    }
}

impl Deref for Statistics<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.0
    }
}

impl Statistics<'_> {
    /// The stored counts from one hour to another, both inclusive, in order of time.
    pub async fn hour_counts(self, from: Hour, to: Hour) -> anyhow::Result<(Vec<HourCount>, Cost)> {
        let (mut found, mut spent) = (Vec::new(), Cost::default());
        let mut start = None;
        loop {
            let query = self.table.query();
            let query = query
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":pk", item::s("SYS"))
                .expression_attribute_values(":from", item::s(sk(from)))
                .expression_attribute_values(":to", item::s(sk(to)));
            let page = self.page(query, start).await;
            let page = page.context("read the counts of past hours")?;
            spent += page.cost;
            found.extend(page.found.iter().filter_map(read));
            start = page.next;
            if start.is_none() {
                return Ok((found, spent));
            }
        }
    }

    /// Stores the count of an hour; `false` if a newer count is stored.
    pub async fn keep_hour(self, count: &HourCount) -> anyhow::Result<bool> {
        let sources = count.sources.iter();
        let sources = sources.map(|(name, arrived)| (name.clone(), write(&arrived.kept())));
        let sources = AttributeValue::M(sources.collect());
        let change = change::count_hour(sources, count.as_of, count.hour.ends() + KEEP);
        let answer = self.change_item("SYS", &sk(count.hour), change).await?;
        // If the response was lost, the SDK's retry is refused, and the stored count is our own.
        Ok(match answer {
            Write::Applied(_) => true,
            Write::Refused(there) => {
                there.is_some_and(|there| item::time(&there, "as_of") == Some(count.as_of))
            }
        })
    }

    /// Counts the events of a source received from `from` to `to`, both inclusive and within one
    /// hour of UTC, newest first, with at most `pages` reads of each shard of the index.
    /// Quarantined events that conflict with an event of the same key are not counted.
    pub async fn arrived(
        self,
        source: &str,
        (from, to): (UnixMillis, UnixMillis),
        pages: usize,
    ) -> anyhow::Result<(Arrived, Cost)> {
        let (mut arrived, mut spent) = (Arrived::default(), Cost::default());
        for part in HourPart::of(source, from, to) {
            let mut start = None;
            for page in 1.. {
                let came = self.of_hour(&part, false, None, start).await?;
                spent += came.cost;
                for (at, kind, _) in came.found.iter().filter_map(listed) {
                    arrived.add(at, kind);
                }
                start = came.next;
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

    /// About the newest `most` events of a source within one hour of UTC: an equal share from each
    /// shard of the index.
    pub async fn newest_of_hour(
        self,
        source: &str,
        (from, to): (UnixMillis, UnixMillis),
        most: usize,
    ) -> anyhow::Result<(Vec<EventKey>, Cost)> {
        let (mut keys, mut spent) = (Vec::new(), Cost::default());
        let limit = i32::try_from(most.div_ceil(usize::from(TIME_SHARDS)).max(1))?;
        for part in HourPart::of(source, from, to) {
            let page = self.of_hour(&part, false, Some(limit), None).await?;
            spent += page.cost;
            keys.extend(page.found.iter().filter_map(listed).map(|(.., key)| key));
        }
        Ok((keys, spent))
    }

    /// The waiting events of all sources: at most `limit` from each shard of the index, ordered by
    /// their next time. Also returns whether there are more.
    pub async fn all_waiting(
        self,
        what: Waiting,
        limit: i32,
    ) -> anyhow::Result<(Vec<EventKey>, bool, Cost)> {
        let (mut keys, mut more, mut spent) = (Vec::new(), false, Cost::default());
        for shard in 0..WORK_SHARDS {
            let page = self.waiting_page(what, shard, UnixMillis(0), Some(limit), None);
            let page = page.await?;
            spent += page.cost;
            more |= page.next.is_some();
            keys.extend(page.found);
        }
        Ok((keys, more, spent))
    }

    /// Reads the attributes of these events, with eventual consistency. Deleted events and invalid
    /// rows are skipped.
    pub async fn briefs(self, keys: &[EventKey]) -> anyhow::Result<(Vec<Brief>, Cost)> {
        let attributes = "pk, st, ty, rcv, done_at, run";
        let (rows, spent) = self.state_rows(keys, Some(attributes)).await?;
        Ok((rows.iter().filter_map(brief).collect(), spent))
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

/// Time, type and key of an event in the `time` index; `None` for a conflicting event.
fn listed(keys: &Item) -> Option<(UnixMillis, &str, EventKey)> {
    let key = EventKey::from_pk(item::text(keys, "pk")?)?;
    let (time, kind) = item::text(keys, "tsk")?.split_once('#')?;
    let apart = key.id().contains('~');
    (!apart).then_some((UnixMillis(time.parse().ok()?), kind, key))
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
