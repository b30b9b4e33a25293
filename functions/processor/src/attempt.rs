//! One attempt of a leased event: runs the actions, and records the outcome.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::{Either, join_all, select};
use shared::base::backoff;
use shared::base::clock::UnixMillis;
use shared::base::timing::{GIVE_UP, LEASE, LONG_LEASE, RENEW_AGAIN, RENEW_EVERY};
use shared::inbox::ledger::{
    Content, EffectRow, EffectState, Lease, MissingBody, REFUSED, Row, Settled, Settlement,
};
use shared::inbox::outcome::Outcome;
use shared::inbox::queue::WorkMessage;
use shared::inbox::trace::TraceId;
use shared::sources::{Action, Source};
use shared::webhook::event::{EventId, EventKey};
use tokio::time::timeout;

use crate::answers::{Quote, quoting};
use crate::order::Turn;
use crate::rules::Ruled;
use crate::{LARGE, Permit, Processor, WORKER};

/// The error of an event whose actions need a function that the stack does not have.
const LONG_ACTIONS_OFF: &str = "an action of the source has a timeout above 20 s, and this stack has \
     no function for long actions; deploy the stack with LongActions=true, then redrive the event";

/// The annotation in the history of an event of which a call was only recorded.
pub(crate) const DRY_RUN: &str = "dry run";

/// The outcome of the actions, and what they leave behind.
pub(crate) struct ActionsResult {
    pub(crate) outcome: Outcome,
    /// The rows of the effects that changed.
    pub(crate) changed: Vec<(String, EffectRow)>,
    /// What destinations said.
    pub(crate) quotes: Vec<Quote>,
    /// The queue whose workers take the event, if all actions of the processor are done.
    pub(crate) queue: Option<String>,
    /// Whether a rule of the source replaced a call by its record.
    pub(crate) dry_run: bool,
}

impl From<Outcome> for ActionsResult {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            changed: Vec::new(),
            quotes: Vec::new(),
            queue: None,
            dry_run: false,
        }
    }
}

impl Processor {
    /// Makes one attempt: runs the actions, decides the settlement, records it, and sends the
    /// message of a short wait. The actions must end before `until`. Like the lease, `until` counts
    /// from before the claim, because no call may run when another worker can take over the event.
    pub(crate) async fn work(
        &self,
        source: &Source,
        mut lease: Lease,
        until: UnixMillis,
        slot: Permit<'_>,
    ) -> anyhow::Result<Option<WorkMessage>> {
        let began = (self.clock)();
        let chained = slot.is_none();
        let mut turn = Turn::default();
        let acting = Box::pin(self.run_actions(source, &lease, until, &mut turn));
        let acted = slot.run_releasing_when_slow(self.renewing(&lease, acting));
        let Some(acted) = acted.await else {
            bail!(
                "the lease of event {} could not be renewed, so its actions were stopped; the next \
                 attempt uses the same idempotency keys",
                lease.row.id()
            );
        };
        if let Some(remark) = turn.remark {
            lease.annotate(remark);
        }
        let now = (self.clock)();
        let settlement = Settlement::of(
            acted.outcome,
            &lease.row,
            &source.backoff,
            now,
            backoff::jitter(),
        );
        let settlement = acted
            .queue
            .map_or(settlement, |queue| Settlement::Parked { queue });
        let settlement = settle_turn(settlement, &mut turn, chained, now);
        let attempt = Attempt::of(&lease.row, lease.trace);
        let ledger = &self.services.inbox.ledger;
        let quoted = quoting(&settlement, &acted.quotes);
        let settled = ledger.settle(lease, quoted, &acted.changed, now).await?;
        // The log must not contain what a destination said.
        let settled = match settled {
            Settled::Recorded(_) => Settled::Recorded(settlement),
            Settled::Stale => Settled::Stale,
        };
        let next = self.end_turn(turn, &settled).await;
        attempt.log(source, &settled, now.since(began));
        self.send_retry(attempt, settled).await;
        Ok(next)
    }

    /// Records an event of a source without effects as done, in one write. Returns `false` if the
    /// event is not new. The caller then claims it.
    pub(crate) async fn keep(
        &self,
        source: &Source,
        key: &EventKey,
        began: UnixMillis,
    ) -> anyhow::Result<bool> {
        let ledger = &self.services.inbox.ledger;
        let Some(row) = ledger.keep(key, WORKER, began, LEASE).await? else {
            return Ok(false);
        };
        let took = (self.clock)().since(began);
        Attempt::of(&row, TraceId::of(key)).log(source, &Settled::Recorded(Settlement::Done), took);
        Ok(true)
    }

