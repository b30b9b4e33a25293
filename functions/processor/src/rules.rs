//! Applies the rules of a source just before the calls of its actions. The rules about the effects of
//! workers outside of Lambda apply in `work/begin.rs`.

use shared::base::clock::UnixMillis;
use shared::delivery::effects::idempotency_key;
use shared::inbox::ledger::{
    Content, CountedEffects, EffectRow, EffectState, Lease, Ledger, Row, WHOLE_EVENT,
};
use shared::inbox::outcome::{HoldRequest, Outcome};
use shared::sources::rules::{
    Decision, EffectRate, Finding, Per, Proposed, Subject, Verdict, decide, limits,
};
use shared::sources::{Action, ActionKind, Source};
use shared::webhook::event::Sha;

use crate::actions::{Plan, Planned};
use crate::attempt::ActionsResult;
use crate::destination::facts;
use crate::order::ActionInput;

/// The beginning of the note on an effect that was only recorded.
const DRY_RUN: &str = "dry run (rule ";

/// What stands for the role of the processor in the counts of effects.
const PROCESSOR: &str = "processor";

/// The reason of a dead letter that a rule denied.
const DENIED: &str = "denied";

/// An event, and what its actions would send.
#[derive(Clone, Copy)]
pub(crate) struct Ruled<'r> {
    pub(crate) source: &'r Source,
    pub(crate) lease: &'r Lease,
    pub(crate) content: &'r Content,
    pub(crate) given: &'r ActionInput,
}

impl Ruled<'_> {
    /// Returns the outcome of an event that a rule holds or denies as a whole. Returns `None` if its
    /// actions may run, or if all of them have run.
    pub(crate) fn event(self) -> Option<Outcome> {
        let facts = facts(&self.lease.row, self.content);
        let actions = self.source.actions.iter().filter(|action| {
            !matches!(action.kind, ActionKind::Keep) && action.filter.matches(facts)
        });
        let actions: Vec<&Action> = actions.collect();
        // An approval is for all actions, so those that are done stay in the plan.
        if actions.iter().all(|action| self.is_settled(action)) {
            return None;
        }
        let plans: Vec<Plan> = actions.iter().map(|action| self.plan(action)).collect();
        let plan = Plan::of_all(&plans);
        let row = &self.lease.row;
        let approved = row.approved_plan(WHOLE_EVENT);
        let rules = &self.source.policy;
        let proposed = plan.proposed(approved);
        match decide(rules, Subject::Event, facts, proposed) {
            // A dry run of the event is a dry run of each effect.
            Decision::Allow | Decision::DryRun(_) => None,
            Decision::Hold(finding) => Some(held(WHOLE_EVENT, &finding, (plan.hash, plan.summary))),
            Decision::Deny(finding) => Some(denied(&finding)),
        }
    }

    /// Returns the result of an action that a rule holds, denies or only records. Returns `None` if
    /// the action may run.
    pub(crate) async fn action(
        self,
        ledger: &Ledger,
        action: &Action,
        now: UnixMillis,
    ) -> Option<ActionsResult> {
        if matches!(action.kind, ActionKind::Keep) || self.is_settled(action) {
            return None;
        }
        let (name, row) = (&action.name, &self.lease.row);
        let plan = self.plan(action);
        let facts = facts(row, self.content);
        let (rules, subject) = (&self.source.policy, Subject::Effect(name));
        let proposed = plan.proposed(row.approved_plan(name));
        let finding = match decide(rules, subject, facts, proposed) {
            Decision::Allow => {
                let limits = limits(rules, subject, facts, proposed);
                match over_limit(ledger, row, PROCESSOR, limits, now).await {
                    Ok(None) => return None,
                    Ok(Some(finding)) => finding,
                    // Without the count, the rule cannot allow the call.
                    Err(error) => return Some(Outcome::retry(format!("{error:#}")).into()),
                }
            }
            Decision::DryRun(finding) => {
                return Some(self.dry_run(action, &finding, &plan, now));
            }
            Decision::Hold(finding) | Decision::Deny(finding) => finding,
        };
        Some(match finding.rule.verdict {
            Verdict::Deny => denied(&finding).of_action(name).into(),
            Verdict::Hold | Verdict::DryRun => {
                held(name, &finding, (plan.hash, plan.summary)).into()
            }
        })
    }

    fn plan(self, action: &Action) -> Plan {
        let request = self.content.request.as_ref();
        let planned = Planned {
            source: self.source,
            row: self.given.row.as_ref().unwrap_or(&self.lease.row),
            body: &self.given.body,
            request: request.map(|kept| &kept.context),
        };
        Plan::of(action, planned)
    }

    /// Returns whether no further call of the action is needed in this run.
    pub(crate) fn is_settled(self, action: &Action) -> bool {
        let row = &self.lease.row;
        let effect = row.effects.get(&action.name);
        effect.is_some_and(|effect| match effect.state {
            EffectState::Done => true,
            EffectState::Refused => effect.run == row.run,
            EffectState::Intent | EffectState::Not | EffectState::Unknown => false,
        })
    }

    /// Records what would have been sent. An effect that may have happened before keeps its record.
    fn dry_run(
        self,
        action: &Action,
        finding: &Finding<'_>,
        plan: &Plan,
        now: UnixMillis,
    ) -> ActionsResult {
        let name = &action.name;
        let planned = (plan.hash.as_str(), plan.summary.as_str());
        let effect = not_applied(&self.lease.row, name, finding, planned, now);
        let changed = effect.map(|effect| (name.clone(), effect));
        ActionsResult {
            changed: changed.into_iter().collect(),
            dry_run: true,
            ..Outcome::Done.into()
        }
    }
}

