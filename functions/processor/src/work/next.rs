//! `next`: finds events of a queue that a worker can take, and claims them.

use std::time::Duration;

use serde_json::json;
use shared::delivery::breaker::{Pass, Position};
use shared::inbox::ledger::{Lease, WHOLE_EVENT, WorkClaim};
use shared::inbox::outcome::Outcome;
use shared::webhook::event::EventKey;

use super::caller::Caller;
use super::event::{LARGEST_ANSWER, Plans, document};
use super::http::Answer;
use super::protocol::{Next, VERSION};
use super::token::owner_of;
use super::{Member, Queue};
use crate::{LARGE, Processor};

/// The number of events of a source that one request reads. Workers claim one of them at random, so
/// that they do not all try the same one.
const FOUND: i32 = 10;

/// The number of claims that one request can lose to other workers.
const REFUSED_CLAIMS: u32 = 4;

/// When a worker asks again after an answer without events.
const EMPTY: Duration = Duration::from_secs(5);
const LOST_CLAIMS: Duration = Duration::from_secs(1);
const PAUSED: Duration = Duration::from_secs(30);

/// The longest time that a worker waits for a destination that is down.
const LONGEST_DOWN: Duration = Duration::from_secs(60);

/// The time for which a probe of the destination is reserved.
const PROBE: Duration = Duration::from_secs(30);

/// What one request has found.
struct Round {
    most: usize,
    events: Vec<String>,
    /// The bytes of the events in the answer.
    size: usize,
    refused: u32,
    /// Why a source gave no event, and when to ask again. The first reason of the sources counts
    /// that is not `empty`.
    reason: Option<(&'static str, Duration)>,
    /// Whether a source was asked for events.
    asked: bool,
}

impl Processor {
    /// Claims up to `max` events. Begins with a random source, so that no source has to wait for the
    /// others.
    pub(super) async fn next(
        &self,
        queue: &Queue<'_>,
        caller: &Caller,
        next: &Next,
    ) -> anyhow::Result<Answer> {
        let mut round = Round::new(next.most);
        let first = random_below(queue.members.len());
        let (before, after) = queue.members.split_at(first);
        for member in after.iter().chain(before) {
            if round.is_over() {
                break;
            }
            let taking = self.take_from(queue, member, caller, next, &mut round);
            match Box::pin(taking).await {
                Ok(()) => {}
                // The events that are claimed already must reach the worker.
                Err(error) if round.events.is_empty() => return Err(error),
                Err(error) => {
                    tracing::warn!(
                        source = member.source.name,
                        error = format!("{error:#}"),
                        "could not claim more events for a worker"
                    );
                    break;
                }
            }
        }
        Ok(round.answer())
    }

