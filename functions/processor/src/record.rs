//! One doorbell.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::FutureExt as _;
use shared::backoff;
use shared::clock::Millis;
use shared::config::Source;
use shared::effects::Effects;
use shared::ledger::{Claim, Lease, NoBody, Settled, Settlement};
use shared::outcome::Outcome;
use shared::queue::{Doorbell, Lane, NoDoorbell};
use shared::timing::{CLOCK_MARGIN, EFFECT_TIMEOUT, LEASE};

use crate::Processor;
use crate::actions::Work;

impl Processor {
    /// Whether a doorbell waited so long that the events of now should not wait behind it, and now
    /// is in the other queue. What cannot be moved is worked on here.
    pub(crate) async fn moves_behind(
        &self,
        arn: &str,
        attributes: &HashMap<String, String>,
        message: &str,
    ) -> bool {
        let queue = &self.parts.inbox.queue;
        let sent = attributes.get("SentTimestamp");
        let Some(sent) = sent.and_then(|text| text.parse().ok()).map(Millis) else {
            return false;
        };
        let Ok(doorbell) = Doorbell::from_message(message) else {
            return false;
        };
        queue.is_late(arn, sent, (self.clock)())
            && queue
                .ring_in(Lane::Backlog, &doorbell, Duration::ZERO)
                .await
                .is_ok()
    }

    /// Does what a doorbell asks for. An error lets the queue bring it again.
    pub(crate) async fn hear(&self, message: &str, deadline: Millis) -> anyhow::Result<()> {
        let doorbell = match Doorbell::from_message(message) {
            Ok(doorbell) => doorbell,
            Err(NoDoorbell::UnknownVersion(version)) => {
                bail!("a doorbell of version {version}, which newer code must hear");
            }
            Err(why) => {
                // It names no event, so that no event is lost with it.
                tracing::error!(why = ?why, "dropped a message that is no doorbell");
                return Ok(());
            }
        };
        let Some(source) = self.parts.config.source(doorbell.key.source()) else {
            // The row stays open, and the sweep rings again: when the source is back, so is it.
            tracing::error!(event.key = %doorbell.key, "there is no source {}", doorbell.key.source());
            return Ok(());
        };
        let now = (self.clock)();
        if deadline.since(now) < EFFECT_TIMEOUT + CLOCK_MARGIN {
            bail!("there is no time left to begin in this batch");
        }
        let attempts = source.backoff.attempts;
        match self
            .parts
            .inbox
            .ledger
            .claim(&doorbell.key, "processor", now, LEASE, attempts)
            .await?
        {
            Claim::Leased(lease) => self.work(source, *lease, now + EFFECT_TIMEOUT).await,
            Claim::TooNew(version) => {
                bail!(
                    "event {} is a row of version {version}, which newer code must work on",
                    doorbell.key
                )
            }
            Claim::Exhausted => {
                tracing::error!(event.key = %doorbell.key, "event {} is a dead letter: its attempts are used up", doorbell.key);
                Ok(())
            }
            other @ (Claim::Settled(_) | Claim::Held | Claim::NotDue(_) | Claim::Missing) => {
                tracing::debug!(event.key = %doorbell.key, claim = ?other, "nothing to do for {}", doorbell.key);
                Ok(())
            }
        }
    }

    /// `until` is when the actions must have ended. It counts from before the claim, as the lease
    /// does: a call must never run when a successor may begin.
    async fn work(&self, source: &Source, lease: Lease, until: Millis) -> anyhow::Result<()> {
        let began = (self.clock)();
        let effects = Effects::new(&self.parts.inbox.ledger, &lease, self.clock);
        let outcome = self.act(source, &lease, &effects, until).await;
        let changed = effects.into_changed();
        let now = (self.clock)();
        let settlement =
            Settlement::of(outcome, &lease.row, &source.backoff, now, backoff::jitter());
        let (id, key, run) = (lease.row.id(), lease.row.key.clone(), lease.row.run);
        let (attempt, epoch, kind) = (lease.row.attempts, lease.row.epoch, lease.row.kind.clone());
        let settled = self
            .parts
            .inbox
            .ledger
            .settle(lease, settlement, &changed, now)
            .await?;

        let (word, error) = match &settled {
            Settled::Recorded(Settlement::Done) => ("done", None),
            Settled::Recorded(Settlement::Retry { error, .. }) => ("failed", Some(error)),
            Settled::Recorded(Settlement::PutOff { why, .. }) => ("put_off", Some(why)),
            Settled::Recorded(Settlement::DeadLetter { error, .. }) => ("dead_letter", Some(error)),
            Settled::Stale => ("stale", None),
        };
        tracing::info!(
            event.id = %id,
            event.key = %key,
            source = source.name,
            kind,
            attempt,
            epoch,
            run,
            outcome = word,
            error = error.map(String::as_str).unwrap_or_default(),
            took_ms = u64::try_from(now.since(began).as_millis()).unwrap_or(u64::MAX),
            "event {id}, attempt {attempt}: {word}",
        );
        if let Settled::Recorded(
            Settlement::Retry {
                ring: Some(delay), ..
            }
            | Settlement::PutOff {
                ring: Some(delay), ..
            },
        ) = settled
        {
            // A second of room, so that it never arrives before its time.
            let delay = delay + Duration::from_secs(1);
            if let Err(error) = self
                .parts
                .inbox
                .queue
                .ring(&Doorbell { key, run }, delay)
                .await
            {
                tracing::warn!(event.id = %id, error = format!("{error:#}"), "could not ring for {id}; the sweep will");
            }
        }
        Ok(())
    }

