//! Events that came a moment ago, and stand in no part of the `work` index.
//!
//! Nearly every event is done within seconds. To put each into the index and to take it out again
//! would be two of seven write units, for the sake of the few whose doorbell is lost. So the
//! catcher leaves it out, and the sweep goes over all that came in the order of time, behind a mark
//! that says how far it is: what it finds open gets its place in the index, from which it is swept
//! like every other. When an hour is long over, it looks whether what the `time` index shows of it is
//! what it saw; if not, it goes over that hour again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use aws_sdk_dynamodb::types::{
    AttributeValue, ConsumedCapacity, KeysAndAttributes, ReturnConsumedCapacity,
};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::read::TIME_SHARDS;
use super::search::{Cost, MOST_AT_ONCE, TRIES, wait_for_rest};
use super::{Item, Ledger, SCHEMA, State, Write, item, transition};
use crate::clock::Millis;
use crate::event::EventKey;
use crate::hours::{self, Hour};
use crate::timing::{LAST_LOOK, MARKS_FROM};

const PK: &str = "SYS";
const SK: &str = "FRESH";

/// Another clock may be ahead of ours.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// Parts of the index that are read at the same time.
const AT_ONCE: usize = 16;

/// Who sees to an event whose doorbell is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The sweep finds it by the time at which it was received. Only for what is put as soon as it
    /// is received: behind its mark the sweep does not look.
    ByTime,
    /// It gets its place in the `work` index with its row.
    ByIndex,
}

/// How far the sweep has gone over what came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// All that was received until then was looked at.
    pub at: Millis,
    /// The first hour of which it is not known whether all of it was seen.
    pub hour: Hour,
    /// What was seen of each hour since.
    seen: BTreeMap<Hour, Sum>,
    /// The sources that were looked at.
    sources: BTreeSet<String>,
    /// Those that are configured no more, and when that was seen. What came for them is still
    /// looked at.
    gone: BTreeMap<String, Millis>,
}

/// A fingerprint of some events, in any order: of the same events it is the same, and of others,
/// or of one of them twice, as good as never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

/// A part of the `time` index, between two moments of one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    source: String,
    shard: u8,
    from: Millis,
    to: Millis,
}

/// A place in a stretch.
#[derive(Clone, Debug)]
pub struct Further(Item);

/// What is open of what came a moment ago.
#[derive(Clone, Debug, Default)]
pub struct Fresh {
    /// In no order.
    pub open: Vec<EventKey>,
    /// Whether there may be more.
    pub or_more: bool,
    pub cost: Cost,
}

impl Marks {
    /// Where an inbox begins that was never swept so.
    pub fn new(now: Millis) -> Self {
        Self {
            at: now - MARKS_FROM,
            hour: Hour::of(now - MARKS_FROM),
            seen: BTreeMap::new(),
            sources: BTreeSet::new(),
            gone: BTreeMap::new(),
        }
    }

