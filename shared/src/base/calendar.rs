//! UTC hours and days.

use crate::base::clock::UnixMillis;

const HOUR: i64 = 3600 * 1000;
const DAY: i64 = 24 * HOUR;

/// A UTC hour, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(i64);

impl Hour {
    pub fn of(at: UnixMillis) -> Self {
        Self(at.0.div_euclid(HOUR))
    }

    pub fn begins(self) -> UnixMillis {
        UnixMillis(self.0.saturating_mul(HOUR))
    }

    /// The start of the next hour.
    pub fn ends(self) -> UnixMillis {
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

    /// The hour as `yyyymmddhh`.
    pub fn name(self) -> String {
        self.begins().hour()
    }

    /// Parses the output of [`name`](Self::name).
    pub fn parse(name: &str) -> Option<Self> {
        let (day, hour) = name.split_at_checked(8)?;
        let hour: i64 = hour.parse().ok().filter(|hour| (0..24).contains(hour))?;
        let day = Day::parse(day)?;
        let found = Self(Self::of(day.begins()).0 + hour);
        (found.name() == name).then_some(found)
    }

    /// All hours from this hour to `last`, both inclusive.
    pub fn up_to(self, last: Self) -> impl DoubleEndedIterator<Item = Self> {
        (self.0..=last.0).map(Self)
    }
}

/// Splits a time span at the full hours. Both ends of each part are inclusive.
pub fn cut(from: UnixMillis, to: UnixMillis) -> Vec<(UnixMillis, UnixMillis)> {
    let hours = Hour::of(from).up_to(Hour::of(to));
    let hours = hours.map(|hour| {
        (
            hour.begins().max(from),
            UnixMillis(hour.ends().0 - 1).min(to),
        )
    });
    hours.filter(|(from, to)| from <= to).collect()
}

/// A UTC day, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

impl Day {
    pub fn of(at: UnixMillis) -> Self {
        Self(at.0.div_euclid(DAY))
    }

    pub fn begins(self) -> UnixMillis {
        UnixMillis(self.0.saturating_mul(DAY))
    }

    pub fn ends(self) -> UnixMillis {
        UnixMillis(self.0.saturating_add(1).saturating_mul(DAY))
    }

    #[must_use]
    pub fn before(self, days: i64) -> Self {
        Self(self.0.saturating_sub(days))
    }

    /// All days from this day to `last`, both inclusive.
    pub fn up_to(self, last: Self) -> impl DoubleEndedIterator<Item = Self> {
        (self.0..=last.0).map(Self)
    }

    /// The day as `yyyymmdd`.
    pub fn name(self) -> String {
        self.begins().hour().chars().take(8).collect()
    }

    /// Parses the output of [`name`](Self::name).
    pub fn parse(name: &str) -> Option<Self> {
        let date: jiff::civil::Date = name.parse().ok()?;
        let begins = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        Some(Self::of(UnixMillis(begins.as_millisecond())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_named_and_read_back() {
        let hour = Hour::of(UnixMillis(1_795_169_681_118));
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
}
