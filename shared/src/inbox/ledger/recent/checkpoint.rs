//! The checkpoint of the sweep over recent events, the checksums of hours that are not verified yet,
//! and the numbers of events of the newest hours.

use crate::inbox::ledger::SweepStore;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::base::calendar::Hour;
use crate::base::clock::UnixMillis;
use crate::base::timing::{LAST_LOOK, MARKS_FROM};
use crate::inbox::ledger::transition;
use crate::inbox::ledger::{Item, SCHEMA, item};
use crate::webhook::event::EventKey;

const PK: &str = "SYS";
const SK: &str = "FRESH";

/// A position up to which sweeps that read the partitions of days have checked all events. It
/// outlives a rollback, whose sweeps write only the checkpoint.
const SK_BY_DAY: &str = "FRESH#DAY";

/// The time within which an update of the stack has replaced all functions.
const UPDATE: Duration = Duration::from_secs(900);

/// The position of the sweep in the `time` index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepCheckpoint {
    /// The sweep has checked all events that were received up to this time.
    pub at: UnixMillis,
    /// The first hour for which the sweep has not verified that it saw all events.
    pub hour: Hour,
    /// The checksum of the events that the sweep has seen, for each hour that is not verified.
    seen: BTreeMap<Hour, Checksum>,
    /// The number of events that the sweep has seen up to `at`, for each source with events, in the
    /// hour of `at` and the hour before. An hour is missing if the sweep has not scanned it from its
    /// beginning without a failure.
    arrived: BTreeMap<Hour, BTreeMap<String, u64>>,
    /// All catchers put events into the partitions of days from this time on, as `time_index.rs`
    /// describes. A sweep of an older release removes it.
    pub by_day_from: Option<UnixMillis>,
    /// The sources that the sweep scans.
    sources: BTreeSet<String>,
    /// The sources that are no longer configured, with the time at which the sweep noticed the
    /// change. The sweep still scans their recent events.
    gone: BTreeMap<String, UnixMillis>,
}

/// A checksum of a set of events, independent of their order. A different set, or a set with one
/// event counted twice, has a different checksum with very high probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum(u64);

impl SweepCheckpoint {
    /// Returns the first checkpoint of an inbox whose recent events were never scanned.
    pub fn new(now: UnixMillis) -> Self {
        Self {
            at: now - MARKS_FROM,
            hour: Hour::of(now - MARKS_FROM),
            seen: BTreeMap::new(),
            arrived: BTreeMap::new(),
            // The inbox is new, so no older release has put events into it.
            by_day_from: Some(UnixMillis(0)),
            sources: BTreeSet::new(),
            gone: BTreeMap::new(),
        }
    }

    /// Sets the time from which all catchers use the partitions of days, unless it is set. An update
    /// of the stack replaces the functions one after the other, so this is the beginning of an hour
    /// that begins later. Returns whether it was not set.
    pub fn begin_by_day(&mut self, now: UnixMillis) -> bool {
        let begins = Hour::of(now + UPDATE).ends();
        let is_first = self.by_day_from.is_none();
        self.by_day_from.get_or_insert(begins);
        is_first
    }

    /// Moves the checkpoint back to the position of the last sweep that read the partitions of days.
    /// Sweeps of an older release have moved it over events that they could not see.
    fn move_back(&mut self, by_day: &Item) {
        let at = item::time(by_day, "at");
        let hour = item::text(by_day, "hour").and_then(Hour::parse);
        let (Some(at), Some(hour)) = (at, hour) else {
            return;
        };
        self.at = self.at.min(at);
        self.arrived.clear();
        if hour < self.hour {
            self.hour = hour;
            // The sums of the hours since then lack the events that were not seen.
            self.seen.clear();
        }
    }

