//! Reports the health metric of the inbox every five minutes: the number of checks that fail.
//!
//! An alarm fires if the metric is above zero. Another alarm fires if the metric is missing, because
//! then no sweep runs. The first alarm can be raised for days, and must not hide the second.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::timing::{ROUND_EVERY, SYNC_EVERY};
use shared::monitoring::endpoint::Health as Endpoint;

use crate::{BackupSync, SweepReport};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// The number of intervals without an end of a task after which the task is late.
const GRACE: u32 = 3;

/// How long a missing path counts. A process stores each path once an hour, so a path that is missing
/// in all events counts without interruption.
const LACKING: Duration = Duration::from_secs(2 * 3600);

/// The time at which this process last ran the checks.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Option<UnixMillis>>);

impl Health {
    /// Returns whether the checks are due, and if so records that they ran.
    fn is_due(&self, now: UnixMillis) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The interval between two sweeps can be slightly shorter than their schedule says.
        let due = last.is_none_or(|last| now < last || now.since(last) + MINUTE / 2 >= ROUND_EVERY);
        if due {
            *last = Some(now);
        }
        due
    }
}

impl BackupSync {
    /// Runs the checks and reports the result. If the table does not answer, the report is missing
    /// and the alarm for a missing report fires. `began` is the start of the sweep: the times of the
    /// reports do not depend on how long a sweep takes, so no report is skipped.
    pub(crate) async fn report_health(&self, sweep: &SweepReport, began: UnixMillis) {
        if !self.health.is_due(began) {
            return;
        }
        let now = (self.clock)();
        match Box::pin(self.violated(sweep, now)).await {
            Ok(violated) => tell(&violated),
            Err(error) => tracing::error!(
                error = format!("{error:#}"),
                "could not check the health of the inbox"
            ),
        }
    }

    /// Returns a word for each check that fails.
    async fn violated(&self, sweep: &SweepReport, now: UnixMillis) -> anyhow::Result<Vec<String>> {
        let ledger = &self.services.inbox.ledger;
        let mut violated = Vec::new();
        let beats = ledger.operations().heartbeats().await?;
        for (round, every) in self.rounds() {
            // A task that never ended looks the same as a task of a new stack. The doctor reports
            // such a task.
            if let Some(last) = beats.get(round)
                && now.since(*last) > every * GRACE
            {
                violated.push(format!("late.{round}"));
            }
        }
        if ledger.count_dead_letters(0).await? > 0 {
            violated.push("dead_letters".to_owned());
        }
        if ledger.count_quarantined(0).await? > 0 {
            violated.push("quarantined".to_owned());
        }
        if sweep.failed > 0 {
            violated.push("failed_rows".to_owned());
        }
        let down = self.failing_destinations(now).await?;
        violated.extend(down.iter().map(|name| format!("down.{name}")));
        let limit = self.services.longest_wait;
        if self.has_waiting_events(limit, now).await? {
            violated.push("waiting".to_owned());
        }
        let queues = self.waiting_queues(limit, now).await?;
        violated.extend(queues.iter().map(|queue| format!("pull.{queue}")));
        if self.services.sources.report().failed {
            violated.push("sources".to_owned());
        }
        violated.extend(self.missing_paths(now).await?);
        let config = self.services.sources.config();
        for source in config.sources() {
            if source.endpoint.is_none() {
                continue;
            }
            let status = ledger.provider_reports().endpoint(&source.name).await?;
            if status.is_some_and(|status| status.finding.health != Endpoint::Good) {
                violated.push(format!("dark.{}", source.name));
            }
        }
        Ok(violated)
    }

    /// Returns a word for each configured source whose events recently lacked the path of their id or
    /// of their order. Without the id, a repeated delivery can become a second event.
    async fn missing_paths(&self, now: UnixMillis) -> anyhow::Result<BTreeSet<String>> {
        let statistics = self.services.inbox.ledger.statistics();
        let missing = statistics.missing_paths(now - LACKING).await?;
        let config = self.services.sources.config();
        let missing = missing.into_iter().filter(|record| {
            record.missing.used_for.is_vital()
                && now.since(record.last) < LACKING
                && config.source(&record.source).is_some()
        });
        Ok(missing.map(|it| format!("paths.{}", it.source)).collect())
    }

    /// Returns the scheduled tasks and their intervals. The reconciliation is left out, because a
    /// stack parameter sets its interval.
    fn rounds(&self) -> Vec<(&'static str, Duration)> {
        let mut rounds = vec![("drain", ROUND_EVERY), ("sync", SYNC_EVERY)];
        let config = self.services.sources.config();
        if config.sources().any(|one| one.endpoint.is_some()) {
            rounds.push(("endpoints", HOUR));
        }
        rounds
    }
}

/// Logs one line for operators, from which the template creates a metric.
fn tell(violated: &[String]) {
    let (count, words) = (violated.len(), violated.join(" "));
    if violated.is_empty() {
        tracing::info!(
            metric = "health",
            violated_checks = count,
            "the inbox is healthy"
        );
    } else {
        tracing::warn!(
            metric = "health",
            violated_checks = count,
            violated = words,
            "{count} checks of the inbox fail: {words}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_219_195_000);

    #[test]
    fn it_is_told_with_every_fifth_sweep() {
        let health = Health::default();
        let told = (0..11).filter(|sweep| health.is_due(NOW + MINUTE * *sweep));
        assert_eq!(told.collect::<Vec<_>>(), [0, 5, 10]);
    }

    #[test]
    fn it_is_told_when_sweeps_begin_a_little_early_or_the_clock_was_set_back() {
        let health = Health::default();
        assert!(health.is_due(NOW));
        assert!(health.is_due(NOW + ROUND_EVERY - Duration::from_secs(2)));
        assert!(health.is_due(NOW));
    }
}
