//! Reads `retry = { attempts = 3, waits = ["1s", "2m"] }`, the number of attempts and the waits
//! between them.

use std::time::Duration;

use anyhow::ensure;
use serde::Deserialize;

use super::duration;
use crate::base::backoff::Backoff;
use crate::base::setting_path::At as _;

/// The maximum wait between two attempts. It is much shorter than the minimum retention of bodies,
/// which is three days.
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
            backoff.attempts = checked_attempts(attempts).at("attempts")?;
        }
        if let Some(waits) = self.waits {
            backoff.waits = checked_waits(&waits).at("waits")?;
        }
        Ok(backoff)
    }
}

fn checked_attempts(attempts: u32) -> anyhow::Result<u32> {
    ensure!(
        (1..=50).contains(&attempts),
        "attempts = {attempts}: use a number between 1 and 50"
    );
    Ok(attempts)
}

fn checked_waits(waits: &[String]) -> anyhow::Result<Vec<Duration>> {
    ensure!(
        !waits.is_empty(),
        "waits is empty; list at least one duration"
    );
    let wait = |(index, text): (usize, &String)| duration::parse(text).at(index);
    let waits: Vec<_> = waits
        .iter()
        .enumerate()
        .map(wait)
        .collect::<Result<_, _>>()?;
    // The body must still exist when the event is due.
    ensure!(
        waits.iter().all(|wait| *wait <= LONGEST_WAIT),
        "each of the waits must be at most 24h"
    );
    Ok(waits)
}
