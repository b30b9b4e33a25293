//! Runs one action of one event: checks its filter, and the circuit breaker and the rate limit of
//! its destination. Returns the outcome.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use shared::base::backoff::jitter;
use shared::base::clock::UnixMillis;
use shared::base::timing::ACTION_TIMEOUT;
use shared::delivery::breaker::{CallResult, Pass, Position, refuses};
use shared::delivery::effects::Effects;
use shared::delivery::rates::Turn;
use shared::inbox::ledger::{Content, Lease, Row};
use shared::inbox::outcome::Outcome;
use shared::inbox::queue::QueueName;
use shared::sources::{Action, AnswerRules, Destination, Facts, Rate, Source};
use shared::webhook::missing::{MissingPath, PathUse};

use crate::Processor;
use crate::actions::{DestinationHealth, Work};
use crate::attempt::ActionsResult;
use crate::order::ActionInput;
use crate::rules::Ruled;

/// The maximum time that a worker waits for its turn under the rate limit. If the turn comes later,
/// the event is deferred.
const SOON: Duration = Duration::from_millis(1_200);

/// How long older events are deferred while their destination is failing.
const STRAINED: Duration = Duration::from_secs(120);

/// The time that is reserved for a call under a rate limit.
const CALL: Duration = ACTION_TIMEOUT;

/// The number of deferrals of an event after which a failed probe counts as an attempt. Without
/// this limit, an event that makes every destination fail would never end. With a probe every ten
/// minutes, the limit is reached within a day.
const FREE_PROBES: u32 = 100;

/// The same for a destination that refuses every request, and is probed every minute.
const FREE_REFUSED_PROBES: u32 = 1_440;

impl Processor {
    /// Runs an action with the given input, if its filter matches the event. Each action has its
    /// own effects.
    pub(crate) async fn run_action(
        &self,
        source: &Source,
        action: &Action,
        lease: &Lease,
        content: &Content,
        given: &ActionInput,
        until: UnixMillis,
    ) -> ActionsResult {
        if !self.concerns(action, lease, content).await {
            return Outcome::Done.into();
        }
        if !source.policy.is_empty() {
            let ruled = Ruled {
                source,
                lease,
                content,
                given,
            };
            if let Some(down) = self.down_before_rate(ruled, action).await {
                return down.of_action(&action.name).into();
            }
            let ledger = &self.services.inbox.ledger;
            let result = Box::pin(ruled.action(ledger, action, (self.clock)()));
            if let Some(result) = result.await {
                return result;
            }
        }
        let effects = Effects::new(&self.services.inbox.ledger, lease, self.clock);
        if let Some(version) = &given.state {
            effects.of_state(version);
        }
        let health = DestinationHealth::default();
        let work = Work {
            source: Some(source),
            request: content.request.as_ref().map(|kept| &kept.context),
            entity: given.entity.as_ref(),
            ..self.work_on(
                given.row.as_ref().unwrap_or(&lease.row),
                &given.body,
                &effects,
                &health,
                (&action.answers, action.timeout),
            )
        };
        let began = (self.clock)();
        let outcome = match &action.destination {
            // An effect that is already settled is not sent again, so the state of its destination
            // does not matter.
            Some(destination) if !effects.is_settled(&action.name) => {
                self.call_destination(destination, action, &work, until)
                    .await
            }
            _ => self.end(work.run(action), &work, until).await,
        };
        let outcome = outcome.of_action(&action.name);
        let took = (self.clock)().since(began);
        let mut quotes = Vec::new();
        if let Some(last) = health.take_answer() {
            let kept = self.keep_answer(action, lease, last, took, &outcome);
            quotes.extend(kept.await);
        }
        ActionsResult {
            outcome,
            changed: effects.into_changed(),
            quotes,
            queue: None,
            dry_run: false,
        }
    }

