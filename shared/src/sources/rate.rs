//! Reads `rate = "20/s"`, the rate limit of a destination.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// The maximum number of calls in a second. A counter in one item of the table cannot count more
/// calls.
const MOST: u32 = 500;

/// The maximum number of calls in each time window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub calls: u32,
    pub window: Duration,
}

impl Rate {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let read = || {
            let (calls, unit) = text.split_once('/')?;
            let secs = match unit.trim() {
                "s" => 1,
                "m" => 60,
                "h" => 3600,
                _ => return None,
            };
            Some((calls.trim().parse().ok()?, secs))
        };
        let (calls, secs): (u32, u64) = read()
            .with_context(|| format!("invalid rate {text:?}; use a rate like 20/s or 100/m"))?;
        ensure!(
            calls >= 1 && u64::from(calls) <= u64::from(MOST) * secs,
            "rate = {text:?}: use a rate of at least 1 call, and of at most {MOST} calls a second"
        );
        Ok(Self {
            calls,
            window: Duration::from_secs(secs),
        })
    }
}

impl Rate {
    /// Returns the half of the rate that events of the backlog queue may use. The other half is
    /// reserved for new events.
    #[must_use]
    pub fn half(self) -> Self {
        Self {
            calls: (self.calls / 2).max(1),
            ..self
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.window.as_secs() {
            1 => write!(f, "{}/s", self.calls),
            60 => write!(f, "{}/m", self.calls),
            _ => write!(f, "{}/h", self.calls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let rate = |calls, secs| Rate {
            calls,
            window: Duration::from_secs(secs),
        };
        assert_eq!(Rate::parse("20/s").unwrap(), rate(20, 1));
        assert_eq!(Rate::parse("100 / m").unwrap(), rate(100, 60));
        assert_eq!(Rate::parse("1000/h").unwrap(), rate(1000, 3600));
        for bad in [
            "",
            "20",
            "20/d",
            "/s",
            "0/s",
            "-1/s",
            "501/s",
            "20 per second",
        ] {
            assert!(Rate::parse(bad).is_err(), "{bad}");
        }
    }
}
