//! Counts events for operators, at a cost that does not grow with the table. The events of a past
//! hour are counted once, and the counts are stored. Reads of open events, dead letters and done
//! events are limited.

use std::collections::BTreeMap;
use std::ops::Deref;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::try_join_all;

use crate::base::calendar::Hour;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::pages::{Cost, HourPart};
use crate::inbox::ledger::transition::{WORK_SHARDS, hours as change};
use crate::inbox::ledger::{Counted, Item, Ledger, State, Waiting, Write, item};
use crate::monitoring::hours::Arrived;
use crate::webhook::event::EventKey;

/// How long the counts of an hour are kept.
const KEEP: std::time::Duration = std::time::Duration::from_secs(180 * 24 * 3600);

/// The counts of a past hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourCount {
    pub hour: Hour,
    /// When the events were counted.
    pub as_of: UnixMillis,
    /// The counts by source. A source without events can be missing.
    pub sources: BTreeMap<String, Arrived>,
}

/// The attributes of an event that statistics need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    pub key: EventKey,
    pub state: State,
    pub kind: String,
    pub received_at: UnixMillis,
    /// When the event was done. The value is `None` if the event is not done, or if it was
    /// replayed.
    pub done_at: Option<UnixMillis>,
    /// Whether the event waits for an approval.
    pub is_held: bool,
}

/// The stored statistics: coverage by day, events by hour, and gaps between webhooks.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'l>(&'l Ledger);

impl Ledger {
    /// Returns the stored statistics.
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
    /// Returns the stored counts from one hour to another, both inclusive, in order of time.
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

    /// Stores the counts of an hour. Returns `false` if newer counts are stored.
    pub async fn keep_hour(self, count: &HourCount) -> anyhow::Result<bool> {
        let sources = count.sources.iter();
        let sources = sources.map(|(name, arrived)| (name.clone(), write(&arrived.kept())));
        let sources = AttributeValue::M(sources.collect());
        let change = change::count_hour(sources, count.as_of, count.hour.ends() + KEEP);
        let answer = self.change_item("SYS", &sk(count.hour), change).await?;
        // If the response was lost, DynamoDB refuses the SDK's retry, and the stored counts are our
        // own.
        Ok(match answer {
            Write::Applied(_) => true,
            Write::Refused(there) => {
                there.is_some_and(|there| item::time(&there, "as_of") == Some(count.as_of))
            }
        })
    }

    /// Notes which sources have events in a counted hour, so that readers skip the others. `counted`
    /// has every source that was counted.
    pub async fn note_active(
        self,
        hour: Hour,
        counted: &BTreeMap<String, Arrived>,
    ) -> anyhow::Result<()> {
        let notes = counted.iter().map(|(source, arrived)| {
            let counted = Counted {
                hour,
                has_events: arrived.has_entries,
                is_spread: arrived.is_spread,
            };
            (source.clone(), counted)
        });
        self.note_hour(&notes.collect::<Vec<_>>(), hour).await
    }

    /// Counts the events of a source that were received from `from` to `to`. Both times are
    /// inclusive, and must be within one hour of UTC. Reads the newest events first, with at most
    /// `pages` reads of each shard of the index. Does not count quarantined events that conflict
    /// with an event of the same key.
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
                arrived.has_entries |= !came.found.is_empty();
                arrived.is_spread |= part.is_of_hour() && !came.found.is_empty();
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

    /// Returns the waiting events of all sources, at most `limit` from each shard of the index. The
    /// events of each shard are ordered by their next time. Also returns whether there are more
    /// events.
    pub async fn all_waiting(
        self,
        what: Waiting,
        limit: i32,
    ) -> anyhow::Result<(Vec<EventKey>, bool, Cost)> {
        let (mut keys, mut more, mut spent) = (Vec::new(), false, Cost::default());
        let pages = (0..WORK_SHARDS)
            .map(|shard| self.waiting_page(what, shard, UnixMillis(0), Some(limit), None));
        for page in try_join_all(pages).await? {
            spent += page.cost;
            more |= page.next.is_some();
            keys.extend(page.found);
        }
        Ok((keys, more, spent))
    }

    /// Reads the attributes of these events, with eventual consistency. Skips deleted events and
    /// invalid rows.
    pub async fn briefs(self, keys: &[EventKey]) -> anyhow::Result<(Vec<Brief>, Cost)> {
        let attributes = "pk, st, ty, rcv, done_at, run, hld";
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
        is_held: row.contains_key("hld"),
    })
}

/// Returns the time, type and key of an event in the `time` index, or `None` for a conflicting
/// event.
fn listed(keys: &Item) -> Option<(UnixMillis, &str, EventKey)> {
    let key = EventKey::from_pk(item::text(keys, "pk")?)?;
    let (time, kind) = item::text(keys, "tsk")?.split_once('#')?;
    let apart = key.is_conflicting();
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