    /// Runs the actions of the source in parallel. The event is done when all of its actions are
    /// done. If an action fails or hangs, the others continue.
    async fn run_actions(
        &self,
        source: &Source,
        lease: &Lease,
        until: UnixMillis,
        turn: &mut Turn,
    ) -> ActionsResult {
        if source.is_long() && !self.services.runs_long_actions {
            return Outcome::permanent(LONG_ACTIONS_OFF).into();
        }
        let is_large = lease.row.body_len > LARGE;
        let room = is_large.then(|| self.large.try_acquire());
        if let Some(Err(_)) = room {
            let why = "another event with a body of more than 4 MiB is being processed";
            return Outcome::deferred(why, until).into();
        }
        let content = match self.read_content(lease).await {
            Ok(content) => content,
            Err(outcome) => return outcome.into(),
        };
        let body = &content.body;
        // Mitt itself answers a request to confirm a subscription; no destination receives it.
        if let Some(url) = source.verifier.confirmation(body) {
            let url = source.verifier.trust.fetch_url(&url);
            return self.confirm(&url, lease, body, until).await;
        }
        let given = match self.take_turn(source, lease, &content, turn).await {
            Ok(given) => given,
            Err(outcome) => return outcome.into(),
        };
        if !source.policy.is_empty() {
            let ruled = Ruled {
                source,
                lease,
                content: &content,
                given: &given,
            };
            if let Some(outcome) = ruled.event() {
                return outcome.into();
            }
        }
        let own = |action: &&Action| action.kind.pull().is_none();
        let actions = source.actions.iter().filter(own).map(|action| {
            Box::pin(self.run_action(source, action, lease, &content, &given, until))
        });
        let mut acted = combined(join_all(actions).await, lease, turn);
        if acted.outcome == Outcome::Done {
            acted.queue = self.queue_of(source, lease, &content).await;
        }
        acted
    }

    /// Returns the queue whose workers take the event. A replay that keeps the effects of the event
    /// also keeps what a worker did.
    async fn queue_of(&self, source: &Source, lease: &Lease, content: &Content) -> Option<String> {
        let (action, pull) = source.pull()?;
        let before = lease.row.effects.get(&action.name);
        let is_done = before.is_some_and(|before| before.state == EffectState::Done);
        let takes = !is_done && self.concerns(action, lease, content).await;
        takes.then(|| pull.queue.clone())
    }

    /// Waits for the actions of an event, and renews its lease in the meantime. Drops the actions and
    /// returns `None` if the lease cannot be renewed. A short action ends before the first renewal.
    async fn renewing<T>(
        &self,
        lease: &Lease,
        actions: impl Future<Output = T> + Unpin,
    ) -> Option<T> {
        let ledger = &self.services.inbox.ledger;
        let mut actions = actions;
        let mut next = (self.clock)() + RENEW_EVERY;
        loop {
            let wait = next.since((self.clock)());
            if let Ok(done) = timeout(wait, &mut actions).await {
                return Some(done);
            }
            let (now, ends) = ((self.clock)(), lease.until() - GIVE_UP);
            let renewal = ledger.renew(lease, now, now + LONG_LEASE);
            let renewal = Box::pin(timeout(ends.since(now), renewal));
            match select(&mut actions, renewal).await {
                Either::Left((done, _)) => return Some(done),
                Either::Right((Ok(Ok(true)), _)) => next = now + RENEW_EVERY,
                Either::Right((Ok(Err(error)), _)) if now < ends => {
                    tracing::warn!(event.id = %lease.row.id(), error = format!("{error:#}"), "could not renew a lease; the processor tries again");
                    next = now + RENEW_AGAIN;
                }
                Either::Right(_) => return None,
            }
        }
    }

    /// Reads the body of an event and its request, or returns the outcome of an attempt without
    /// them.
    pub(crate) async fn read_content(&self, lease: &Lease) -> Result<Content, Outcome> {
        let ledger = &self.services.inbox.ledger;
        let content = ledger.leased_content(lease).await;
        match content.context("read the body") {
            Ok(Ok(content)) => Ok(content),
            Ok(Err(MissingBody::Gone)) => Err(Outcome::permanent("the body no longer exists")),
            Ok(Err(MissingBody::Damaged)) => {
                let error = "the stored body differs from the received body";
                Err(Outcome::permanent(error))
            }
            Err(error) => Err(Outcome::retry(format!("{error:#}"))),
        }
    }

