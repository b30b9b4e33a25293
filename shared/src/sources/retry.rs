//! How often an event is tried, and how long is waited between.

use std::time::Duration;

use anyhow::ensure;
use serde::Deserialize;

use super::duration;
use crate::base::backoff::Backoff;

/// The longest wait between two attempts: bodies are kept for three days at least.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRetry {
    attempts: Option<u32>,
    waits: Option<Vec<String>>,
}

impl FileRetry {
    pub(super) fn checked(self) -> anyhow::Result<Backoff> {
        let mut backoff = Backoff::default();
        if let Some(attempts) = self.attempts {
            ensure!(
                (1..=50).contains(&attempts),
                "attempts = {attempts}: between 1 and 50"
            );
            backoff.attempts = attempts;
        }
        if let Some(waits) = self.waits {
            ensure!(!waits.is_empty(), "waits is empty");
            backoff.waits = waits
                .iter()
                .map(|text| duration::parse(text))
                .collect::<anyhow::Result<_>>()?;
            // The sweep looks at an event when it is due, and at its body with it.
            ensure!(
                backoff.waits.iter().all(|wait| *wait <= LONGEST_WAIT),
                "waits are at most 24h"
            );
        }
        Ok(backoff)
    }
}