    /// Returns the deferral of an action whose destination is down, if a rule would count its effect
    /// first. An attempt without a call must not use up the rate.
    async fn down_before_rate(&self, ruled: Ruled<'_>, action: &Action) -> Option<Outcome> {
        let counts = ruled.source.policy.iter().any(|rule| rule.rate.is_some());
        let destination = action.destination.as_ref().filter(|_| counts)?;
        if ruled.is_settled(action) {
            return None;
        }
        let position = self.breakers.position(&destination.name, (self.clock)());
        match position.await {
            Position::Open { until, .. } => {
                let why = format!("{} is down", destination.name);
                Some(Outcome::deferred(why, until))
            }
            Position::Closed | Position::Probing => None,
        }
    }

    /// Returns whether the filter of an action matches the event. Records a path of the filter that
    /// is missing in the body.
    pub(crate) async fn concerns(&self, action: &Action, lease: &Lease, content: &Content) -> bool {
        let tested = facts(&lease.row, content);
        let matched = action.filter.matches(tested);
        if let Some(path) = action.filter.missing_path(tested, matched) {
            let missing = MissingPath::new(PathUse::Filter, &format!("json:{path}"));
            Box::pin(self.note_missing(&lease.row, missing)).await;
        }
        matched
    }

    /// Confirms a subscription.
    pub(crate) async fn confirm(
        &self,
        url: &str,
        lease: &Lease,
        body: &Bytes,
        until: UnixMillis,
    ) -> ActionsResult {
        let effects = Effects::new(&self.services.inbox.ledger, lease, self.clock);
        let health = DestinationHealth::default();
        let rules = AnswerRules::default();
        let rules = (&rules, ACTION_TIMEOUT);
        let work = self.work_on(&lease.row, body, &effects, &health, rules);
        let outcome = self.end(work.confirm(url), &work, until).await;
        ActionsResult {
            changed: effects.into_changed(),
            ..outcome.into()
        }
    }

    /// Runs an action if its destination can take the event now. Otherwise defers the event.
    async fn call_destination(
        &self,
        destination: &Destination,
        action: &Action,
        work: &Work<'_>,
        until: UnixMillis,
    ) -> Outcome {
        let (name, call) = (&destination.name, work.timeout);
        let now = (self.clock)();
        let old = QueueName::of(work.row.received_at, now) == QueueName::Backlog;
        if old && self.breakers.is_strained(name, now) {
            return strained(name, now);
        }
        let pass = self.breakers.pass_for(name, call, now).await;
        match (&pass, destination.rate) {
            (Pass::Down { refused, .. }, _) => {
                let why = refused.map_or(String::new(), |status| format!(": {}", refuses(status)));
                return deferred(&pass, format!("{name} is down{why}"));
            }
            (Pass::Free, Some(rate)) => {
                if let Some(turn) = self.turn(name, rate, old, until).await {
                    return Outcome::deferred(
                        format!("{name} has reached its rate limit of {rate}"),
                        turn,
                    );
                }
            }
            // Probes are too rare to need the rate limit.
            (Pass::Free | Pass::Probe(_), _) => {}
        }
        let probes = matches!(pass, Pass::Probe(_));
        let began = (self.clock)();
        // If a slow table left little time, a timeout does not show that the destination is slow.
        let had_time = until.since(began) >= call;
        let outcome = self.end(work.run(action), work, until).await;
        let now = (self.clock)();
        // The action timed out, during a call or before it. The destination counts as failing only
        // if it had enough time.
        let heard = if now >= until && had_time {
            CallResult::Failure
        } else {
            work.health.heard()
        };
        let heard = heard.after(now.since(began));
        self.breakers.heard(name, pass, heard, now, jitter()).await;
        match outcome {
            // A failed probe does not count as an attempt of its event.
            Outcome::Retry { error, .. }
                if probes && heard.is_failure() && work.row.deferrals < FREE_PROBES =>
            {
                deferred(&self.breakers.pass_for(name, call, now).await, error)
            }
            Outcome::Refused {
                error,
                after,
                within,
            } if probes && work.row.deferrals < FREE_REFUSED_PROBES => {
                match self.breakers.pass_for(name, call, now).await {
                    down @ Pass::Down { .. } => deferred(&down, error),
                    // The destination was down for another reason, and is up again.
                    Pass::Free | Pass::Probe(_) => Outcome::Refused {
                        error,
                        after,
                        within,
                    },
                }
            }
            other => other,
        }
    }

