//! One figure for the health of the inbox, every five minutes: how many checks are violated.
//!
//! An alarm rings when it is above zero, and when it does not come at all: then nobody sweeps.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::timing::{ROUND_EVERY, SYNC_EVERY};
use shared::monitoring::endpoint::Health as Endpoint;

use crate::{BackupSync, SweepReport};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A round that did not end for so many times its interval is late.
const GRACE: u32 = 3;

/// When this process last looked.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Option<UnixMillis>>);

impl Health {
    /// Whether it is time to look, and if so notes that it was done.
    fn is_due(&self, now: UnixMillis) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The starts of two sweeps are never quite as far apart as their schedule says.
        let due = last.is_none_or(|last| now < last || now.since(last) + MINUTE / 2 >= ROUND_EVERY);
        if due {
            *last = Some(now);
        }
        due
    }
}

impl BackupSync {
    /// Looks and says what it found. Without an answer of the table nothing is said, and the alarm
    /// rings for that. How long a sweep took is no reason to leave one out.
    pub(crate) async fn report_health(&self, sweep: &SweepReport, began: UnixMillis) {
        if !self.health.is_due(began) {
            return;
        }
        let now = (self.clock)();
        match Box::pin(self.violated(sweep, now)).await {
            Ok(violated) => tell(&violated),
            Err(error) => tracing::error!(
                error = format!("{error:#}"),
                "could not look at the health of the inbox"
            ),
        }
    }

    /// A word for each check that is violated.
    async fn violated(&self, sweep: &SweepReport, now: UnixMillis) -> anyhow::Result<Vec<String>> {
        let ledger = &self.parts.inbox.ledger;
        let mut violated = Vec::new();
        let beats = ledger.heartbeats().await?;
        for (round, every) in self.rounds() {
            // One that never ended is the doctor's to see: here a stack cannot be told from a new one.
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
        for source in self.parts.config.sources() {
            if source.endpoint.is_none() {
                continue;
            }
            let status = ledger.endpoint(&source.name).await?;
            if status.is_some_and(|status| status.finding.health != Endpoint::Good) {
                violated.push(format!("dark.{}", source.name));
            }
        }
        Ok(violated)
    }

    /// The rounds that somebody asks for, and how often they come. The comparison is not one of
    /// them: how often it comes is the stack's to say.
    fn rounds(&self) -> Vec<(&'static str, Duration)> {
        let mut rounds = vec![("drain", ROUND_EVERY), ("sync", SYNC_EVERY)];
        if self
            .parts
            .config
            .sources()
            .any(|one| one.endpoint.is_some())
        {
            rounds.push(("endpoints", HOUR));
        }
        rounds
    }
}

/// One line for people, and for the metric that the template makes of it.
fn tell(violated: &[String]) {
    let (count, words) = (violated.len(), violated.join(" "));
    if violated.is_empty() {
        tracing::info!(
            metric = "health",
            violated_checks = count,
            "the inbox is well"
        );
    } else {
        tracing::warn!(
            metric = "health",
            violated_checks = count,
            violated = words,
            "{count} checks of the inbox are violated: {words}"
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
