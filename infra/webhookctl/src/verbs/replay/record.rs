//! `replay status`, `show` and `cancel`: show the progress and the full record of a plan, or cancel
//! it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Plan, PlanOutcome, PlanState};
use shared::webhook::event::EventId;

use super::decision::LeftOut;
use super::document::document;
use super::events;
use super::outcome::{Became, Failure, count, failures, look, words};
use super::{named, short};
use crate::audit::Change;
use crate::cli::{ReplayCancelArgs, ReplayShowArgs};
use crate::output::count::plural;
use crate::output::time::rfc3339;
use crate::output::{CliError, Column, Exit, List, Printer};
use crate::target::Deployment;

/// The outcomes of a plan's events.
pub(super) struct Seen {
    pub(super) outcome: PlanOutcome,
    pub(super) failures: Vec<Failure>,
}

/// Reads the outcomes of a plan's events from their current rows. Also reads events after the last
/// checkpoint, because a killed run may have replayed some of them.
pub(super) async fn seen(inbox: &Deployment, plan: &Plan) -> anyhow::Result<Seen> {
    let all = inbox.ledger.plans().plan_order(&plan.id).await?;
    let planned = inbox.ledger.plans().planned(&plan.id).await?;
    let applied = planned.iter().filter(|event| event.applied_at.is_some());
    let applied: BTreeSet<String> = applied.map(|event| event.key.pk()).collect();
    let is_applied = |event: &&shared::inbox::ledger::PlanEvent| applied.contains(&event.key.pk());
    let ran = all.iter().filter(is_applied);
    let mut became = look(&inbox.ledger, &inbox.config, ran).await?;
    let looked_at = all.iter().take(plan.next);
    let left = looked_at.filter(|event| !is_applied(event)).count();
    became.extend(std::iter::repeat_n(Became::Changed, left));
    Ok(Seen {
        outcome: count(became.iter()),
        failures: failures(became.iter()),
    })
}

pub(super) async fn status(
    wanted: &str,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let plan = named(inbox, wanted, now).await?;
    let seen = seen(inbox, &plan).await?;
    let text = format!("{}{}", head(&plan, now), progress(&plan, &seen));
    let record = document(&plan, Some(seen), None, now);
    out.document("replay.status", &record, &plan.id, &text)?;
    if plan.standing(now) == PlanState::Running && !plan.is_held(now) {
        out.tip(&format!("webhookctl replay apply {}", plan.id));
    }
    Ok(Exit::Done)
}

pub(super) async fn show(
    args: &ReplayShowArgs,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let plan = named(inbox, &args.plan, now).await?;
    if args.left_out {
        return left_out(&plan, inbox, now, out).await;
    }
    if args.events {
        return events::events(&plan, inbox, now, out).await;
    }
    let seen = seen(inbox, &plan).await?;
    let text = page(&plan, &seen, now);
    let record = document(&plan, Some(seen), None, now);
    out.document("replay.run", &record, &plan.id, &text)?;
    Ok(Exit::Done)
}

pub(super) async fn cancel(
    args: &ReplayCancelArgs,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    inbox.may_write("cancel a plan")?;
    let now = UnixMillis::now();
    let plan = named(inbox, &args.plan, now).await?;
    // The audit log lists only what changes the plan.
    let plan = match plan.state {
        PlanState::Cancelled => plan,
        PlanState::Finished => return Err(nothing_to_cancel(&plan).into()),
        _ => cancel_now(plan, args.reason.as_deref(), inbox, now).await?,
    };
    let text = format!(
        "{} is cancelled: {} of {} were handled; queued events still run\n",
        plan.id,
        plan.next,
        plural(plan.count, "event")
    );
    out.document(
        "replay.cancel",
        &document(&plan, None, None, now),
        &plan.id,
        &text,
    )?;
    Ok(Exit::Done)
}

async fn cancel_now(
    plan: Plan,
    reason: Option<&str>,
    inbox: &Deployment,
    now: UnixMillis,
) -> anyhow::Result<Plan> {
    let by = Change {
        what: "replay.cancel",
        why: reason.unwrap_or(&plan.facts.reason),
        selection: plan.id.clone(),
        count: plan.count,
    }
    .record(inbox)
    .await?;
    let cancelled = inbox.ledger.plans().cancel_plan(&plan.id, &by, now).await?;
    let plan = cancelled.unwrap_or(plan);
    if plan.state == PlanState::Cancelled {
        Ok(plan)
    } else {
        Err(nothing_to_cancel(&plan).into())
    }
}