    /// Sends a delayed message if the wait of the settlement is short. For a longer wait, the sweep
    /// sends the message.
    async fn send_retry(&self, attempt: Attempt, settled: Settled) {
        let Settled::Recorded(
            Settlement::Retry {
                resend_after: Some(delay),
                ..
            }
            | Settlement::Deferred {
                resend_after: Some(delay),
                ..
            },
        ) = settled
        else {
            return;
        };
        let message = WorkMessage {
            key: attempt.key,
            run: attempt.run,
        };
        // The additional second ensures that the message does not arrive before the event is due.
        let delay = delay + Duration::from_secs(1);
        if let Err(error) = self.services.inbox.queue.send(&message, delay).await {
            let id = attempt.id;
            tracing::warn!(event.id = %id, error = format!("{error:#}"), "could not send a message for {id}; the sweep sends it");
        }
    }
}

/// Combines the results of all actions of an event. Records the earliest time of a deferred action
/// in `turn`.
fn combined(results: Vec<ActionsResult>, lease: &Lease, turn: &mut Turn) -> ActionsResult {
    let mut all = ActionsResult::from(Outcome::Done);
    for result in results {
        let outcome = result.outcome;
        if let Outcome::Deferred { why, until, .. } = &outcome
            && turn.waits.as_ref().is_none_or(|(_, first)| until < first)
        {
            turn.waits = Some((why.clone(), *until));
        }
        all.outcome = all.outcome.and(outcome);
        all.quotes.extend(result.quotes);
        if result.dry_run {
            turn.remark = turn.remark.or(Some(DRY_RUN));
        }
        for (name, effect) in result.changed {
            if all.changed.iter().any(|(other, _)| *other == name) {
                tracing::error!(event.id = %lease.row.id(), effect = name, "two actions have an effect named {name}; the second is not recorded");
            } else {
                all.changed.push((name, effect));
            }
        }
    }
    all
}

/// Returns the settlement of an attempt whose event also has a place in an order. A `chained`
/// attempt began without a message of its own.
fn settle_turn(
    settlement: Settlement,
    turn: &mut Turn,
    chained: bool,
    now: UnixMillis,
) -> Settlement {
    let settlement = match (settlement, turn.waits.take()) {
        // One action used up the attempts while another action was deferred.
        (
            Settlement::DeadLetter {
                reason: "attempts_exhausted" | REFUSED,
                ..
            },
            Some((why, until)),
        ) => {
            let due = until.max(now);
            Settlement::Deferred {
                why,
                due,
                resend_after: None,
                in_line: false,
                first: None,
            }
        }
        // Another event began this sequence of events, so the sequence must not continue.
        (settlement, _) if chained => settlement.without_send(),
        (settlement, _) => settlement,
    };
    if turn.is_behind {
        settlement.in_line()
    } else {
        settlement
    }
}

/// The values of a row that the log and the message need after the settlement has consumed the
/// lease.
pub(crate) struct Attempt {
    id: EventId,
    key: EventKey,
    trace: TraceId,
    kind: String,
    run: u64,
    number: u32,
    epoch: u64,
}

impl Attempt {
    pub(crate) fn of(row: &Row, trace: TraceId) -> Self {
        Self {
            id: row.id(),
            key: row.key.clone(),
            trace,
            kind: row.kind.clone(),
            run: row.run,
            number: row.attempts,
            epoch: row.epoch,
        }
    }

    pub(crate) fn log(&self, source: &Source, settled: &Settled, took: Duration) {
        let (word, error) = match settled {
            Settled::Recorded(Settlement::Done) => ("done", None),
            Settled::Recorded(Settlement::Parked { .. }) => ("parked", None),
            Settled::Recorded(Settlement::Retry { error, .. }) => ("failed", Some(error)),
            Settled::Recorded(Settlement::Deferred { why, .. }) => ("deferred", Some(why)),
            Settled::Recorded(Settlement::Held(hold)) => ("held", Some(&hold.why)),
            Settled::Recorded(Settlement::DeadLetter { error, .. }) => ("dead_letter", Some(error)),
            Settled::Stale => ("stale", None),
        };
        let attempt = self.number;
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    event.id = %self.id,
                    event.key = %self.key,
                    trace_id = %self.trace,
                    source = source.name,
                    kind = self.kind,
                    attempt,
                    epoch = self.epoch,
                    run = self.run,
                    outcome = word,
                    error = error.map(String::as_str),
                    took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    "attempt {attempt}: {word}",
                )
            };
        }
        // A metric counts these lines, so the processor logs them at every level.
        if word == "dead_letter" {
            line!(warn);
        } else {
            line!(info);
        }
    }
}