    /// Waits for the turn if it comes soon. Otherwise returns the time of the turn.
    async fn turn(
        &self,
        destination: &str,
        rate: Rate,
        old: bool,
        until: UnixMillis,
    ) -> Option<UnixMillis> {
        let mut turn = None;
        for _ in 0..3 {
            let now = (self.clock)();
            match self.rates.take(destination, rate, old, now, jitter()).await {
                Ok(Turn::Now) => return None,
                Ok(Turn::At(at)) => {
                    turn = Some(at);
                    if at.since(now) > SOON || until.since(at) < CALL {
                        break;
                    }
                    tokio::time::sleep(at.since(now)).await;
                }
                // If the counter is unavailable, the call is not delayed.
                Err(error) => {
                    tracing::warn!(
                        destination,
                        error = format!("{error:#}"),
                        "could not count a call; the rate limit of {destination} is not applied"
                    );
                    return None;
                }
            }
        }
        turn
    }

    async fn end(
        &self,
        action: impl Future<Output = Outcome>,
        work: &Work<'_>,
        until: UnixMillis,
    ) -> Outcome {
        let left = until.since((self.clock)());
        ended(Box::pin(action), left, || work.effects.all_keyed()).await
    }

    fn work_on<'w>(
        &'w self,
        row: &'w Row,
        body: &'w Bytes,
        effects: &'w Effects<'w>,
        health: &'w DestinationHealth,
        (rules, timeout): (&'w AnswerRules, Duration),
    ) -> Work<'w> {
        Work {
            row,
            body,
            request: None,
            source: None,
            entity: None,
            effects,
            outbound: &self.outbound,
            clients: &self.clients,
            secrets: &self.services.secrets,
            clock: self.clock,
            health,
            rules,
            timeout,
        }
    }
}

/// What the filters of the actions test.
pub(crate) fn facts<'e>(row: &'e Row, content: &'e Content) -> Facts<'e> {
    Facts {
        kind: &row.kind,
        body: &content.body,
        account: row.account.as_ref().map(|account| account.value.as_str()),
        request: content.request.as_ref().map(|kept| &kept.context),
        headers: &row.headers,
    }
}

/// Defers an older event while its destination is failing.
fn strained(destination: &str, now: UnixMillis) -> Outcome {
    let later = now + STRAINED.mul_f64(1.0 + jitter());
    let why = format!("{destination} is failing, so its older events wait");
    Outcome::deferred(why, later)
}

/// Defers an event by a random additional time, so that deferred events do not all return at once.
fn deferred(pass: &Pass, why: String) -> Outcome {
    match pass {
        Pass::Down { until, spread, .. } => {
            Outcome::deferred(why, *until + spread.mul_f64(jitter()))
        }
        Pass::Free | Pass::Probe(_) => Outcome::retry(why),
    }
}

/// Returns the outcome of an action, even if it panics or takes longer than `left`.
async fn ended(
    action: impl Future<Output = Outcome>,
    left: Duration,
    all_keyed: impl Fn() -> bool,
) -> Outcome {
    let caught = std::panic::AssertUnwindSafe(action).catch_unwind();
    match tokio::time::timeout(left, caught).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => broken_off(all_keyed(), "an action panicked"),
        Err(_) => broken_off(all_keyed(), "an action did not end in time"),
    }
}

/// An action that did not finish may have had its effect. A repeat is safe only if the destination
/// honours idempotency keys.
fn broken_off(all_keyed: bool, error: &str) -> Outcome {
    if all_keyed {
        Outcome::retry(error)
    } else {
        Outcome::unknown(error)
    }
}

#[cfg(test)]
mod tests {
    use shared::base::timing::EFFECT_TIMEOUT;

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
        // The time that the claim used is not available to the actions.
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
