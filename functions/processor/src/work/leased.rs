//! What a worker does with a leased event: `extend`, `end` and `finish`. For `begin`, see `begin.rs`.
//!
//! Each request reads the row with its lease, and then writes under the fencing token and the owner
//! of the lease. So a request of a worker that lost its lease changes nothing, whatever the row was
//! when it was read.

use serde_json::{Value, json};
use shared::base::backoff::jitter;
use shared::base::clock::UnixMillis;
use shared::base::timing::CLOCK_MARGIN;
use shared::delivery::effects::{effect_row, open_effects};
use shared::inbox::ledger::{
    EffectRow, EffectState, Lease, Row, Settled, Settlement, State, WorkLease,
};
use shared::inbox::outcome::Outcome;
use shared::sources::policy::IdempotencySupport;

use super::Member;
use super::http::Answer;
use super::protocol::{
    EffectResult, End, Ended, Extend, Finish, FinishOutcome, Op, Refusal, VERSION,
};
use super::token::LeaseToken;
use crate::Processor;
use crate::attempt::{Attempt, DRY_RUN};
use crate::rules::{has_dry_run, is_dry_run};

/// The error of an attempt that a worker ended. The row also has what the worker said, the log has
/// not.
const FAILED: &str = "the worker could not process the event";

pub(super) type Answered = anyhow::Result<Result<Answer, Refusal>>;

impl Processor {
    /// Answers a request about a leased event.
    pub(super) async fn leased(&self, member: &Member<'_>, op: Op) -> Answered {
        match op {
            // It has no lease.
            Op::Next(_) => Ok(Err(Refusal::lease_lost())),
            Op::Extend(extend) => self.extend(member, &extend).await,
            Op::Begin(begin) => self.begin(member, &begin).await,
            Op::End(end) => self.end_effect(member, &end).await,
            Op::Finish(finish) => self.finish(member, &finish).await,
        }
    }

    async fn extend(&self, member: &Member<'_>, extend: &Extend) -> Answered {
        let Some(lease) = self.held(&extend.token).await? else {
            return Ok(Err(Refusal::lease_lost()));
        };
        let now = (self.clock)();
        if lease.until() <= now {
            return Ok(Err(Refusal::lease_lost()));
        }
        let latest = extend.token.claimed_at() + member.pull.max_hold;
        if latest <= lease.until() {
            let message =
                "the lease cannot be extended beyond max_hold; finish the work, or release it";
            return Ok(Err(Refusal::new(422, "max_hold", message)));
        }
        let wanted = now + extend.lease.unwrap_or(member.pull.lease);
        let until = wanted.min(latest).max(lease.until());
        if !self
            .services
            .inbox
            .ledger
            .extend_work(&lease, now, until)
            .await?
        {
            return Ok(Err(Refusal::lease_lost()));
        }
        Ok(Ok(answer(lease_time(until, now))))
    }