    async fn take_from(
        &self,
        queue: &Queue<'_>,
        member: &Member<'_>,
        caller: &Caller,
        next: &Next,
        round: &mut Round,
    ) -> anyhow::Result<()> {
        let now = (self.clock)();
        if self.pauses.is_paused(&member.source.name, now).await? {
            round.note("paused", PAUSED);
            return Ok(());
        }
        let destination = member.action.destination.as_ref().map(|it| &it.name);
        let mut probes = false;
        if let Some(name) = destination {
            match self.breakers.position(name, now).await {
                Position::Closed => {}
                Position::Open { until, .. } => {
                    round.note("down", until.since(now).min(LONGEST_DOWN));
                    return Ok(());
                }
                Position::Probing => probes = true,
            }
        }
        round.asked = true;
        let ledger = &self.services.inbox.ledger;
        let mut keys = ledger
            .work_available(&member.source.name, now, FOUND)
            .await?;
        while !keys.is_empty() && !round.is_over() {
            if probes && let Some(name) = destination {
                // One event probes the destination. The other workers wait for its result.
                let pass = self.breakers.pass_for(name, PROBE, now).await;
                if let Pass::Down { until, .. } = pass {
                    round.note("down", until.since(now).min(LONGEST_DOWN));
                    return Ok(());
                }
            }
            let key = keys.swap_remove(random_below(keys.len()));
            let taken = self.claim(queue, member, caller, next, &key).await?;
            match taken {
                Some(lease) => Box::pin(self.hand_out(member, *lease, round)).await?,
                None => round.refused += 1,
            }
            if probes {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Claims one event. `None` if this worker cannot have it.
    async fn claim(
        &self,
        queue: &Queue<'_>,
        member: &Member<'_>,
        caller: &Caller,
        next: &Next,
        key: &EventKey,
    ) -> anyhow::Result<Option<Box<Lease>>> {
        let now = (self.clock)();
        let pull = member.pull;
        let lease = next.lease.unwrap_or(pull.lease).min(pull.max_hold);
        let worker = owner_of(caller, &next.worker, now);
        let attempts = member.source.backoff.attempts;
        let ledger = &self.services.inbox.ledger;
        let claim = ledger
            .claim_work(key, queue.name, &worker, now, now + lease, attempts)
            .await?;
        match claim {
            WorkClaim::Leased(lease) => return Ok(Some(lease)),
            WorkClaim::Exhausted => {
                tracing::error!(event.key = %key, outcome = "dead_letter", "event {key} is a dead letter: its attempts are used up");
            }
            WorkClaim::TooNew(version) => {
                tracing::error!(event.key = %key, "the row of event {key} has version {version}, which is not supported; deploy a newer processor");
            }
            other => {
                tracing::debug!(event.key = %key, claim = ?other, "a worker cannot take event {key} now");
            }
        }
        Ok(None)
    }

    /// Adds a claimed event to the answer. Settles or releases an event that cannot be part of it.
    async fn hand_out(
        &self,
        member: &Member<'_>,
        lease: Lease,
        round: &mut Round,
    ) -> anyhow::Result<()> {
        let too_large = || {
            Outcome::permanent(
                "the event is too large for a worker; use an action that sends the event, or one \
                 that only names it",
            )
        };
        if lease.row.body_len > LARGE {
            return self.give_back(member, lease, too_large()).await;
        }
        let content = match self.read_content(&lease).await {
            Ok(content) => content,
            Err(outcome) => return self.give_back(member, lease, outcome).await,
        };
        let plans = match self.approved_plans(member, &lease).await {
            Ok(plans) => plans,
            Err(error) => {
                let error = Outcome::retry(format!("{error:#}"));
                return self.give_back(member, lease, error).await;
            }
        };
        let given = (&content.body, &plans);
        match document(member, &lease, given, (self.clock)()) {
            Some(event) if round.fits(event.size) => {
                round.size += event.size;
                round.events.push(event.json);
                Ok(())
            }
            Some(_) => {
                let why = "the answer to the worker had no room for the event";
                let now = (self.clock)();
                round.close();
                self.give_back(member, lease, Outcome::deferred(why, now))
                    .await
            }
            None => self.give_back(member, lease, too_large()).await,
        }
    }

    /// Reads the plans of workers that an operator approved in this run. An approval without its plan
    /// is worth nothing: the worker makes another plan, which is held again.
    async fn approved_plans(&self, member: &Member<'_>, lease: &Lease) -> anyhow::Result<Plans> {
        let (row, ledger) = (&lease.row, &self.services.inbox.ledger);
        let mut plans = Plans::new();
        for (effect, approval) in &row.approvals {
            if effect == WHOLE_EVENT || member.has_action(effect) {
                continue;
            }
            let plan = ledger.work_plan(row, effect, &approval.plan).await?;
            plans.extend(plan.map(|plan| (effect.clone(), plan)));
        }
        Ok(plans)
    }

    async fn give_back(
        &self,
        member: &Member<'_>,
        lease: Lease,
        outcome: Outcome,
    ) -> anyhow::Result<()> {
        let settlement = self.settlement(member, &lease, outcome);
        self.settle_work(member, lease, settlement, "", &[]).await?;
        Ok(())
    }
}

impl Round {
    fn new(most: usize) -> Self {
        Self {
            most,
            events: Vec::new(),
            size: 0,
            refused: 0,
            reason: None,
            asked: false,
        }
    }

    fn is_over(&self) -> bool {
        self.events.len() >= self.most || self.refused >= REFUSED_CLAIMS
    }

    /// Ends the round after the event that did not fit.
    fn close(&mut self) {
        self.most = self.events.len();
    }

    fn fits(&self, size: usize) -> bool {
        self.size + size <= LARGEST_ANSWER
    }

    fn note(&mut self, reason: &'static str, wait: Duration) {
        self.reason.get_or_insert((reason, wait));
    }

    fn answer(self) -> Answer {
        if !self.events.is_empty() {
            let events = self.events.join(",");
            return Answer::of_text(200, format!("{{\"v\":{VERSION},\"events\":[{events}]}}"));
        }
        let (reason, wait) = match self.reason {
            Some(why) if !self.asked => why,
            _ if self.refused > 0 => ("empty", LOST_CLAIMS),
            _ => ("empty", EMPTY),
        };
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let body = json!({ "v": VERSION, "events": [], "reason": reason, "retry_after_ms": wait });
        Answer::new(200, &body)
    }
}

/// Returns a random number below `count`, or 0. Without random bytes, the first one is as good.
fn random_below(count: usize) -> usize {
    let mut bytes = [0; 8];
    let _ = shared::base::random::fill(&mut bytes);
    let random = u64::from_le_bytes(bytes);
    let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
    usize::try_from(random % count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(round: Round) -> serde_json::Value {
        serde_json::from_str(round.answer().body()).unwrap()
    }

    #[test]
    fn an_answer_without_events_says_why_and_when_to_ask_again() {
        let mut paused = Round::new(1);
        paused.note("paused", PAUSED);
        paused.note("down", LONGEST_DOWN);
        let mut lost = Round::new(1);
        lost.note("paused", PAUSED);
        (lost.asked, lost.refused) = (true, 1);
        let mut empty = Round::new(1);
        empty.asked = true;
        for (round, reason, wait) in [
            (paused, "paused", 30_000),
            (lost, "empty", 1_000),
            (empty, "empty", 5_000),
        ] {
            let expected =
                json!({ "v": 1, "events": [], "reason": reason, "retry_after_ms": wait });
            assert_eq!(said(round), expected);
        }
    }

    #[test]
    fn a_round_ends_with_its_events_or_with_four_lost_claims() {
        let mut round = Round::new(2);
        round.events.push("1".to_owned());
        assert!(!round.is_over());
        round.refused = REFUSED_CLAIMS;
        assert!(round.is_over());
        round.refused = 0;
        round.events.push("2".to_owned());
        assert!(round.is_over());
        assert_eq!(said(round), json!({ "v": 1, "events": [1, 2] }));
    }

    #[test]
    fn a_random_number_is_below_its_limit() {
        assert_eq!(random_below(0), 0);
        assert!((0..1_000).all(|_| random_below(3) < 3));
        assert!((0..1_000).any(|_| random_below(3) == 2));
    }
}