fn nothing_to_cancel(plan: &Plan) -> CliError {
    let message = format!(
        "plan {} is {}; nothing is left to cancel",
        plan.id, plan.state
    );
    CliError::refused("replay.ended", message)
}

/// An event that the selection matched but the plan leaves out.
#[derive(Serialize)]
struct Line {
    id: String,
    source: String,
    key: String,
    received_at: String,
    why: String,
    #[serde(skip)]
    said: String,
}

async fn left_out(
    plan: &Plan,
    inbox: &Deployment,
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let left = inbox.ledger.plans().plan_left_out(&plan.id).await?;
    let items = left.iter().map(|left| {
        let why = LeftOut::parse(&left.why);
        Line {
            id: EventId::new(left.received_at, &left.key).to_string(),
            source: left.key.source().to_owned(),
            key: left.key.id().to_owned(),
            received_at: rfc3339(left.received_at.0),
            why: left.why.clone(),
            said: why.map_or(left.why.clone(), |why| why.text().to_owned()),
        }
    });
    out.list(&List {
        empty: format!("{} leaves out no events.", plan.id),
        ..List::new(
            "replay.left_out",
            &inbox.name,
            now,
            vec![
                Column::id("id"),
                Column::whole("SOURCE", "source"),
                Column::whole("RECEIVED", "received_at").lesser(),
                Column::text("WHY", "why", 20)
                    .essential()
                    .shown(|line: &Line| line.said.clone()),
                Column::whole("KEY", "key").extra(),
            ],
            items.collect(),
        )
    })?;
    Ok(Exit::Done)
}

fn head(plan: &Plan, now: UnixMillis) -> String {
    let held = match &plan.lease {
        Some((_, until)) if plan.is_held(now) => {
            let by = plan
                .runs
                .last()
                .map_or("another operator", |run| short(&run.by));
            format!(", leased by {by} until {}", rfc3339(until.0))
        }
        _ if plan.state == PlanState::Running => ", not being applied".to_owned(),
        _ => String::new(),
    };
    format!("{}  {}{held}\n", plan.id, plan.standing(now))
}

fn progress(plan: &Plan, seen: &Seen) -> String {
    let mut text = format!(
        "  queued    {}/{}\n  outcome   {}\n",
        plan.next,
        plan.count,
        words(&seen.outcome)
    );
    for failure in &seen.failures {
        let _ = writeln!(text, "{}", failed(failure));
    }
    text
}

/// Returns a line for each error, such as `  4  a90c11  GitHub API 422: issue already exists`.
pub(super) fn failed(failure: &Failure) -> String {
    let Failure {
        events,
        fingerprint,
        text,
    } = failure;
    format!("  {events}  {fingerprint}  {text}")
}

fn page(plan: &Plan, seen: &Seen, now: UnixMillis) -> String {
    let facts = &plan.facts;
    let left: u64 = facts.left_out.values().sum();
    let reason = match facts.reason.as_str() {
        "" => "-",
        reason => reason,
    };
    let mut text = head(plan, now);
    let _ = writeln!(
        text,
        "  planned   {} by {}",
        rfc3339(plan.made_at.0),
        facts.by
    );
    let _ = writeln!(text, "  reason    {reason}");
    let _ = writeln!(text, "  selection {}", facts.words);
    let _ = writeln!(
        text,
        "  events    {} selected, {} planned, {left} left out; mode {}",
        facts.selected, plan.count, facts.mode
    );
    let _ = writeln!(text, "  sha256    {}", facts.sha256);
    for run in &plan.runs {
        let to = run.to.map_or("never ended".to_owned(), rfc3339);
        let end = run.end.as_deref().unwrap_or("killed, or still running");
        let _ = writeln!(
            text,
            "  run       {} – {to} by {}, {}/s: {end}",
            rfc3339(run.from),
            run.by,
            run.rate
        );
    }
    if let Some(by) = &plan.cancelled_by {
        let _ = writeln!(text, "  cancelled by {by}");
    }
    text + &progress(plan, seen)
}