impl Plan {
    fn proposed<'p>(&'p self, approved: Option<&'p str>) -> Proposed<'p> {
        Proposed {
            plan: &self.hash,
            approved,
            ..Proposed::default()
        }
    }
}

/// Returns the record of an effect that a rule only records. `None` if it may have happened before:
/// then it keeps its record.
pub(crate) fn not_applied(
    row: &Row,
    name: &str,
    finding: &Finding<'_>,
    (plan, summary): (&str, &str),
    now: UnixMillis,
) -> Option<EffectRow> {
    let before = row.effects.get(name).map(|effect| effect.state);
    let in_doubt = matches!(before, Some(EffectState::Intent | EffectState::Unknown));
    let note = format!("{DRY_RUN}{}): {summary}, plan {plan}", finding.rule.name);
    (!in_doubt).then(|| EffectRow {
        state: EffectState::Not,
        key: idempotency_key(&row.key, name, row.generation),
        keyed: true,
        at: now,
        run: row.run,
        note: note.chars().take(120).collect(),
        lease: None,
    })
}

/// Returns whether a rule replaced an effect of this run by its record, and the effect did not happen
/// after it.
pub(crate) fn has_dry_run(row: &Row) -> bool {
    row.effects.values().any(|effect| is_dry_run(row, effect))
}

/// Returns whether a rule replaced this effect by its record in this run.
pub(crate) fn is_dry_run(row: &Row, effect: &EffectRow) -> bool {
    effect.run == row.run && effect.state == EffectState::Not && effect.note.starts_with(DRY_RUN)
}

/// Returns the outcome of an effect that a rule holds, with the hash and the summary of its plan.
pub(crate) fn held(
    effect: &str,
    finding: &Finding<'_>,
    (plan, summary): (String, String),
) -> Outcome {
    Outcome::Held(Box::new(HoldRequest {
        effect: effect.to_owned(),
        rule: finding.names(),
        over_api: finding.names_approvers(),
        plan,
        summary,
        why: finding.why.clone(),
        read: finding.read.clone(),
        expires: finding.expires(),
    }))
}

/// Counts an effect for the rules with a rate. Returns the rules whose windows are full: they apply.
/// Rules that hold come first, so that an effect that waits for an approval does not use up the window
/// of a rule that denies. `role` stands for the role that causes the effect.
pub(crate) async fn over_limit<'r>(
    ledger: &Ledger,
    row: &Row,
    role: &str,
    limits: Vec<(EffectRate, Finding<'r>)>,
    now: UnixMillis,
) -> anyhow::Result<Option<Finding<'r>>> {
    let mut held: Option<Finding<'r>> = None;
    for (rate, finding) in limits {
        let denies = finding.rule.verdict == Verdict::Deny;
        if denies && held.is_some() {
            break;
        }
        let kind;
        let who = match rate.per {
            Per::Role => role,
            Per::Source => "-",
            Per::EventType => {
                // The sender chooses the type, and it can be long.
                kind = Sha::of(row.kind.as_bytes()).hex();
                &kind[..16]
            }
        };
        let counted = CountedEffects {
            source: row.key.source(),
            rule: &finding.rule.name,
            who,
        };
        if ledger.count_effect(counted, rate, now).await? {
            continue;
        }
        if denies {
            return Ok(Some(finding));
        }
        match &mut held {
            Some(held) => held.join(finding),
            none => *none = Some(finding),
        }
    }
    Ok(held)
}

fn denied(finding: &Finding<'_>) -> Outcome {
    Outcome::Unsendable {
        reason: DENIED,
        error: format!("rule {} denies it: {}", finding.rule.name, finding.why),
    }
}
