//! The JSON document of a plan.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Plan, PlanOutcome, PlanRun, Through};

use super::outcome::Failure;
use super::record::Seen;
use crate::output::time::rfc3339;

/// The document of a plan. Later versions only add fields, and never remove or rename them.
#[derive(Serialize)]
pub(super) struct Document {
    id: String,
    planned: PlannedBy,
    reason: String,
    selection: Value,
    mode: String,
    new_effects: bool,
    duplicate_risk_accepted: bool,
    events: Events,
    good_until: String,
    queued: usize,
    runs: Vec<Run>,
    outcome: Option<PlanOutcome>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    state: &'static str,
}

#[derive(Serialize)]
struct PlannedBy {
    by: String,
    through: Through,
    at: String,
    cli: String,
}

#[derive(Serialize)]
struct Events {
    selected: u64,
    planned: usize,
    committed: u64,
    left_out: BTreeMap<String, u64>,
    sha256: String,
}

#[derive(Serialize)]
struct Run {
    by: String,
    through: Through,
    from: String,
    to: Option<String>,
    rate: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    canary: Option<Canary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
}

#[derive(Serialize)]
struct Canary {
    tried: usize,
    done: usize,
}

impl Run {
    fn of(run: &PlanRun) -> Self {
        Self {
            by: run.by.clone(),
            through: run.through,
            from: rfc3339(run.from),
            to: run.to.map(rfc3339),
            rate: run.rate,
            canary: run.canary.map(|(tried, done)| Canary { tried, done }),
            end: run.end.clone(),
        }
    }
}

pub(super) fn document(
    plan: &Plan,
    seen: Option<Seen>,
    warning: Option<String>,
    now: UnixMillis,
) -> Document {
    let facts = plan.facts.clone();
    let (outcome, failures) = match seen {
        Some(seen) => (Some(seen.outcome), seen.failures),
        None => (plan.outcome, Vec::new()),
    };
    Document {
        id: plan.id.clone(),
        planned: PlannedBy {
            by: facts.by,
            through: facts.through,
            at: rfc3339(plan.made_at.0),
            cli: facts.cli,
        },
        reason: facts.reason,
        selection: facts.selection,
        mode: facts.mode,
        new_effects: facts.new_effects,
        duplicate_risk_accepted: facts.duplicate_risk,
        events: Events {
            selected: facts.selected,
            planned: plan.count,
            committed: facts.committed,
            left_out: facts.left_out,
            sha256: facts.sha256,
        },
        good_until: rfc3339(plan.good_until.0),
        queued: plan.next,
        runs: plan.runs.iter().map(Run::of).collect(),
        outcome,
        failures,
        cancelled_by: plan.cancelled_by.clone(),
        warning,
        state: plan.standing(now).as_str(),
    }
}
