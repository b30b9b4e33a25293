//! Formats times for people: ages up to a day, then dates. JSON has RFC 3339 in UTC.

use std::sync::OnceLock;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use serde::Serializer;

use super::error::CliError;

pub(crate) const MINUTE_MS: i64 = 60_000;
pub(crate) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(crate) const DAY_MS: i64 = 24 * HOUR_MS;

const DAY: i64 = 86_400;

/// The time zone for people, if it is not UTC. The whole process uses the same zone.
static SHOWN: OnceLock<TimeZone> = OnceLock::new();

/// Switches to the time zone of this machine. JSON stays in UTC.
pub(crate) fn show_local() {
    let _ = SHOWN.set(TimeZone::system());
}

fn zone() -> TimeZone {
    SHOWN.get().cloned().unwrap_or(TimeZone::UTC)
}

/// Returns the age, such as `3s`, `2m10s` or `1h02m`. For ages of more than a day, returns the
/// date.
pub(crate) fn age(then_millis: i64, now_millis: i64) -> String {
    let seconds = now_millis.saturating_sub(then_millis) / 1000;
    if seconds >= DAY {
        return shown(then_millis).strftime("%Y-%m-%d").to_string();
    }
    // Clocks differ, so the time of an event can be in the future. Its age is then 0.
    duration(seconds.max(0))
}

/// Returns a time span in its two largest units, such as `41s`, `1m57s`, `6m`, `1h02m` or `3d04h`.
pub(crate) fn duration(seconds: impl TryInto<i64>) -> String {
    let seconds = seconds.try_into().unwrap_or(i64::MAX);
    let (whole, large, part, small) = match seconds {
        ..60 => return format!("{seconds}s"),
        60..3600 => (seconds / 60, 'm', seconds % 60, 's'),
        3600..DAY => (seconds / 3600, 'h', seconds % 3600 / 60, 'm'),
        _ => (seconds / DAY, 'd', seconds % DAY / 3600, 'h'),
    };
    if part == 0 {
        format!("{whole}{large}")
    } else {
        format!("{whole}{large}{part:02}{small}")
    }
}

/// Returns the time in RFC 3339, such as `2026-11-20T09:12:04.118Z`. Omits a fraction of zero.
pub(crate) fn rfc3339(millis: i64) -> String {
    timestamp(millis).to_string()
}

/// Serializes a time as [`rfc3339`] writes it.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(crate) fn as_rfc3339<S: Serializer>(millis: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*millis))
}

/// Parses a time that [`rfc3339`] wrote.
pub(super) fn parse_rfc3339(text: &str) -> Option<i64> {
    let time: Timestamp = text.parse().ok()?;
    Some(time.as_millisecond())
}

/// Returns the clock time, such as `09:12:04.118`. On another day than that of `now`, adds the
/// date.
pub(crate) fn clock(millis: i64, now_millis: i64) -> String {
    let (at, now) = (shown(millis), shown(now_millis));
    let format = if at.date() == now.date() {
        "%H:%M:%S.%3f"
    } else {
        "%Y-%m-%d %H:%M:%S.%3f"
    };
    at.strftime(format).to_string()
}

/// Returns the clock time without a fraction. On another day than that of `now`, adds the date.
pub(crate) fn clock_seconds(millis: i64, now_millis: i64) -> String {
    let text = clock(millis, now_millis);
    text.split('.').next().unwrap_or(&text).to_owned()
}

/// Returns hours and minutes, such as `09:10`, for times of arguments. On another day than that of
/// `now`, adds the date.
pub(crate) fn short(millis: i64, now_millis: i64) -> String {
    let (at, now) = (shown(millis), shown(now_millis));
    let format = if at.date() == now.date() {
        "%H:%M"
    } else {
        "%Y-%m-%d %H:%M"
    };
    at.strftime(format).to_string()
}

fn shown(millis: i64) -> Zoned {
    timestamp(millis).to_zoned(zone())
}

/// Converts a time. Only a damaged row has a time out of range, which becomes the minimum or
/// maximum time.
fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// A point in time in the form that the operator wrote: `2h`, `09:10`, `2026-11-20`, or RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A time span before now, such as `2h`, `3d` or `1h30m`.
    Ago(SignedDuration),
    /// A clock time such as `09:10`: the most recent moment at which the clock showed it.
    Clock(Time),
    /// A date such as `2026-11-20`: the start of this day.
    Day(Date),
    /// A full time such as `2026-11-20T09:10:00Z`.
    At(Timestamp),
}