    /// Every source that is to be looked at, now that these are configured.
    pub fn sources<'s>(
        &mut self,
        configured: impl Iterator<Item = &'s str>,
        now: Millis,
    ) -> Vec<String> {
        let configured: BTreeSet<String> = configured.map(str::to_owned).collect();
        for source in self.sources.difference(&configured) {
            self.gone.entry(source.clone()).or_insert(now);
        }
        // Until the hour is checked in which another function may still have known it.
        self.gone.retain(|source, since| {
            !configured.contains(source) && now.since(*since) < 3 * LAST_LOOK
        });
        self.sources.clone_from(&configured);
        configured
            .into_iter()
            .chain(self.gone.keys().cloned())
            .collect()
    }

    /// These were seen, of this hour.
    pub fn saw(&mut self, hour: Hour, sum: Sum) {
        let seen = self.seen.entry(hour).or_default();
        *seen = seen.and(sum);
    }

    /// An hour is checked: whether this is what was seen of it.
    pub fn was_all_of(&mut self, hour: Hour, sum: Sum) -> bool {
        self.seen.remove(&hour).unwrap_or_default() == sum
    }

    fn read(item: &Item) -> Option<Self> {
        let seen = item.get("seen").and_then(|seen| seen.as_m().ok());
        let seen = seen.into_iter().flatten().filter_map(|(hour, sum)| {
            Some((Hour::parse(hour)?, Sum(sum.as_n().ok()?.parse().ok()?)))
        });
        let gone = item.get("gone").and_then(|gone| gone.as_m().ok());
        let gone = gone.into_iter().flatten().filter_map(|(source, since)| {
            Some((source.clone(), Millis(since.as_n().ok()?.parse().ok()?)))
        });
        let sources = item.get("src").and_then(|sources| sources.as_l().ok());
        let sources = sources.into_iter().flatten();
        let sources = sources.filter_map(|source| source.as_s().ok().cloned());
        Some(Self {
            at: item::time(item, "at")?,
            hour: Hour::parse(item::text(item, "hour")?)?,
            seen: seen.collect(),
            sources: sources.collect(),
            gone: gone.collect(),
        })
    }

    fn write(&self) -> Item {
        let mut item = Item::from([
            ("pk".to_owned(), item::s(PK)),
            ("sk".to_owned(), item::s(SK)),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("at".to_owned(), item::ms(self.at)),
            ("hour".to_owned(), item::s(self.hour.name())),
        ]);
        if !self.seen.is_empty() {
            let seen = self.seen.iter();
            let seen = seen.map(|(hour, sum)| (hour.name(), item::n(sum.0)));
            item.insert("seen".to_owned(), AttributeValue::M(seen.collect()));
        }
        if !self.sources.is_empty() {
            let sources = self.sources.iter().map(item::s).collect();
            item.insert("src".to_owned(), AttributeValue::L(sources));
        }
        if !self.gone.is_empty() {
            let gone = self.gone.iter();
            let gone = gone.map(|(source, since)| (source.clone(), item::ms(*since)));
            item.insert("gone".to_owned(), AttributeValue::M(gone.collect()));
        }
        item
    }
}

impl Sum {
    /// Some of which it is not known whether they were seen.
    pub const UNSURE: Self = Self(1);

