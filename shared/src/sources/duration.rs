//! Parses durations such as `10s`, `5m`, `2h` or `1h 30m`.

use std::time::Duration;

use anyhow::{Context as _, ensure};

/// The maximum duration, 30 days. A longer duration is probably a typing error.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

pub(super) fn parse(text: &str) -> anyhow::Result<Duration> {
    let parsed = text
        .parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|signed| Duration::try_from(signed).ok())
        .with_context(|| format!("invalid duration {text:?}; use a duration like 10s, 5m or 2h"))?;
    ensure!(
        parsed <= LONGEST,
        "{text:?} is too long; use at most 30 days"
    );
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse("10s").unwrap(), Duration::from_secs(10));
        assert_eq!(parse("1h 30m").unwrap(), Duration::from_secs(5400));
        for bad in ["", "10", "-5s", "900h", "2 parsecs", "1y"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
