//! Counts the events that arrived in an hour, by type.

mod store;

pub use store::{Brief, HourCount, Statistics};

use std::collections::BTreeMap;

use crate::base::clock::UnixMillis;

const MINUTE: i64 = 60 * 1000;

/// The maximum number of types of a source that are stored for an hour. The number must be limited,
/// because the provider chooses the types.
pub const MOST_KINDS: usize = 40;

/// The counts of the events that arrived in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    pub events: u64,
    /// The number of events by type. Rare types can be missing.
    pub kinds: BTreeMap<String, u64>,
    /// The number of events by minute. The key is the number of minutes since 1970. Stored counts
    /// do not contain minutes.
    pub minutes: BTreeMap<i64, u64>,
    /// Whether there are more events than were counted.
    pub or_more: bool,
    /// Whether there are events at all, also quarantined ones, which are not counted. Stored counts
    /// do not contain this.
    pub has_entries: bool,
    /// Whether the partitions of the hour in the `time` index have events. Stored counts do not
    /// contain this.
    pub is_spread: bool,
}

impl Arrived {
    pub fn add(&mut self, at: UnixMillis, kind: &str) {
        self.events += 1;
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        *self.minutes.entry(at.0.div_euclid(MINUTE)).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.or_more |= other.or_more;
        self.has_entries |= other.has_entries;
        self.is_spread |= other.is_spread;
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
        for (minute, count) in &other.minutes {
            *self.minutes.entry(*minute).or_default() += count;
        }
    }

    /// Returns the part that is stored. It contains the most frequent types, and no minutes.
    #[must_use]
    pub fn kept(&self) -> Self {
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        kinds.truncate(MOST_KINDS);
        Self {
            kinds: kinds.into_iter().map(|(k, n)| (k.clone(), *n)).collect(),
            minutes: BTreeMap::new(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_names_the_types_that_came_most() {
        let mut arrived = Arrived::default();
        for kind in 0..100 {
            for _ in 0..=kind {
                arrived.add(UnixMillis(0), &format!("type-{kind:03}"));
            }
        }
        let kept = arrived.kept();
        assert_eq!((kept.events, kept.kinds.len()), (5050, MOST_KINDS));
        assert_eq!(kept.kinds.get("type-099"), Some(&100));
        assert!(kept.minutes.is_empty() && !arrived.minutes.is_empty());
    }

    #[test]
    fn spans_add_up() {
        let mut sum = Arrived::default();
        sum.add(UnixMillis(59_999), "a");
        let mut more = Arrived::default();
        more.add(UnixMillis(60_000), "a");
        more.or_more = true;
        sum.merge(&more);
        assert_eq!((sum.events, sum.or_more), (2, true));
        assert_eq!(sum.minutes, BTreeMap::from([(0, 1), (1, 1)]));
        assert_eq!(sum.kinds, BTreeMap::from([("a".to_owned(), 2)]));
    }
}
