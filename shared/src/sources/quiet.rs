//! Reads `quiet_after = "12h"`, the time without a webhook after which a source counts as silent.

use anyhow::{Context as _, ensure};

use super::duration;
use crate::sources::policy::QuietAfter;

pub(super) fn parse(text: Option<&str>) -> anyhow::Result<QuietAfter> {
    match text {
        None => Ok(QuietAfter::Learned),
        Some("off") => Ok(QuietAfter::Off),
        Some(text) => {
            let after = duration::parse(text)
                .context("the value must be a duration like 12h, or \"off\"")?;
            ensure!(
                !after.is_zero(),
                "the duration {text:?} must be longer than zero; to disable the warning, use \
                 \"off\""
            );
            Ok(QuietAfter::Set(after))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse(None).unwrap(), QuietAfter::Learned);
        assert_eq!(parse(Some("off")).unwrap(), QuietAfter::Off);
        let hours = QuietAfter::Set(Duration::from_secs(12 * 3600));
        assert_eq!(parse(Some("12h")).unwrap(), hours);
        for bad in ["", "0s", "never", "12"] {
            assert!(parse(Some(bad)).is_err(), "{bad}");
        }
    }
}