    /// Updates the configured sources, and returns every source that the sweep must scan.
    pub fn sources<'s>(
        &mut self,
        configured: impl Iterator<Item = &'s str>,
        now: UnixMillis,
    ) -> Vec<String> {
        let configured: BTreeSet<String> = configured.map(str::to_owned).collect();
        for source in self.sources.difference(&configured) {
            self.gone.entry(source.clone()).or_insert(now);
        }
        // Another function may still have the old configuration and receive events of a removed
        // source. The sweep scans the source until the hours of such events are verified.
        self.gone.retain(|source, since| {
            !configured.contains(source) && now.since(*since) < 3 * LAST_LOOK
        });
        self.sources.clone_from(&configured);
        configured
            .into_iter()
            .chain(self.gone.keys().cloned())
            .collect()
    }

    /// Adds the checksum of events that the sweep has seen in an hour.
    pub fn add_seen(&mut self, hour: Hour, sum: Checksum) {
        let seen = self.seen.entry(hour).or_default();
        *seen = seen.and(sum);
    }

    /// Adds the numbers of events that a scan from `from` on has seen, by source, or `None` if the
    /// scan had a failure. The scan must be within one hour, and follow the checkpoint.
    pub fn add_arrived(&mut self, from: UnixMillis, arrived: Option<&BTreeMap<String, u64>>) {
        let hour = Hour::of(from);
        let oldest = hour.before(1);
        self.arrived
            .retain(|known, _| (oldest..=hour).contains(known));
        let Some(arrived) = arrived else {
            self.arrived.remove(&hour);
            return;
        };
        if from == hour.begins() {
            self.arrived.insert(hour, BTreeMap::new());
        }
        let Some(known) = self.arrived.get_mut(&hour) else {
            return;
        };
        for (source, events) in arrived.iter().filter(|(_, events)| **events > 0) {
            *known.entry(source.clone()).or_default() += events;
        }
    }

    /// Returns how many events of a source the sweep has seen in an hour, up to the checkpoint. An
    /// event that was stored late can be missing. Returns `None` if the number is unknown.
    pub fn arrived(&self, source: &str, hour: Hour) -> Option<u64> {
        let arrived = self.arrived.get(&hour)?;
        Some(arrived.get(source).copied().unwrap_or(0))
    }

    /// Removes the numbers of events.
    pub(in crate::inbox::ledger) fn ignore_arrived(&mut self) {
        self.arrived.clear();
    }

    /// Removes the checksum of an hour. Returns whether `sum` equals the checksum of the events
    /// that the sweep has seen in this hour.
    pub fn take_if_complete(&mut self, hour: Hour, sum: Checksum) -> bool {
        self.seen.remove(&hour).unwrap_or_default() == sum
    }

    fn read(item: &Item) -> Option<Self> {
        let seen = item.get("seen").and_then(|seen| seen.as_m().ok());
        let seen = seen.into_iter().flatten().filter_map(|(hour, sum)| {
            Some((Hour::parse(hour)?, Checksum(sum.as_n().ok()?.parse().ok()?)))
        });
        let arrived = item.get("n").and_then(|arrived| arrived.as_m().ok());
        let arrived = arrived.into_iter().flatten().filter_map(|(hour, sources)| {
            let sources = sources.as_m().ok()?.iter().filter_map(|(source, events)| {
                Some((source.clone(), events.as_n().ok()?.parse().ok()?))
            });
            Some((Hour::parse(hour)?, sources.collect()))
        });
        let gone = item.get("gone").and_then(|gone| gone.as_m().ok());
        let gone = gone.into_iter().flatten().filter_map(|(source, since)| {
            Some((source.clone(), UnixMillis(since.as_n().ok()?.parse().ok()?)))
        });
        let sources = item.get("src").and_then(|sources| sources.as_l().ok());
        let sources = sources.into_iter().flatten();
        let sources = sources.filter_map(|source| source.as_s().ok().cloned());
        Some(Self {
            at: item::time(item, "at")?,
            hour: Hour::parse(item::text(item, "hour")?)?,
            seen: seen.collect(),
            arrived: arrived.collect(),
            by_day_from: item::time(item, "tl"),
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
        if let Some(from) = self.by_day_from {
            item.insert("tl".to_owned(), item::ms(from));
        }
        if !self.seen.is_empty() {
            let seen = self.seen.iter();
            let seen = seen.map(|(hour, sum)| (hour.name(), item::n(sum.0)));
            item.insert("seen".to_owned(), AttributeValue::M(seen.collect()));
        }
        if !self.arrived.is_empty() {
            let arrived = self.arrived.iter().map(|(hour, sources)| {
                let sources = sources.iter();
                let sources = sources.map(|(source, events)| (source.clone(), item::n(events)));
                (hour.name(), AttributeValue::M(sources.collect()))
            });
            item.insert("n".to_owned(), AttributeValue::M(arrived.collect()));
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

impl Checksum {
    /// The sweep adds this value to the checksum of an hour if a scan may have missed events. The
    /// hour then fails its verification.
    pub const UNKNOWN: Self = Self(1);

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

impl SweepStore<'_> {
    /// Returns the checkpoint, or `None` before the first sweep.
    pub async fn sweep_checkpoint(self) -> anyhow::Result<Option<SweepCheckpoint>> {
        let item = self.get(PK, SK).await?;
        let Some(mut marks) = item.as_ref().and_then(SweepCheckpoint::read) else {
            return Ok(None);
        };
        // A sweep of an older release stored it.
        if marks.by_day_from.is_none()
            && let Some(by_day) = self.get(PK, SK_BY_DAY).await?
        {
            marks.move_back(&by_day);
        }
        Ok(Some(marks))
    }

    /// Stores a first checkpoint, unless another sweep has already stored one. Returns the new
    /// checkpoint in both cases.
    pub async fn begin_sweep_checkpoint(self, now: UnixMillis) -> anyhow::Result<SweepCheckpoint> {
        let marks = SweepCheckpoint::new(now);
        let absent = ("attribute_not_exists(pk)", Item::new());
        self.put(
            "store the first checkpoint of the sweep",
            marks.write(),
            Some(absent),
        )
        .await?;
        self.store_sweep_position(&marks).await?;
        Ok(marks)
    }

    /// Stores the checkpoint. If two sweeps run at the same time, either can write last. Both
    /// checkpoints are correct, because each covers only checked events.
    pub async fn store_sweep_checkpoint(self, marks: &SweepCheckpoint) -> anyhow::Result<()> {
        self.put("store the checkpoint of the sweep", marks.write(), None)
            .await?;
        Ok(())
    }

    /// Stores the position to which the checkpoint moves back after a rollback. Call this when an
    /// hour is verified, and when the first sweep reads the partitions of days.
    pub async fn store_sweep_position(self, marks: &SweepCheckpoint) -> anyhow::Result<()> {
        let mut by_day = marks.write();
        by_day.insert("sk".to_owned(), item::s(SK_BY_DAY));
        by_day.retain(|name, _| ["pk", "sk", "sv", "at", "hour"].contains(&name.as_str()));
        self.put("store the position of the sweep", by_day, None)
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_219_195_000);

    #[test]
    fn marks_are_read_as_they_were_written() {
        let mut marks = SweepCheckpoint::new(NOW);
        assert_eq!(SweepCheckpoint::read(&marks.write()), Some(marks.clone()));
        marks.sources(["a", "b"].into_iter(), NOW);
        marks.sources(["b"].into_iter(), NOW);
        marks.add_seen(Hour::of(NOW), Checksum(u64::MAX));
        let arrived = BTreeMap::from([("b".to_owned(), 7)]);
        marks.add_arrived(Hour::of(NOW).begins(), Some(&arrived));
        marks.by_day_from = None;
        marks.begin_by_day(NOW);
        assert_eq!(SweepCheckpoint::read(&marks.write()), Some(marks));
        assert_eq!(SweepCheckpoint::read(&Item::new()), None);
    }

    #[test]
    fn a_checkpoint_of_an_older_release_moves_back_to_what_was_seen() {
        let mut newer = SweepCheckpoint::new(NOW);
        let seen = newer.write();
        newer.at = NOW;
        newer.hour = Hour::of(NOW);
        newer.add_seen(newer.hour, Checksum(7));
        newer.add_arrived(newer.hour.begins(), Some(&BTreeMap::new()));
        newer.move_back(&seen);
        assert_eq!(newer, SweepCheckpoint::new(NOW));
        newer.move_back(&Item::new());
        assert_eq!(newer, SweepCheckpoint::new(NOW));
        let later = SweepCheckpoint::new(NOW + Duration::from_secs(7200)).write();
        newer.move_back(&later);
        assert_eq!(newer, SweepCheckpoint::new(NOW));
    }

    #[test]
    fn a_source_that_is_configured_no_more_is_looked_at_until_its_last_hour_is_checked() {
        let mut marks = SweepCheckpoint::new(NOW);
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
    fn an_hour_has_a_number_of_events_if_all_of_it_was_scanned() {
        let (begin, hour) = (Hour::of(NOW).begins(), Hour::of(NOW));
        let middle = begin + Duration::from_secs(600);
        let seven = BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 0)]);
        let after = |scans: &[(UnixMillis, Option<&BTreeMap<String, u64>>)]| {
            let mut marks = SweepCheckpoint::new(NOW);
            for (from, arrived) in scans {
                marks.add_arrived(*from, *arrived);
            }
            marks
        };
        let all = after(&[(begin, Some(&seven)), (middle, Some(&seven))]);
        let of = |marks: &SweepCheckpoint, source| marks.arrived(source, hour);
        assert_eq!((of(&all, "a"), of(&all, "b")), (Some(14), Some(0)));
        assert_eq!(of(&all, "c"), Some(0), "no events");
        assert_eq!(all.arrived("a", hour.next()), None, "not scanned yet");
        let cut = after(&[(middle, Some(&seven))]);
        assert_eq!(
            of(&cut, "a"),
            None,
            "an older release scanned the beginning"
        );
        let failed = after(&[(begin, Some(&seven)), (middle, None)]);
        assert_eq!(of(&failed, "a"), None, "a scan failed");
        let next = hour.ends();
        let mut later = after(&[(begin, Some(&seven)), (next, Some(&seven))]);
        assert_eq!(of(&later, "a"), Some(7));
        later.add_arrived(Hour::of(next).ends(), None);
        assert_eq!(of(&later, "a"), None, "only two hours are kept");
    }

    #[test]
    fn an_hour_was_all_seen_if_each_of_its_events_was_seen_once() {
        let keys: Vec<_> = (0..5)
            .map(|n| EventKey::new("s", &format!("evt_{n}")))
            .collect();
        let hour = Hour::of(NOW);
        let check = |parts: &[&[EventKey]]| {
            let mut marks = SweepCheckpoint::new(NOW);
            for part in parts {
                marks.add_seen(hour, Checksum::of(*part));
            }
            marks.take_if_complete(hour, Checksum::of(keys.iter().rev()))
        };
        assert!(check(&[&keys]) && check(&[&keys[3..], &keys[..3]]));
        assert!(!check(&[&keys[1..]]) && !check(&[]));
        assert!(!check(&[&keys, &keys[..1]]) && !check(&[&keys[1..], &keys[1..2]]));
        let mut marks = SweepCheckpoint::new(NOW);
        marks.add_seen(hour, Checksum::of(&keys).and(Checksum::UNKNOWN));
        assert!(!marks.take_if_complete(hour, Checksum::of(&keys)));
        assert!(
            marks.take_if_complete(hour, Checksum::default()),
            "an hour without events is complete"
        );
    }
}
