//! `begin`: a worker declares an effect before it causes it.
//!
//! The record of the effect decides first, then the rules of the source, and only then the intent is
//! written. A rule reads the verified body of the event, and what the worker declares. A hold ends the
//! lease: the event waits for an approval, and comes again with the plan that was approved.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use shared::base::timing::CLOCK_MARGIN;
use shared::delivery::effects::{Begin as Known, Inquiry, before, effect_row};
use shared::inbox::ledger::{
    Content, EffectLease, EffectRow, EffectState, Hold, Intended, Lease, Row, Settled, Settlement,
    WorkLease,
};
use shared::sources::policy::IdempotencySupport;
use shared::sources::rules::{
    Decision, Finding, Proposed, Subject, Verdict, concern, decide, limits,
};

use super::Member;
use super::http::Answer;
use super::leased::{Answered, answer, check_name, lease_time};
use super::protocol::{Begin, Keys, Refusal};
use crate::Processor;
use crate::destination::facts;
use crate::rules::{held, not_applied, over_limit};

/// A call must end this long before its lease, and needs some time itself.
const SHORTEST_CALL: Duration = Duration::from_secs(10);

/// The most effects of one event.
const MOST_EFFECTS: usize = 50;

impl Processor {
    pub(super) async fn begin(&self, member: &Member<'_>, begin: &Begin) -> Answered {
        let (token, ledger) = (&begin.token, &self.services.inbox.ledger);
        let lease = ledger
            .work_lease(&token.key, token.epoch, &token.owner)
            .await?;
        let now = (self.clock)();
        let lease = match lease {
            // Another worker can take over the event from this time on.
            WorkLease::Held(lease) if lease.until() + CLOCK_MARGIN > now => *lease,
            WorkLease::Ended(row) => return Ok(ended(&row, begin)),
            WorkLease::Held(_) | WorkLease::Lost => return Ok(Err(Refusal::lease_lost())),
        };
        let (row, name) = (&lease.row, begin.effect.as_str());
        if let Err(refusal) = check_name(member, name).and_then(|()| check_number(row, name)) {
            return Ok(Err(refusal));
        }
        let (keys, inquiry) = asked(begin);
        let note = begun(begin);
        let intent = effect_row(row, name, EffectState::Intent, keys, &note, now);
        if let Some(known) = known(before(row, name, keys, inquiry, now), &intent) {
            return Ok(Ok(known));
        }
        // A refused request must not use up a rate.
        if lease.until() <= now + SHORTEST_CALL {
            return Ok(Err(too_short()));
        }
        match self.decision(member, &lease, begin).await? {
            Decision::Allow => self.intend(&lease, name, intent).await,
            Decision::Hold(finding) => Box::pin(self.hold(member, lease, begin, &finding)).await,
            Decision::Deny(finding) => {
                let rule = &finding.rule.name;
                tracing::warn!(event.key = %row.key, source = member.source.name, effect = name, rule, "rule {rule} denied the effect {name} of a worker");
                Ok(Ok(denied(&finding, &finding.why)))
            }
            Decision::DryRun(finding) => self.dry_run(&lease, begin, &finding).await,
        }
    }

    /// Decides what the rules of the source say about the effect. Without a rule about it, the body is
    /// not read.
    async fn decision<'c>(
        &self,
        member: &Member<'c>,
        lease: &Lease,
        begin: &Begin,
    ) -> anyhow::Result<Decision<'c>> {
        let (rules, subject) = (&member.source.policy, Subject::Effect(&begin.effect));
        if !concern(rules, subject) {
            return Ok(Decision::Allow);
        }
        let ledger = &self.services.inbox.ledger;
        let content = ledger.leased_content(lease).await?;
        // Without a body, each condition counts as true.
        let content = content.unwrap_or(Content {
            body: Bytes::new(),
            request: None,
        });
        let (row, plan) = (&lease.row, &begin.plan);
        let proposed = Proposed {
            plan: &plan.hash(&begin.effect),
            approved: row.approved_plan(&begin.effect),
            amount: plan.amount.as_deref(),
            target: plan.target.as_deref(),
        };
        let facts = facts(row, &content);
        let decision = decide(rules, subject, facts, proposed);
        // A repeated request is about the same effect and the same plan, and is counted already.
        if decision != Decision::Allow || has_begun(row, begin) {
            return Ok(decision);
        }
        let (role, now) = (begin.token.role(), (self.clock)());
        let limits = limits(rules, subject, facts, proposed);
        let over = over_limit(ledger, row, role, limits, now).await?;
        Ok(match over {
            None => Decision::Allow,
            Some(finding) if finding.rule.verdict == Verdict::Deny => Decision::Deny(finding),
            Some(finding) => Decision::Hold(finding),
        })
    }

    /// Records that the worker is about to cause the effect.
    async fn intend(&self, lease: &Lease, name: &str, mut intent: EffectRow) -> Answered {
        let now = (self.clock)();
        if lease.until() <= now + SHORTEST_CALL {
            return Ok(Err(too_short()));
        }
        intent.lease = Some(EffectLease {
            epoch: lease.row.epoch,
            until: lease.until(),
        });
        let ledger = &self.services.inbox.ledger;
        Ok(match ledger.begin_effect(lease, name, &intent).await? {
            Intended::Recorded => {
                let mut body = lease_time(lease.until(), now);
                body["go"] = true.into();
                body["key"] = intent.key.as_str().into();
                Ok(answer(body))
            }
            Intended::Done(effect) => Ok(done(&effect.note)),
            Intended::LeaseLost => Err(Refusal::lease_lost()),
        })
    }

    /// Ends the lease of a worker, and lets the event wait for an approval of its plan.
    async fn hold(
        &self,
        member: &Member<'_>,
        lease: Lease,
        begin: &Begin,
        finding: &Finding<'_>,
    ) -> Answered {
        let (name, plan) = (begin.effect.as_str(), &begin.plan);
        let outcome = held(name, finding, (plan.hash(name), plan.summary()));
        let settlement = self.settlement(member, &lease, outcome);
        if let Settlement::Held(hold) = &settlement {
            let (ledger, now) = (&self.services.inbox.ledger, (self.clock)());
            ledger.keep_work_plan(&lease.row, plan, hold, now).await?;
        }
        let settled = self.settle_work(member, lease, settlement, "", &[]);
        Ok(match settled.await? {
            Settled::Recorded(Settlement::Held(hold)) => Ok(waits(&hold)),
            // Each attempt had another plan, so the event is a dead letter.
            Settled::Recorded(settlement) => {
                let why = settlement.error().unwrap_or_default();
                Ok(denied(finding, why))
            }
            Settled::Stale => Err(Refusal::lease_lost()),
        })
    }

    /// Records what the worker would have done.
    async fn dry_run(&self, lease: &Lease, begin: &Begin, finding: &Finding<'_>) -> Answered {
        let (name, plan) = (begin.effect.as_str(), &begin.plan);
        let (hash, summary) = (plan.hash(name), plan.summary());
        let now = (self.clock)();
        let effect = not_applied(&lease.row, name, finding, (&hash, &summary), now);
        let ledger = &self.services.inbox.ledger;
        if let Some(effect) = effect
            && !ledger.end_effect(lease, name, &effect).await?
        {
            return Ok(Err(Refusal::lease_lost()));
        }
        let rule = &finding.rule.name;
        Ok(Ok(answer(json!({ "dry_run": true, "rule": rule }))))
    }
}