    async fn end_effect(&self, member: &Member<'_>, end: &End) -> Answered {
        let Some(lease) = self.held(&end.token).await? else {
            return Ok(Err(Refusal::lease_lost()));
        };
        let now = (self.clock)();
        let named = (end.effect.as_str(), &end.ended);
        let effect = match ended(member, &lease.row, named, now) {
            Ok(effect) => effect,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let ledger = &self.services.inbox.ledger;
        if !ledger.end_effect(&lease, &end.effect, &effect).await? {
            return Ok(Err(Refusal::lease_lost()));
        }
        Ok(Ok(answer(json!({}))))
    }

    async fn finish(&self, member: &Member<'_>, finish: &Finish) -> Answered {
        let ledger = &self.services.inbox.ledger;
        let token = &finish.token;
        let mut lease = match ledger
            .work_lease(&token.key, token.epoch, &token.owner)
            .await?
        {
            WorkLease::Held(lease) => lease,
            WorkLease::Ended(row) => return Ok(repeated(&row, finish.outcome)),
            WorkLease::Lost => return Ok(Err(Refusal::stale())),
        };
        let now = (self.clock)();
        let mut changed = match all_ended(member, &lease.row, finish, now) {
            Ok(changed) => changed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if finish.outcome == FinishOutcome::Done && has_dry_run(&lease.row) {
            // A replay hands out the event again, so that the effect can happen without the rule.
            lease.annotate(DRY_RUN);
        } else if finish.outcome == FinishOutcome::Done {
            // A replay that keeps the effects of the event does not hand it out again.
            let name = &member.action.name;
            let keys = IdempotencySupport::Honoured;
            let effect = effect_row(&lease.row, name, EffectState::Done, keys, "", now);
            changed.push((name.clone(), effect));
        }
        let settlement = self.settlement(member, &lease, outcome(finish, now));
        let error = &finish.error;
        let settled = self.settle_work(member, *lease, settlement, error, &changed);
        let settled = settled.await?;
        Ok(match settled {
            Settled::Recorded(settlement) => {
                self.report_to_breaker(member, finish).await;
                Ok(status(&settlement))
            }
            Settled::Stale => Err(Refusal::stale()),
        })
    }

    /// Returns the lease of a request, unless it ended.
    async fn held(&self, token: &LeaseToken) -> anyhow::Result<Option<Lease>> {
        let ledger = &self.services.inbox.ledger;
        let lease = ledger
            .work_lease(&token.key, token.epoch, &token.owner)
            .await?;
        Ok(match lease {
            // Another worker can take over the event from this time on.
            WorkLease::Held(lease) if lease.until() + CLOCK_MARGIN > (self.clock)() => Some(*lease),
            WorkLease::Held(_) | WorkLease::Ended(_) | WorkLease::Lost => None,
        })
    }

    pub(super) fn settlement(
        &self,
        member: &Member<'_>,
        lease: &Lease,
        outcome: Outcome,
    ) -> Settlement {
        let backoff = &member.source.backoff;
        Settlement::of(outcome, &lease.row, backoff, (self.clock)(), jitter())
    }

    /// Records the end of a worker's attempt. `said` is what the worker said about an error. The row
    /// has it, and the log has not.
    pub(super) async fn settle_work(
        &self,
        member: &Member<'_>,
        lease: Lease,
        settlement: Settlement,
        said: &str,
        effects: &[(String, EffectRow)],
    ) -> anyhow::Result<Settled> {
        let now = (self.clock)();
        let attempt = Attempt::of(&lease.row, lease.trace);
        let owner = lease.row.owner.clone().unwrap_or_default();
        let began = LeaseToken::new(lease.row.key.clone(), lease.row.epoch, &owner);
        let began = began.map_or(now, |token| token.claimed_at());
        let quoted = if said.is_empty() {
            settlement.clone()
        } else {
            settlement.clone().quoting(said)
        };
        let ledger = &self.services.inbox.ledger;
        let settled = match ledger.settle(lease, quoted, effects, now).await? {
            Settled::Recorded(_) => Settled::Recorded(settlement),
            Settled::Stale => Settled::Stale,
        };
        attempt.log(member.source, &settled, now.since(began));
        Ok(settled)
    }

    /// Lets the circuit breaker of the destination know how the worker's calls ended.
    async fn report_to_breaker(&self, member: &Member<'_>, finish: &Finish) {
        let Some(destination) = &member.action.destination else {
            return;
        };
        if !finish.destination_failed && finish.outcome != FinishOutcome::Done {
            return;
        }
        let (began, failed) = (finish.token.claimed_at(), finish.destination_failed);
        self.breakers
            .heard_from_worker(&destination.name, began, failed, (self.clock)(), jitter())
            .await;
    }
}

/// Refuses a name that an action of the source has. Its record is not the worker's.
pub(super) fn check_name(member: &Member<'_>, name: &str) -> Result<(), Refusal> {
    if member.has_action(name) {
        let message = "an action of the source has the name of this effect; use another name";
        return Err(Refusal::new(422, "effect_of_action", message));
    }
    Ok(())
}

/// Refuses to end an effect of an earlier attempt as one that did not happen. A call of that attempt
/// may still be under way, and only `begin` with `asked: did_not` waits until it cannot be.
fn check_doubt(row: &Row, before: &EffectRow, after: EffectState) -> Result<(), Refusal> {
    let lease = before.lease.filter(|lease| lease.epoch == row.epoch);
    let is_own = before.state == EffectState::Intent && lease.is_some();
    let in_doubt = matches!(before.state, EffectState::Intent | EffectState::Unknown);
    if in_doubt && !is_own && matches!(after, EffectState::Not | EffectState::Refused) {
        let message = "an earlier attempt may have had the effect; ask the other system, then call \
                       begin with asked: did_not, or end with done";
        return Err(Refusal::new(422, "effect_in_doubt", message));
    }
    Ok(())
}

/// Returns the record of an effect that ended.
fn ended(
    member: &Member<'_>,
    row: &Row,
    (name, ended): (&str, &Ended),
    now: UnixMillis,
) -> Result<EffectRow, Refusal> {
    check_name(member, name)?;
    let Some(before) = row.effects.get(name) else {
        let message = "the effect was not begun; call begin first";
        return Err(Refusal::new(422, "not_begun", message));
    };
    if is_dry_run(row, before) {
        let message = "a rule lets Mitt only record the effect; make no call, and do not call end";
        return Err(Refusal::new(422, "not_begun", message));
    }
    let state = match ended.result {
        EffectResult::Done => EffectState::Done,
        EffectResult::Not => EffectState::Not,
        EffectResult::Unknown => EffectState::Unknown,
        EffectResult::Refused => EffectState::Refused,
    };
    if before.state == EffectState::Done && state != EffectState::Done {
        let message = "the effect is done; its result cannot change";
        return Err(Refusal::new(422, "effect_done", message));
    }
    check_doubt(row, before, state)?;
    Ok(EffectRow {
        state,
        at: now,
        run: row.run,
        note: ended.note.clone(),
        lease: None,
        ..before.clone()
    })
}

/// Returns the records of the effects that end with the work. The work cannot be done while the
/// result of an effect is open.
fn all_ended(
    member: &Member<'_>,
    row: &Row,
    finish: &Finish,
    now: UnixMillis,
) -> Result<Vec<(String, EffectRow)>, Refusal> {
    let of_request = finish.effects.iter();
    let changed: Result<Vec<_>, Refusal> = of_request
        .map(|(name, end)| Ok((name.clone(), ended(member, row, (name, end), now)?)))
        .collect();
    let changed = changed?;
    let is_open = |name: &&str| !finish.effects.contains_key(*name);
    let open: Vec<&str> = open_effects(row).filter(is_open).collect();
    if finish.outcome == FinishOutcome::Done && !open.is_empty() {
        let open = open.join(", ");
        let message = format!("say with end what became of these effects: {open}");
        return Err(Refusal::new(422, "open_effects", message));
    }
    Ok(changed)
}

fn outcome(finish: &Finish, now: UnixMillis) -> Outcome {
    match finish.outcome {
        FinishOutcome::Done => Outcome::Done,
        FinishOutcome::Retry => Outcome::Retry {
            error: FAILED.to_owned(),
            after: finish.after,
        },
        FinishOutcome::Permanent => Outcome::permanent(FAILED),
        FinishOutcome::Unknown => Outcome::unknown(FAILED),
        FinishOutcome::Release => {
            let until = now + finish.after.unwrap_or_default();
            Outcome::deferred("the worker released the event", until)
        }
    }
}

/// Answers a `finish` that was recorded before, and whose answer was lost.
fn repeated(row: &Row, outcome: FinishOutcome) -> Result<Answer, Refusal> {
    let fits = match outcome {
        FinishOutcome::Done => row.state == State::Done,
        // The lease ended with a hold, and the event comes again after its approval.
        FinishOutcome::Retry | FinishOutcome::Release if row.is_held() => true,
        FinishOutcome::Retry => matches!(row.state, State::Failed | State::DeadLetter),
        FinishOutcome::Permanent | FinishOutcome::Unknown => row.state == State::DeadLetter,
        FinishOutcome::Release => row.state == State::Failed,
    };
    if !fits {
        return Err(Refusal::stale());
    }
    let mut body = json!({ "status": row.state.as_str() });
    if row.is_held() {
        body["held"] = true.into();
    }
    if let Some(due) = row.due.filter(|_| row.state == State::Failed) {
        body["due"] = due.rfc3339().into();
    }
    if let Some(reason) = row
        .reason
        .as_deref()
        .filter(|_| row.state == State::DeadLetter)
    {
        body["reason"] = reason.into();
    }
    Ok(answer(body))
}

fn status(settlement: &Settlement) -> Answer {
    answer(match settlement {
        Settlement::Done => json!({ "status": State::Done.as_str() }),
        Settlement::Retry { due, .. } | Settlement::Deferred { due, .. } => {
            json!({ "status": State::Failed.as_str(), "due": due.rfc3339() })
        }
        Settlement::DeadLetter { reason, .. } => {
            json!({ "status": State::DeadLetter.as_str(), "reason": reason })
        }
        // No outcome of a worker parks or holds an event.
        Settlement::Parked { .. } | Settlement::Held(_) => {
            json!({ "status": State::Received.as_str() })
        }
    })
}

/// The end of a lease, as a time and as the milliseconds that are left.
pub(super) fn lease_time(until: UnixMillis, now: UnixMillis) -> Value {
    let left = u64::try_from(until.since(now).as_millis()).unwrap_or(u64::MAX);
    json!({ "lease_until": until.rfc3339(), "lease_ms": left })
}

pub(super) fn answer(mut body: Value) -> Answer {
    body["v"] = VERSION.into();
    Answer::new(200, &body)
}