    /// Runs the source's actions, one after the other. All of them must be done; one that fails
    /// does not keep the others from being tried.
    async fn act(
        &self,
        source: &Source,
        lease: &Lease,
        effects: &Effects<'_>,
        until: Millis,
    ) -> Outcome {
        let body = match self
            .parts
            .inbox
            .ledger
            .leased_body(lease)
            .await
            .context("read the body")
        {
            Ok(Ok(body)) => body.0,
            Ok(Err(NoBody::Gone)) => return Outcome::permanent("its body is no longer there"),
            Ok(Err(NoBody::Damaged)) => {
                return Outcome::permanent("its stored body is not the one that arrived");
            }
            Err(error) => return Outcome::retry(format!("{error:#}")),
        };
        let work = Work {
            row: &lease.row,
            body: &body,
            effects,
            outbound: &self.outbound,
            secrets: &self.parts.secrets,
            clock: self.clock,
        };
        let confirmation = source.verifier.confirmation(&body);
        let all = async {
            // A request for a confirmation is for us, and not for a destination.
            if let Some(url) = &confirmation {
                let url = source.verifier.trust.fetch_url(url);
                return work.confirm(&url).await;
            }
            let mut outcome = Outcome::Done;
            for action in &source.actions {
                outcome = outcome.and(work.run(action).await);
            }
            outcome
        };
        let left = until.since((self.clock)());
        Box::pin(ended(all, left, || effects.all_keyed())).await
    }
}

/// What the actions came to, also when they panic or take longer than what is left.
async fn ended(
    actions: impl Future<Output = Outcome>,
    left: Duration,
    all_keyed: impl Fn() -> bool,
) -> Outcome {
    let caught = std::panic::AssertUnwindSafe(actions).catch_unwind();
    match tokio::time::timeout(left, caught).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => broken_off(all_keyed(), "an action panicked"),
        Err(_) => broken_off(all_keyed(), "an action took longer than 25 s"),
    }
}

/// An action that did not answer may have done its work. That is safe to repeat only where the
/// downstream honours keys.
fn broken_off(all_keyed: bool, error: &str) -> Outcome {
    if all_keyed {
        Outcome::retry(error)
    } else {
        Outcome::unknown(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_action_that_panics_or_hangs_ends_its_attempt_and_nothing_else() {
        let panics = || async { panic!("a bug in an action") };
        let hangs = || std::future::pending::<Outcome>();
        let said = |outcome: Outcome| match outcome {
            Outcome::Retry { error, after: None } => ("retry", error),
            Outcome::Unknown { error } => ("unknown", error),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            said(ended(panics(), EFFECT_TIMEOUT, || true).await),
            ("retry", "an action panicked".into())
        );
        assert_eq!(
            said(ended(panics(), EFFECT_TIMEOUT, || false).await).0,
            "unknown"
        );
        let began = tokio::time::Instant::now();
        assert_eq!(
            said(ended(hangs(), EFFECT_TIMEOUT, || true).await).0,
            "retry"
        );
        assert_eq!(began.elapsed(), EFFECT_TIMEOUT);
        assert_eq!(
            said(ended(hangs(), EFFECT_TIMEOUT, || false).await).0,
            "unknown"
        );
        // What the claim has used up is not there for the actions.
        let began = tokio::time::Instant::now();
        let left = Duration::from_secs(3);
        assert_eq!(said(ended(hangs(), left, || true).await).0, "retry");
        assert_eq!(began.elapsed(), left);
        assert_eq!(
            ended(async { Outcome::Done }, EFFECT_TIMEOUT, || false).await,
            Outcome::Done
        );
    }
}