/// Returns what the other system does with a repeated key, and what it said about the effect.
fn asked(begin: &Begin) -> (IdempotencySupport, Inquiry) {
    let (keys, inquiry) = match begin.keys {
        Keys::Known(keys) => (keys, Inquiry::Never),
        // A repeat is safe, because the worker asks first.
        Keys::Ask => (IdempotencySupport::Honoured, Inquiry::Possible),
    };
    let inquiry = if begin.did_not {
        Inquiry::DidNot
    } else {
        inquiry
    };
    (keys, inquiry)
}

/// Returns the answer that the record of the effect alone determines.
fn known(known: Known, intent: &EffectRow) -> Option<Answer> {
    match known {
        Known::Go => None,
        Known::Done { note } => Some(done(&note)),
        Known::Refused { note } => Some(answer(json!({ "refused": true, "note": note }))),
        Known::InDoubt { since, ask_from } => Some(answer(json!({
            "in_doubt": true,
            "key": intent.key,
            "since": since.rfc3339(),
            "ask_from": ask_from.rfc3339(),
        }))),
    }
}

/// Returns whether this lease has begun the effect with the same plan.
fn has_begun(row: &Row, begin: &Begin) -> bool {
    let before = row.effects.get(&begin.effect);
    before.is_some_and(|before| {
        let is_own = |lease: EffectLease| lease.epoch == row.epoch;
        before.state == EffectState::Intent
            && before.lease.is_some_and(is_own)
            && before.note == begun(begin)
    })
}

/// Returns the note of an intent: which plan the worker began with.
fn begun(begin: &Begin) -> String {
    if begin.plan.is_empty() {
        return String::new();
    }
    format!("plan {}", begin.plan.hash(&begin.effect))
}

fn too_short() -> Refusal {
    let message = "the lease ends too soon for a call; extend it first";
    Refusal::new(422, "lease_too_short", message)
}

/// Answers a request whose lease ended. If it ended with the hold of this plan, the answer to the first
/// request was lost.
fn ended(row: &Row, begin: &Begin) -> Result<Answer, Refusal> {
    let hold = row
        .hold
        .as_deref()
        .filter(|hold| hold.effect == begin.effect && hold.plan == begin.plan.hash(&begin.effect));
    hold.map(waits).ok_or_else(Refusal::lease_lost)
}

/// Refuses more effects than a row should hold.
fn check_number(row: &Row, name: &str) -> Result<(), Refusal> {
    if row.effects.len() >= MOST_EFFECTS && !row.effects.contains_key(name) {
        let message = format!("the event has {MOST_EFFECTS} effects already");
        return Err(Refusal::new(422, "too_many_effects", message));
    }
    Ok(())
}

fn done(note: &str) -> Answer {
    answer(json!({ "done": true, "note": note }))
}

fn waits(hold: &Hold) -> Answer {
    answer(json!({
        "held": true,
        "hold": hold.id,
        "rule": hold.rule,
        "expires": hold.expires.rfc3339(),
    }))
}

fn denied(finding: &Finding<'_>, why: &str) -> Answer {
    let rule = &finding.rule.name;
    answer(json!({ "denied": true, "rule": rule, "note": why }))
}
