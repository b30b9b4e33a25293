//! Where an event is in the `time` index, and which parts of the index have no events.
//!
//! The index lists the events of a source by time of receipt. A source has one partition for each
//! day, and four for each hour. Each process puts the first [`FIRST`] events of a source and hour into
//! the partition of the day, and all later ones into a partition of the hour. So a quiet source has one
//! partition, and the events of a busy source do not depend on the throughput of one. A reader that
//! finds fewer than [`FIRST`] events of an hour in the partition of the day has found all of them.
//!
//! An event that was stored long after its receipt breaks this rule: the drain stores spilled events,
//! and an operator releases rejected requests. The process notes such an hour before it stores the
//! event, and then readers ask all partitions of the hour.
//!
//! backup-sync counts each past hour, and notes which hours of which sources have events. Readers skip
//! the others. No event costs a write for this.
//!
//! | item | pk | sk | |
//! |---|---|---|---|
//! | hours with events | `SYS` | `HOURS#{yyyymmdd}` | `s#{source}`: three groups of 24 bits, see `active.rs`; `l#{source}#{hh}`: the hour got an event late |
//! | time from which all catchers follow this rule | `SYS` | `FRESH` | `tl`, see `recent/checkpoint.rs` |

mod active;
mod notes;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::calendar::Hour;
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

pub use active::{ActiveHours, ReadLimits, Reading, SourceEntries, crowded};
pub(crate) use notes::Counted;

/// The number of events of a source and hour that a process puts into the partition of the day.
pub const FIRST: usize = 64;

/// The time between the receipt and the put of an event, above which its hour is noted. It is longer
/// than the time limit of the catcher, so a webhook never needs a note.
const LATE: Duration = Duration::from_secs(15);

/// The maximum number of hours that a process remembers.
const MOST_HOURS: usize = 4096;

/// The partition of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partition {
    OfDay,
    OfHour,
    /// A partition of the hour, which must be noted first.
    Late,
}

/// What this process has put into the index.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeIndex(Arc<Mutex<Puts>>);

#[derive(Debug, Default)]
struct Puts {
    /// For each source, the newest hour, and the number of its events in the partition of the day.
    of_day: HashMap<String, (Hour, usize)>,
    /// The hours that were noted.
    noted: HashSet<(String, Hour)>,
}

impl TimeIndex {
    /// Returns the partition for an event that is put now.
    pub(super) fn partition(
        &self,
        source: &str,
        received_at: UnixMillis,
        now: UnixMillis,
        drained: bool,
    ) -> Partition {
        let hour = Hour::of(received_at);
        let puts = self.puts();
        if drained || now.since(received_at) > LATE {
            let noted = puts.noted.contains(&(source.to_owned(), hour));
            return if noted {
                Partition::OfHour
            } else {
                Partition::Late
            };
        }
        match puts.of_day.get(source) {
            Some((known, count)) if *known == hour && *count >= FIRST => Partition::OfHour,
            // Also for an hour before the known one, because the times of receipt of two events can be
            // in another order than their puts.
            _ => Partition::OfDay,
        }
    }

    /// Counts an event that the process has put into the partition of the day.
    pub(super) fn put(&self, source: &str, received_at: UnixMillis) {
        let hour = Hour::of(received_at);
        let mut puts = self.puts();
        let known = puts.of_day.entry(source.to_owned()).or_insert((hour, 0));
        match known.0.cmp(&hour) {
            std::cmp::Ordering::Less => *known = (hour, 1),
            std::cmp::Ordering::Equal => known.1 += 1,
            std::cmp::Ordering::Greater => {}
        }
    }

    fn noted(&self, source: &str, hour: Hour) {
        let mut puts = self.puts();
        if puts.noted.len() >= MOST_HOURS {
            puts.noted.clear();
        }
        puts.noted.insert((source.to_owned(), hour));
    }

    fn puts(&self) -> std::sync::MutexGuard<'_, Puts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of the partition of a day.
pub(super) fn of_day(source: &str, at: UnixMillis) -> String {
    let hour = at.hour();
    let day = hour.get(..8).unwrap_or(&hour);
    format!("T#{source}#{day}")
}

/// Returns the name of a partition of an hour.
pub(super) fn of_hour(source: &str, at: UnixMillis, shard: u8) -> String {
    format!("T#{source}#{}#{shard}", at.hour())
}

/// Returns the partition for the row of an event.
pub(super) fn name(key: &EventKey, at: UnixMillis, partition: Partition) -> String {
    match partition {
        Partition::OfDay => of_day(key.source(), at),
        Partition::OfHour | Partition::Late => {
            let shard = super::transition::shard(&key.pk()) % super::read::TIME_SHARDS;
            of_hour(key.source(), at, shard)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

    #[test]
    fn only_a_busy_hour_uses_more_than_the_partition_of_the_day() {
        let index = TimeIndex::default();
        let next = |source: &str, at: UnixMillis| {
            let partition = index.partition(source, at, at, false);
            if partition == Partition::OfDay {
                index.put(source, at);
            }
            partition
        };
        for _ in 0..FIRST {
            assert_eq!(next("busy", NOW), Partition::OfDay);
        }
        assert_eq!(next("busy", NOW), Partition::OfHour);
        assert_eq!(next("quiet", NOW), Partition::OfDay);
        let later = NOW + Duration::from_secs(3600);
        assert_eq!(next("busy", later), Partition::OfDay);
        // The hour before is over for this process.
        assert_eq!(next("busy", NOW), Partition::OfDay);
    }

    #[test]
    fn a_late_event_is_noted_once() {
        let index = TimeIndex::default();
        let late = |drained, seconds| {
            let now = NOW + Duration::from_secs(seconds);
            index.partition("a", NOW, now, drained)
        };
        assert_eq!(late(false, 15), Partition::OfDay);
        assert_eq!(late(false, 16), Partition::Late);
        assert_eq!(late(true, 0), Partition::Late);
        index.noted("a", Hour::of(NOW));
        assert_eq!(late(true, 0), Partition::OfHour);
    }
}
