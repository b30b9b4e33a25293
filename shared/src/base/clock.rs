//! Time in milliseconds. Functions take the current time as the argument `now`. Only handlers and
//! `main` functions read the clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// The source of the current time: [`UnixMillis::now`], or a function of a test.
pub type Clock = fn() -> UnixMillis;

impl UnixMillis {
    /// The current time of this machine. Only handlers and `main` functions call this function.
    #[expect(
        clippy::disallowed_methods,
        reason = "only this function reads the clock"
    )]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    pub fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// The time in whole seconds, as TTL attributes and signatures use it.
    pub fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The time since `earlier`. Zero if `earlier` is later than this time.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The hour as `yyyymmddhh` in UTC, as in the keys of the `time` index.
    pub fn hour(self) -> String {
        let time = self.timestamp().to_zoned(jiff::tz::TimeZone::UTC);
        format!(
            "{:04}{:02}{:02}{:02}",
            time.year(),
            time.month(),
            time.day(),
            time.hour()
        )
    }

    /// The time as RFC 3339 in UTC with milliseconds. Times outside the years 0 to 9999 are
    /// clamped.
    pub fn rfc3339(self) -> String {
        format!("{:.3}", self.timestamp())
    }

    /// The time as RFC 3339 in UTC, in whole seconds.
    pub fn rfc3339_seconds(self) -> String {
        format!("{:.0}", Self::from_secs(self.secs()).timestamp())
    }

    fn timestamp(self) -> jiff::Timestamp {
        let bounds = (-62_000_000_000_000, 253_000_000_000_000);
        jiff::Timestamp::from_millisecond(self.0.clamp(bounds.0, bounds.1)).unwrap_or_default()
    }
}

impl Add<Duration> for UnixMillis {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(rhs.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

impl Sub<Duration> for UnixMillis {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(rhs.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_named_in_utc() {
        assert_eq!(UnixMillis(1_795_169_681_118).hour(), "2026112010");
        assert_eq!(
            UnixMillis(1_795_169_681_118).rfc3339(),
            "2026-11-20T10:14:41.118Z"
        );
    }

    #[test]
    fn no_time_panics() {
        for ms in [i64::MIN, -1, 0, i64::MAX] {
            let time = UnixMillis(ms);
            assert!(!time.hour().is_empty());
            assert!(!time.rfc3339().is_empty());
            let _ = (time + Duration::MAX) - Duration::MAX;
            assert_eq!(time.since(UnixMillis(i64::MAX)), Duration::ZERO);
        }
    }
}