impl When {
    pub fn ago(span: std::time::Duration) -> Self {
        Self::Ago(SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX))
    }

    pub fn millis(self, now_millis: i64) -> i64 {
        match self {
            Self::At(at) => at.as_millisecond(),
            Self::Ago(span) => {
                let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
                now_millis.saturating_sub(span)
            }
            Self::Day(date) => start_of(date),
            Self::Clock(time) => {
                let today = shown(now_millis).date();
                let at = moment(today, time);
                if at > now_millis {
                    today.yesterday().map_or(at, |day| moment(day, time))
                } else {
                    at
                }
            }
        }
    }

    /// Parses the value of `--since` or `--until`.
    pub fn parse(text: &str) -> Result<Self, CliError> {
        let wrong = || {
            CliError::usage("usage.time", format!("invalid time '{text}'"))
                .tip("write 2h, 3d, 09:10, 2026-11-20 or 2026-11-20T09:10:00Z (UTC)")
        };
        if text.ends_with(|c: char| c.is_ascii_alphabetic() && c != 'Z') {
            return ago(text).map(Self::Ago).ok_or_else(wrong);
        }
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        if let Ok(date) = text.parse::<Date>() {
            return Ok(Self::Day(date));
        }
        text.parse().map(Self::Clock).map_err(|_| wrong())
    }
}

fn start_of(date: Date) -> i64 {
    moment(date, Time::midnight())
}

/// Returns the moment of a clock time on a date. A clock time that daylight saving skips becomes
/// the time after the gap.
fn moment(date: Date, time: Time) -> i64 {
    let at = date.to_datetime(time).to_zoned(zone());
    at.map_or(i64::MAX, |at| at.timestamp().as_millisecond())
}

/// Parses a time span such as `1h30m`. A day always has 24 hours here, and a week 7 days.
fn ago(text: &str) -> Option<SignedDuration> {
    let mut seconds = 0i64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let unit = match tail.chars().next()? {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => DAY,
            'w' => 7 * DAY,
            _ => return None,
        };
        seconds = number
            .parse::<i64>()
            .ok()?
            .checked_mul(unit)?
            .checked_add(seconds)?;
        rest = &tail[1..];
    }
    Some(SignedDuration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T10:14:41Z
    const NOW: i64 = 1_795_169_681_000;

    #[test]
    fn ages_are_short_and_then_dates() {
        let ages = [0, 3, 48, 60, 130, 2180, 3600, 3720, 86_399].map(|s| age(NOW - s * 1000, NOW));
        let short = [
            "0s", "3s", "48s", "1m", "2m10s", "36m20s", "1h", "1h02m", "23h59m",
        ];
        assert_eq!(ages, short);
        assert_eq!(age(NOW - 86_400_000, NOW), "2026-11-19");
        assert_eq!(age(NOW + 5000, NOW), "0s");
    }

    #[test]
    fn durations_keep_two_units() {
        assert_eq!(duration(117), "1m57s");
        assert_eq!(duration(125), "2m05s");
        assert_eq!(duration(360), "6m");
        assert_eq!(duration(273_600), "3d04h");
    }

    #[test]
    fn json_times_are_rfc_3339_in_utc() {
        assert_eq!(rfc3339(NOW), "2026-11-20T10:14:41Z");
        assert_eq!(rfc3339(NOW + 118), "2026-11-20T10:14:41.118Z");
        assert_eq!(clock(NOW, NOW), "10:14:41.000");
        assert_eq!(clock(NOW - 86_400_000, NOW), "2026-11-19 10:14:41.000");
        assert_eq!(short(NOW, NOW), "10:14");
        assert_eq!(short(NOW - 86_400_000, NOW), "2026-11-19 10:14");
    }

    #[test]
    fn a_broken_row_has_a_time_too() {
        assert!(rfc3339(i64::MAX).starts_with("9999"));
        assert!(!rfc3339(i64::MIN).is_empty());
        assert_eq!(age(i64::MAX, i64::MIN), "0s");
        assert!(!age(i64::MIN, i64::MAX).is_empty());
    }

    #[test]
    fn every_spelling_of_a_time_is_understood() {
        let millis = |text| When::parse(text).unwrap().millis(NOW);
        assert_eq!(millis("2h"), NOW - 7_200_000);
        assert_eq!(millis("1h30m"), NOW - 5_400_000);
        assert_eq!(millis("3d"), NOW - 259_200_000);
        assert_eq!(rfc3339(millis("09:10")), "2026-11-20T09:10:00Z");
        assert_eq!(rfc3339(millis("23:00")), "2026-11-19T23:00:00Z");
        assert_eq!(rfc3339(millis("2026-11-20")), "2026-11-20T00:00:00Z");
        assert_eq!(
            rfc3339(millis("2026-11-20T09:10:00Z")),
            "2026-11-20T09:10:00Z"
        );
        assert_eq!(
            rfc3339(millis("2026-11-20T10:10:00+01:00")),
            "2026-11-20T09:10:00Z"
        );
        for wrong in [
            "",
            "h",
            "2x",
            "yesterday",
            "99:99",
            "9999999999999999999d",
            "2026-13-01",
        ] {
            assert_eq!(
                When::parse(wrong).unwrap_err().code,
                "usage.time",
                "{wrong}"
            );
        }
    }
}
