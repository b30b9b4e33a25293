//! How many events came in an hour, and of which types.

use std::collections::BTreeMap;

use crate::clock::Millis;

const HOUR: i64 = 3600 * 1000;
const MINUTE: i64 = 60 * 1000;

/// Types of one source that are told apart in an hour that is kept. What a sender makes up must not
/// make an item grow.
pub const MOST_KINDS: usize = 40;

/// An hour of UTC, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(i64);

impl Hour {
    pub fn of(at: Millis) -> Self {
        Self(at.0.div_euclid(HOUR))
    }

    pub fn begins(self) -> Millis {
        Millis(self.0.saturating_mul(HOUR))
    }

    /// Where the next one begins.
    pub fn ends(self) -> Millis {
        self.next().begins()
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    #[must_use]
    pub fn before(self, hours: i64) -> Self {
        Self(self.0.saturating_sub(hours))
    }

    /// `yyyymmddhh`
    pub fn name(self) -> String {
        self.begins().hour()
    }

    /// Reads an hour back from [`name`](Self::name).
    pub fn parse(name: &str) -> Option<Self> {
        let (day, hour) = name.split_at_checked(8)?;
        let hour: i64 = hour.parse().ok().filter(|hour| (0..24).contains(hour))?;
        let day = crate::coverage::Day::parse(day)?;
        let found = Self(Self::of(day.begins()).0 + hour);
        (found.name() == name).then_some(found)
    }

    /// Each hour from this one up to another, both inclusive.
    pub fn up_to(self, last: Self) -> impl DoubleEndedIterator<Item = Self> {
        (self.0..=last.0).map(Self)
    }
}

/// A span of time, both ends inclusive, cut where an hour ends.
pub fn cut(from: Millis, to: Millis) -> Vec<(Millis, Millis)> {
    let hours = Hour::of(from).up_to(Hour::of(to));
    let hours = hours.map(|hour| (hour.begins().max(from), Millis(hour.ends().0 - 1).min(to)));
    hours.filter(|(from, to)| from <= to).collect()
}

/// Events that came in a span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    pub events: u64,
    /// Of these, by type. Types that came rarely may be missing.
    pub kinds: BTreeMap<String, u64>,
    /// The same by minute, where the span was read event by event; a minute is named by its number
    /// since 1970.
    pub minutes: BTreeMap<i64, u64>,
    /// Whether there were more than were counted.
    pub or_more: bool,
}

impl Arrived {
    pub fn add(&mut self, at: Millis, kind: &str) {
        self.events += 1;
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        *self.minutes.entry(at.0.div_euclid(MINUTE)).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.or_more |= other.or_more;
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
        for (minute, count) in &other.minutes {
            *self.minutes.entry(*minute).or_default() += count;
        }
    }

    /// What is kept of it: the most frequent types, and no minutes.
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
    fn an_hour_is_named_and_read_back() {
        let hour = Hour::of(Millis(1_795_169_681_118));
        assert_eq!(hour.name(), "2026112010");
        assert_eq!(Hour::parse("2026112010"), Some(hour));
        assert_eq!(hour.ends(), hour.next().begins());
        for wrong in [
            "",
            "2026",
            "2026112024",
            "20261320-1",
            "202611201",
            "2026112０",
        ] {
            assert_eq!(Hour::parse(wrong), None, "{wrong}");
        }
        assert_eq!(hour.before(2).up_to(hour).count(), 3);
    }

    #[test]
    fn what_is_kept_names_the_types_that_came_most() {
        let mut arrived = Arrived::default();
        for kind in 0..100 {
            for _ in 0..=kind {
                arrived.add(Millis(0), &format!("type-{kind:03}"));
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
        sum.add(Millis(59_999), "a");
        let mut more = Arrived::default();
        more.add(Millis(60_000), "a");
        more.or_more = true;
        sum.merge(&more);
        assert_eq!((sum.events, sum.or_more), (2, true));
        assert_eq!(sum.minutes, BTreeMap::from([(0, 1), (1, 1)]));
        assert_eq!(sum.kinds, BTreeMap::from([("a".to_owned(), 2)]));
    }
}
