//! Reads `rate = "20/1h"`: the number of effects in each time window to which a rule does not apply.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::super::duration;
use crate::base::string_enum::string_enum;

/// The maximum number of effects in a second. A counter in one item of the table cannot count more.
const MOST: u64 = 500;

/// The longest window: 7 days.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

string_enum! {
    /// The effects that are counted together.
    Per {
        /// Those of a worker role. All push actions of the source count as one role.
        Role = "role",
        /// Those of the source.
        Source = "source",
        /// Those of the source for events of one type.
        EventType = "event-type",
    }
}

/// The number of effects that a rule allows in each fixed time window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectRate {
    pub most: u32,
    pub window: Duration,
    pub per: Per,
}

impl EffectRate {
    pub(super) fn parse(text: &str, per: Per) -> anyhow::Result<Self> {
        let invalid = || format!("invalid rate {text:?}; use a rate like \"20/1h\" or \"100/10m\"");
        let (most, window) = text.split_once('/').with_context(invalid)?;
        let most: u32 = most.trim().parse().ok().with_context(invalid)?;
        let window = match window.trim() {
            unit @ ("s" | "m" | "h") => duration::parse(&format!("1{unit}")),
            window => duration::parse(window),
        };
        let window = window.ok().with_context(invalid)?;
        ensure!(
            window.subsec_nanos() == 0 && (Duration::from_secs(1)..=LONGEST).contains(&window),
            "rate = {text:?}: the window must be from 1s to 168h (7 days), in whole seconds"
        );
        ensure!(
            most >= 1 && u64::from(most) <= MOST.saturating_mul(window.as_secs()),
            "rate = {text:?}: use at least 1 effect, and at most {MOST} a second"
        );
        Ok(Self { most, window, per })
    }
}

impl fmt::Display for EffectRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.window.as_secs();
        let (number, unit) = match secs {
            secs if secs % 3600 == 0 => (secs / 3600, 'h'),
            secs if secs % 60 == 0 => (secs / 60, 'm'),
            secs => (secs, 's'),
        };
        write!(f, "{}/{number}{unit} per {}", self.most, self.per.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let rate = |text: &str| EffectRate::parse(text, Per::Role);
        for (text, most, secs, shown) in [
            ("20/1h", 20, 3600, "20/1h per role"),
            ("20/h", 20, 3600, "20/1h per role"),
            ("5 / 10m", 5, 600, "5/10m per role"),
            ("500/s", 500, 1, "500/1s per role"),
            ("1/168h", 1, 7 * 86_400, "1/168h per role"),
        ] {
            let window = Duration::from_secs(secs);
            let per = Per::Role;
            let read = rate(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read, EffectRate { most, window, per }, "{text}");
            assert_eq!(read.to_string(), shown);
        }
        for bad in [
            "", "20", "0/1h", "-1/1h", "501/s", "1/169h", "1/500ms", "1/1500ms", "a/1h",
        ] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
