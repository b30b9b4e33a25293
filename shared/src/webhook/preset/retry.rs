//! The retries of a provider, according to its documentation.

use std::time::Duration;

use serde::Deserialize;

/// How a provider retries a failed delivery. The CLI displays these values, and computes from
/// `horizon` how long an outage may last.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// For how long the provider retries.
    pub horizon: Option<String>,
    #[serde(default)]
    pub schedule: Vec<String>,
    /// The maximum number of retries.
    pub max: Option<u32>,
    /// Whether each attempt has a new signed timestamp.
    pub resigned: Option<bool>,
    pub attempt_header: Option<String>,
    pub ordering: Option<String>,
    pub auto_disable: Option<String>,
}

impl Retry {
    /// Returns for how long the provider retries. Zero if it does not retry, `None` if the preset
    /// does not know it.
    pub fn longest(&self) -> Option<Duration> {
        let text = self.horizon.as_deref()?;
        if text == "none" {
            return Some(Duration::ZERO);
        }
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 24 * 3600,
            "w" => 7 * 24 * 3600,
            _ => return None,
        };
        let seconds = number.parse::<u64>().ok()?.checked_mul(seconds)?;
        Some(Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::webhook::preset::Preset;

    fn longest(horizon: Option<&str>) -> Option<Duration> {
        let horizon = horizon.map(str::to_owned);
        let retry = Retry {
            horizon,
            ..Retry::default()
        };
        retry.longest()
    }

    #[test]
    fn a_horizon_is_a_number_with_a_unit() {
        for (text, seconds) in [("none", 0), ("90s", 90), ("8h", 28_800), ("2w", 1_209_600)] {
            let expected = Some(Duration::from_secs(seconds));
            assert_eq!(longest(Some(text)), expected, "{text}");
        }
        for unknown in [
            None,
            Some(""),
            Some("long"),
            Some("3 d"),
            Some("-3d"),
            Some("\u{e4}"),
        ] {
            assert_eq!(longest(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn the_horizon_of_every_preset_is_understood() {
        for id in Preset::ids() {
            let retry = Preset::embedded(id, &BTreeMap::new()).unwrap().retry;
            let is_understood = retry.horizon.is_none() || retry.longest().is_some();
            assert!(is_understood, "{id}: {:?}", retry.horizon);
        }
    }
}
