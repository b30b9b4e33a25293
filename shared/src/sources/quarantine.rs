//! Reads `quarantine = { per_day = 200, bytes_per_day = "2MB" }`, which limits the rejected
//! requests that Mitt stores.

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::policy::{LARGEST_REFUSED, Limits};
use crate::base::setting_path::At as _;

/// The maximum of `per_day`. An operator cannot review more requests in a day.
const MOST_PER_DAY: u32 = 10_000;

const MOST_BYTES: u64 = 100_000_000;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileQuarantine {
    per_day: Option<u32>,
    bytes_per_day: Option<toml::Value>,
}

impl FileQuarantine {
    pub(super) fn checked(self) -> anyhow::Result<Limits> {
        let mut limits = Limits::default();
        if let Some(per_day) = self.per_day {
            limits.per_day = checked_per_day(per_day).at("per_day")?;
        }
        if let Some(value) = self.bytes_per_day {
            limits.bytes_per_day = bytes_per_day(&value).at("bytes_per_day")?;
        }
        Ok(limits)
    }
}

fn checked_per_day(per_day: u32) -> anyhow::Result<u32> {
    ensure!(
        per_day <= MOST_PER_DAY,
        "per_day = {per_day}: use a number of at most {MOST_PER_DAY}; with 0, Mitt stores no \
         requests"
    );
    Ok(per_day)
}

fn bytes_per_day(value: &toml::Value) -> anyhow::Result<u64> {
    let (bytes, said) = match value {
        toml::Value::Integer(bytes) => (u64::try_from(*bytes).ok(), bytes.to_string()),
        toml::Value::String(text) => (size(text), format!("{text:?}")),
        other => (None, format!("a {}", other.type_str())),
    };
    let bytes = bytes.with_context(|| {
        format!("bytes_per_day = {said}: invalid size; use a size like \"500KB\" or \"2MB\"")
    })?;
    // One large request could exceed a smaller limit.
    ensure!(
        bytes == 0 || (LARGEST_REFUSED as u64..=MOST_BYTES).contains(&bytes),
        "bytes_per_day = {said}: use a size between {LARGEST_REFUSED} bytes (the largest request \
         that Mitt stores) and 100MB; with 0, Mitt stores no requests"
    );
    Ok(bytes)
}

/// Parses a size such as `2MB`, with decimal units (1 kB is 1,000 bytes).
fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "B" => 1,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> anyhow::Result<Limits> {
        toml::from_str::<FileQuarantine>(text)?.checked()
    }

    #[test]
    fn limits_have_defaults_and_a_way_to_be_off() {
        assert_eq!(checked("").unwrap(), Limits::default());
        let limits = checked("per_day = 5\nbytes_per_day = \"500 KB\"").unwrap();
        assert_eq!((limits.per_day, limits.bytes_per_day), (5, 500_000));
        assert!(!limits.is_off());
        for off in ["per_day = 0", "bytes_per_day = 0", "bytes_per_day = \"0B\""] {
            assert!(checked(off).unwrap().is_off(), "{off}");
        }
    }

    #[test]
    fn a_wrong_limit_is_refused_with_what_was_meant() {
        for (text, said) in [
            ("perday = 5", "`per_day`"),
            ("per_day = 10001", "at most 10000"),
            ("per_day = -1", "per_day"),
            ("bytes_per_day = \"2 parsecs\"", "use a size like"),
            ("bytes_per_day = -1", "use a size like"),
            ("bytes_per_day = true", "use a size like"),
            ("bytes_per_day = \"1KB\"", "between"),
            ("bytes_per_day = \"1000MB\"", "between"),
            (
                "bytes_per_day = \"99999999999999999999MB\"",
                "use a size like",
            ),
        ] {
            let error = format!("{:#}", checked(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
