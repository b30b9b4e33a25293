//! The times of a list, and the requested time span.

use std::time::Duration;

use serde::Deserialize;

use crate::base::clock::UnixMillis;
use crate::webhook::preset::Locations;

/// The time of an item.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeAt {
    pub at: Locations,
    #[serde(default)]
    pub unit: TimeUnit,
}

/// The format of `{since}` and `{until}`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Since {
    #[serde(default)]
    pub unit: TimeUnit,
    /// Whether the provider excludes items with exactly the start time. If so, the request starts
    /// one unit earlier.
    #[serde(default)]
    pub exclusive: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnit {
    /// Seconds since 1970. The times of a list can have fractions.
    #[default]
    S,
    Ms,
    Rfc3339,
    /// RFC 3339 without fractions of a second, for a provider that rejects them in `{since}`.
    Rfc3339S,
    /// The number of minutes before now, rounded up. This unit is only for `{since}`.
    MinutesAgo,
}

impl TimeUnit {
    /// Parses the time of an item.
    pub fn read(self, text: &str) -> Option<UnixMillis> {
        match self {
            Self::S => {
                let (secs, fraction) = text.split_once('.').unwrap_or((text, ""));
                let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
                if secs.is_empty() || !digits(secs) || !digits(fraction) {
                    return None;
                }
                let ms: String = fraction.chars().chain("000".chars()).take(3).collect();
                let secs = secs.parse::<i64>().ok()?.checked_mul(1000)?;
                Some(UnixMillis(secs.checked_add(ms.parse().ok()?)?))
            }
            Self::Ms => text.parse().ok().map(UnixMillis),
            Self::Rfc3339 | Self::Rfc3339S => {
                let time: jiff::Timestamp = text.parse().ok()?;
                Some(UnixMillis(time.as_millisecond()))
            }
            Self::MinutesAgo => None,
        }
    }

    fn written(self, at: UnixMillis, now: UnixMillis) -> String {
        match self {
            Self::S => at.secs().to_string(),
            Self::Ms => at.0.to_string(),
            Self::Rfc3339 => at.rfc3339(),
            Self::Rfc3339S => at.rfc3339_seconds(),
            Self::MinutesAgo => now.since(at).as_millis().div_ceil(60_000).to_string(),
        }
    }

    fn one(self) -> Duration {
        match self {
            Self::S | Self::Rfc3339S => Duration::from_secs(1),
            Self::Ms | Self::Rfc3339 => Duration::from_millis(1),
            Self::MinutesAgo => Duration::from_secs(60),
        }
    }
}

impl Since {
    /// Returns `{since}`, the start of the requested time span.
    pub fn from(self, at: UnixMillis, now: UnixMillis) -> String {
        let at = if self.exclusive {
            at - self.unit.one()
        } else {
            at
        };
        self.unit.written(at, now)
    }

    /// Returns `{until}`, the end of the requested time span. The end is never before `at`.
    pub fn until(self, at: UnixMillis, now: UnixMillis) -> String {
        self.unit.written(at + self.unit.one(), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_forms_of_providers() {
        let at = Some(UnixMillis(1_521_472_262_908));
        assert_eq!(TimeUnit::S.read("1521472262.908181"), at);
        assert_eq!(
            TimeUnit::S.read("1521472262"),
            Some(UnixMillis(1_521_472_262_000))
        );
        assert_eq!(
            TimeUnit::S.read("1521472262.9"),
            Some(UnixMillis(1_521_472_262_900))
        );
        assert_eq!(TimeUnit::Ms.read("1521472262908"), at);
        assert_eq!(TimeUnit::Rfc3339.read("2018-03-19T15:11:02.908Z"), at);
        assert_eq!(TimeUnit::Rfc3339.read("2018-03-19T16:11:02.908+0100"), at);
        for bad in ["", "x", "-1", "1e9", "1.x", "99999999999999999999"] {
            assert_eq!(TimeUnit::S.read(bad), None, "{bad}");
            assert_eq!(TimeUnit::Rfc3339.read(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_exclusive_filter_is_asked_for_one_earlier() {
        let (at, now) = (UnixMillis(1_000_000_500), UnixMillis(1_000_060_501));
        let since = |unit, exclusive| Since { unit, exclusive }.from(at, now);
        assert_eq!(since(TimeUnit::S, false), "1000000");
        assert_eq!(since(TimeUnit::S, true), "999999");
        assert_eq!(since(TimeUnit::Ms, true), "1000000499");
        assert_eq!(since(TimeUnit::Rfc3339, false), "1970-01-12T13:46:40.500Z");
        assert_eq!(since(TimeUnit::Rfc3339S, false), "1970-01-12T13:46:40Z");
        assert_eq!(since(TimeUnit::Rfc3339S, true), "1970-01-12T13:46:39Z");
        assert_eq!(since(TimeUnit::MinutesAgo, false), "2");
        let until = Since {
            unit: TimeUnit::S,
            exclusive: false,
        }
        .until(at, now);
        assert_eq!(until, "1000001");
    }
}