    pub fn of<'k>(keys: impl IntoIterator<Item = &'k EventKey>) -> Self {
        let keys = keys.into_iter();
        keys.fold(Self::default(), |sum, key| {
            sum.and(Self(transition::hash(&key.pk())))
        })
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Stretch {
    /// The parts that hold what came for a source between two moments, both inclusive and within
    /// one hour of UTC.
    pub fn of(source: &str, from: Millis, to: Millis) -> impl Iterator<Item = Self> {
        (0..TIME_SHARDS).map(move |shard| Self {
            source: source.to_owned(),
            shard,
            from,
            to,
        })
    }
}

impl Ledger {
    /// How far the sweep has gone; `None` before its first time.
    pub async fn marks(&self) -> anyhow::Result<Option<Marks>> {
        let item = self.get(PK, SK).await?;
        Ok(item.as_ref().and_then(Marks::read))
    }

    /// Notes how far it has gone. Of two sweeps at once either may be last: what it notes was all
    /// looked at.
    pub async fn keep_marks(&self, marks: &Marks) -> anyhow::Result<()> {
        self.put("note how far the sweep has gone", marks.write(), None)
            .await?;
        Ok(())
    }

    /// Some of the events of a stretch, newest first, and where to go on.
    pub async fn in_stretch(
        &self,
        stretch: &Stretch,
        start: Option<Further>,
    ) -> anyhow::Result<(Vec<EventKey>, Option<Further>, Cost)> {
        let Stretch {
            source,
            shard,
            from,
            to,
        } = stretch;
        let name = format!("T#{source}#{}#{shard}", from.hour());
        let answer = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .index_name("time")
            .key_condition_expression("tpk = :part AND tsk BETWEEN :from AND :to")
            .projection_expression("pk")
            .expression_attribute_values(":part", item::s(name))
            .expression_attribute_values(":from", item::s(format!("{:013}", from.0.max(0))))
            .expression_attribute_values(":to", item::s(format!("{:013}#\u{10FFFF}", to.0.max(0))))
            .scan_index_forward(false)
            .set_exclusive_start_key(start.map(|further| further.0))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .context("list what came a moment ago")?;
        let keys = answer.items().iter();
        let keys = keys.filter_map(|keys| EventKey::from_pk(item::text(keys, "pk")?));
        let cost = Cost::of(answer.consumed_capacity());
        Ok((keys.collect(), answer.last_evaluated_key.map(Further), cost))
    }

    /// Those of at most a hundred events that are open and stand in no part of the `work` index, as
    /// of a moment ago.
    pub async fn unwatched(&self, keys: &[EventKey]) -> anyhow::Result<(Vec<EventKey>, Cost)> {
        ensure!(keys.len() <= MOST_AT_ONCE, "too many rows for one request");
        let key = |key: &EventKey| {
            let sk = ("sk".to_owned(), item::s("M"));
            Item::from([("pk".to_owned(), item::s(key.pk())), sk])
        };
        let (mut found, mut cost, mut tries) = (Vec::new(), Cost::default(), 0);
        let mut asked: Vec<Item> = keys.iter().map(key).collect();
        while !asked.is_empty() {
            ensure!(
                tries < TRIES,
                "DynamoDB does not get to {} rows",
                asked.len()
            );
            wait_for_rest(tries).await;
            tries += 1;
            let these = KeysAndAttributes::builder()
                .set_keys(Some(asked))
                .projection_expression("pk, st, gpk");
            let answer = self
                .dynamodb
                .batch_get_item()
                .request_items(&self.table, these.build()?)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await
                .context("see which events are open")?;
            cost.calls += 1;
            let used = answer.consumed_capacity().iter();
            cost.read_units += used
                .filter_map(ConsumedCapacity::capacity_units)
                .sum::<f64>();
            let rows = answer.responses.unwrap_or_default().remove(&self.table);
            let rows = rows.unwrap_or_default();
            let open = rows.iter().filter(|row| is_unwatched(row));
            found.extend(open.filter_map(|row| EventKey::from_pk(item::text(row, "pk")?)));
            let rest = answer.unprocessed_keys.unwrap_or_default();
            asked = rest
                .get(&self.table)
                .map(|rest| rest.keys().to_vec())
                .unwrap_or_default();
        }
        Ok((found, cost))
    }

    /// Gives an open event its place in the `work` index, to be looked at now. `false`: it has one,
    /// or is open no more.
    pub async fn watch(&self, key: &EventKey, now: Millis) -> anyhow::Result<bool> {
        let pk = key.pk();
        let change = transition::watch(&pk, now);
        Ok(match self.change(&pk, change).await? {
            Write::Applied(_) => true,
            // Our own write, its answer lost, is for the next sweep, which sees it in the index.
            Write::Refused(_) => false,
        })
    }

    /// The open events of these sources that stand in no part of the `work` index: of what came for
    /// each of them within an hour, the newest of a part of the `time` index, and about `most`.
    pub async fn fresh(&self, sources: &[&str], now: Millis, most: usize) -> anyhow::Result<Fresh> {
        let marks = self.marks().await?.unwrap_or_else(|| Marks::new(now));
        let spans = hours::cut(Millis(marks.at.0 + 1), now + CLOCKS_APART);
        let stretches = sources.iter().flat_map(|source| {
            let spans = spans.iter();
            spans.flat_map(move |(from, to)| Stretch::of(source, *from, *to))
        });
        let found: Vec<Fresh> = stream::iter(stretches)
            .map(|stretch| self.fresh_of(stretch, most))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let mut fresh = Fresh {
            cost: Cost {
                calls: 1,
                read_units: 1.0,
            },
            ..Fresh::default()
        };
        for part in found {
            fresh.open.extend(part.open);
            fresh.or_more |= part.or_more;
            fresh.cost += part.cost;
        }
        Ok(fresh)
    }

    async fn fresh_of(&self, stretch: Stretch, most: usize) -> anyhow::Result<Fresh> {
        let (mut fresh, mut seen, mut start) = (Fresh::default(), 0, None);
        loop {
            let (keys, further, cost) = self.in_stretch(&stretch, start).await?;
            fresh.cost += cost;
            for keys in keys.chunks(MOST_AT_ONCE) {
                if seen >= most {
                    fresh.or_more = true;
                    return Ok(fresh);
                }
                seen += keys.len();
                let (open, cost) = self.unwatched(keys).await?;
                fresh.open.extend(open);
                fresh.cost += cost;
            }
            start = further;
            if start.is_none() {
                return Ok(fresh);
            }
        }
    }
}

fn is_unwatched(row: &Item) -> bool {
    let state = item::text(row, "st").and_then(State::parse);
    // What newer code calls open by another name is open.
    let ended = matches!(
        state,
        Some(State::Done | State::DeadLetter | State::Quarantined)
    );
    !ended && !row.contains_key("gpk")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_795_219_195_000);

    #[test]
    fn marks_are_read_as_they_were_written() {
        let mut marks = Marks::new(NOW);
        assert_eq!(Marks::read(&marks.write()), Some(marks.clone()));
        marks.sources(["a", "b"].into_iter(), NOW);
        marks.sources(["b"].into_iter(), NOW);
        marks.saw(Hour::of(NOW), Sum(u64::MAX));
        assert_eq!(Marks::read(&marks.write()), Some(marks));
        assert_eq!(Marks::read(&Item::new()), None);
    }

    #[test]
    fn a_source_that_is_configured_no_more_is_looked_at_until_its_last_hour_is_checked() {
        let mut marks = Marks::new(NOW);
        let mut at = |configured: &[&str], minutes: u64| {
            let now = NOW + Duration::from_secs(60 * minutes);
            marks.sources(configured.iter().copied(), now)
        };
        assert_eq!(at(&["a", "b"], 0), ["a", "b"]);
        assert_eq!(at(&["b"], 1), ["b", "a"]);
        assert_eq!(at(&["b"], 180), ["b", "a"]);
        assert_eq!(at(&["b"], 181), ["b"]);
        assert_eq!(at(&["a", "b"], 182), ["a", "b"]);
    }

    #[test]
    fn an_hour_was_all_seen_if_each_of_its_events_was_seen_once() {
        let keys: Vec<_> = (0..5)
            .map(|n| EventKey::new("s", &format!("evt_{n}")))
            .collect();
        let hour = Hour::of(NOW);
        let check = |parts: &[&[EventKey]]| {
            let mut marks = Marks::new(NOW);
            for part in parts {
                marks.saw(hour, Sum::of(*part));
            }
            marks.was_all_of(hour, Sum::of(keys.iter().rev()))
        };
        assert!(check(&[&keys]) && check(&[&keys[3..], &keys[..3]]));
        assert!(!check(&[&keys[1..]]) && !check(&[]));
        assert!(!check(&[&keys, &keys[..1]]) && !check(&[&keys[1..], &keys[1..2]]));
        let mut marks = Marks::new(NOW);
        marks.saw(hour, Sum::of(&keys).and(Sum::UNSURE));
        assert!(!marks.was_all_of(hour, Sum::of(&keys)));
        assert!(marks.was_all_of(hour, Sum::default()), "nothing came");
    }

    #[test]
    fn only_what_is_open_and_in_no_index_is_unwatched() {
        let row = |state: &str, indexed: bool| {
            let mut row = Item::from([("st".to_owned(), item::s(state))]);
            if indexed {
                row.insert("gpk".to_owned(), item::s("W#1"));
            }
            is_unwatched(&row)
        };
        assert!(row("received", false) && row("processing", false));
        assert!(row("a state to come", false));
        assert!(!row("received", true) && !row("failed", true));
        assert!(!row("done", false) && !row("dead_letter", false) && !row("quarantined", false));
    }
}
