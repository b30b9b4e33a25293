//! Reads `retention = { rows = "90d", bodies = "30d" }`, the retention of rows and bodies.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::base::setting_path::At as _;
use crate::base::timing::{KEEP_BODY, KEEP_ROW, KEEP_ROW_SHORT};
use crate::sources::policy::{BODY_DAYS, Retention, RowsReason};

const DAY: u64 = 24 * 3600;

/// Providers redeliver for up to 30 days. After the row is deleted, a redelivery would count as a
/// new event.
const FEWEST_DAYS: u64 = 31;

const MOST_DAYS: u64 = 3650;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRetention {
    rows: Option<String>,
    bodies: Option<String>,
}

impl FileRetention {
    /// `default` returns the default retention of rows for a retention of bodies.
    pub(super) fn checked(
        self,
        default: impl FnOnce(Duration) -> RowsReason,
    ) -> anyhow::Result<(Retention, RowsReason)> {
        let bodies = match &self.bodies {
            Some(text) => bodies(text).at("bodies")?,
            None => KEEP_BODY,
        };
        let reason = match &self.rows {
            Some(_) => RowsReason::Set,
            None => default(bodies),
        };
        let rows = match (&self.rows, &reason) {
            (Some(text), _) => rows(text).at("rows")?,
            (None, RowsReason::Short { .. }) => KEEP_ROW_SHORT,
            (None, RowsReason::Set | RowsReason::Long(_)) => KEEP_ROW,
        };
        let retention = Retention { rows, bodies };
        check_both(retention).at("bodies").needs("rows")?;
        Ok((retention, reason))
    }
}

fn rows(text: &str) -> anyhow::Result<Duration> {
    let days = days("rows", text)?;
    ensure!(
        (FEWEST_DAYS..=MOST_DAYS).contains(&days),
        "rows = {text:?}: use a value between {FEWEST_DAYS}d and {MOST_DAYS}d. Providers redeliver \
         for up to 30 days, and Mitt would process an event without its row a second time"
    );
    Ok(Duration::from_secs(days * DAY))
}

fn bodies(text: &str) -> anyhow::Result<Duration> {
    let days = days("bodies", text)?;
    ensure!(
        BODY_DAYS.contains(&days),
        "bodies = {text:?}: use one of {} days, because the bucket has a lifecycle rule for each \
         of these numbers",
        BODY_DAYS.map(|days| days.to_string()).join(", ")
    );
    Ok(Duration::from_secs(days * DAY))
}

fn check_both(retention: Retention) -> anyhow::Result<()> {
    ensure!(
        retention.bodies <= retention.rows,
        "bodies must not be kept for longer than rows, because Mitt finds a body by its row"
    );
    Ok(())
}

fn days(what: &str, text: &str) -> anyhow::Result<u64> {
    text.strip_suffix('d')
        .and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("{what} = {text:?}: use a number of days like 30d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> anyhow::Result<Retention> {
        let file = toml::from_str::<FileRetention>(text)?;
        Ok(file.checked(|_| RowsReason::Long("test"))?.0)
    }

    #[test]
    fn days_are_read_and_have_defaults() {
        assert_eq!(checked("").unwrap(), Retention::default());
        let retention = checked("rows = \"400d\"\nbodies = \"7d\"").unwrap();
        let days = [retention.rows, retention.bodies].map(|kept| kept.as_secs() / DAY);
        assert_eq!(days, [400, 7]);
    }

    #[test]
    fn what_would_lose_something_is_refused() {
        for (text, said) in [
            ("rows = \"30d\"", "a second time"),
            ("rows = \"4000d\"", "between 31d and 3650d"),
            ("rows = \"90\"", "use a number of days"),
            ("bodies = \"5d\"", "3, 7, 14, 30"),
            ("bodies = \"2h\"", "use a number of days"),
            ("bodies = \"365d\"", "for longer than rows"),
            ("body = \"7d\"", "`bodies`"),
        ] {
            let error = format!("{:#}", checked(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
