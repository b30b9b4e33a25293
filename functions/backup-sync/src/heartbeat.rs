//! The note of when a round came to its end, by which the next sweep and the operator see that it runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::timing::ROUND_EVERY;

use crate::BackupSync;

/// A process notes the end of a round again after this long: every second time of what comes every five
/// minutes. A round counts as late after three times its interval, so one that fails once is not.
const AGAIN: Duration = Duration::from_secs(2 * ROUND_EVERY.as_secs() - 30);

/// When this process last noted the end of each round.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats(Mutex<BTreeMap<&'static str, UnixMillis>>);

impl Heartbeats {
    fn is_due(&self, round: &str, now: UnixMillis) -> bool {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = noted.get(round);
        last.is_none_or(|last| now < *last || now.since(*last) >= AGAIN)
    }

    fn noted(&self, round: &'static str, now: UnixMillis) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert(round, now);
    }
}

impl BackupSync {
    /// Says that a round came to its end. What went well stays so when nobody hears of it.
    pub(crate) async fn beat(&self, round: &'static str) {
        let now = (self.clock)();
        if !self.beats.is_due(round, now) {
            return;
        }
        match self.parts.inbox.ledger.beat(round, now).await {
            Ok(()) => self.beats.noted(round, now),
            Err(error) => tracing::warn!(
                error = format!("{error:#}"),
                "could not note the end of {round}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_end_of_a_round_is_noted_and_each_of_a_rare_one() {
        let (beats, start) = (Heartbeats::default(), UnixMillis(1_795_219_195_000));
        let mut noted = Vec::new();
        for minute in (0..=30).step_by(5) {
            let now = start + Duration::from_secs(60 * minute);
            if beats.is_due("sweep", now) {
                beats.noted("sweep", now);
                noted.push(minute);
            }
        }
        assert_eq!(noted, [0, 10, 20, 30]);
        assert!(beats.is_due("sync", start), "each round by itself");
        assert!(beats.is_due("sweep", start), "the clock was set back");
    }
}
