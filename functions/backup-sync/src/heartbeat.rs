//! The heartbeat of a task: the time at which the task last ended. The heartbeat shows the sweep
//! and the operator that the task runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::timing::ROUND_EVERY;
use shared::inbox::ledger::SourcesReport;

use crate::BackupSync;

/// The minimum time between two heartbeats of a task from one process: every second run of a
/// five-minute schedule. A task is late after three times its interval, so one missing heartbeat
/// does not cause an alarm.
const AGAIN: Duration = Duration::from_secs(2 * ROUND_EVERY.as_secs() - 30);

/// The time at which this process last wrote the heartbeat of each task.
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
    /// Writes the heartbeat of a task. A failed write does not fail the task.
    pub(crate) async fn beat(&self, round: &'static str) {
        let now = (self.clock)();
        if !self.beats.is_due(round, now) {
            return;
        }
        let inbox = &self.services.inbox;
        let sources = SourcesReport {
            long_actions: Some(inbox.queue.has_long()),
            ..self.services.sources.report()
        };
        let operations = inbox.ledger.operations();
        match operations.beat_about(round, Some(&sources), now).await {
            Ok(()) => self.beats.noted(round, now),
            Err(error) => tracing::warn!(
                error = format!("{error:#}"),
                "could not write the heartbeat of {round}"
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
        assert!(beats.is_due("sync", start), "tasks are independent");
        assert!(beats.is_due("sweep", start), "the clock was set back");
    }
}
