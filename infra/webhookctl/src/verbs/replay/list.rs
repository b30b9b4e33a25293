//! `replay log`: lists the plans, newest first.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Plan, PlanState};

use super::outcome::words;
use super::short;
use crate::cli::ReplayLogArgs;
use crate::completion_cache::{self, Kind};
use crate::output::time::{clock, rfc3339};
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

/// The number of plans that are read concurrently.
const AT_ONCE: usize = 16;

#[derive(Serialize)]
struct Line {
    plan: String,
    planned_at: String,
    by: String,
    selection: String,
    events: usize,
    state: &'static str,
    outcome: String,
    reason: String,
    #[serde(skip)]
    at: i64,
}

pub(super) async fn log(
    args: &ReplayLogArgs,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let since = args
        .since
        .map_or(UnixMillis(0), |when| UnixMillis(when.millis(now.0)));
    let limit = args.limit as usize;
    // No index has the operator, so the command reads all plans to find those of one operator.
    let most = if args.by.is_some() {
        usize::MAX
    } else {
        limit + 1
    };
    let ids = inbox.ledger.plans().plan_ids(since, now, most).await?;
    let plans: Vec<Option<Plan>> = stream::iter(ids)
        .map(async |id| inbox.ledger.plans().plan(&id).await)
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    // If a plan has no item, the command that made it was interrupted.
    let plans = plans.into_iter().flatten();
    let by = |plan: &Plan| {
        args.by
            .as_ref()
            .is_none_or(|who| plan.facts.by.contains(who.as_str()))
    };
    let mut items: Vec<Line> = plans.filter(by).map(|plan| line(&plan, now)).collect();
    let truncated = items.len() > limit;
    items.truncate(limit);
    let plans: Vec<String> = items.iter().map(|line| line.plan.clone()).collect();
    completion_cache::keep(&inbox.name, Kind::Plan, &plans);
    out.list(&List {
        id: "plan",
        truncated,
        footer: truncated.then(|| format!("the newest {limit} plans; show more with -n")),
        empty: "No plans; plans are kept for 90 days.".to_owned(),
        tip: Some("webhookctl replay show <PLAN>".to_owned()),
        ..List::new("replay.log", &inbox.name, now, columns(now.0), items)
    })?;
    Ok(Exit::Done)
}

fn line(plan: &Plan, now: UnixMillis) -> Line {
    let outcome = match plan.standing(now) {
        PlanState::Planned => "not applied yet".to_owned(),
        PlanState::Expired => "plan expired, not applied".to_owned(),
        PlanState::Running => format!("{} of {} queued", plan.next, plan.count),
        PlanState::Cancelled => format!("cancelled at {} of {}", plan.next, plan.count),
        PlanState::Finished => plan.outcome.as_ref().map(words).unwrap_or_default(),
    };
    Line {
        plan: plan.id.clone(),
        planned_at: rfc3339(plan.made_at.0),
        by: plan.facts.by.clone(),
        selection: plan.facts.words.clone(),
        events: plan.count,
        state: plan.standing(now).as_str(),
        outcome,
        reason: plan.facts.reason.clone(),
        at: plan.made_at.0,
    }
}

fn columns(now: i64) -> Vec<Column<'static, Line>> {
    vec![
        Column::whole("PLAN", "plan").essential(),
        Column::whole("WHEN", "planned_at").shown(move |line: &Line| when(line.at, now)),
        Column::whole("WHO", "by").shown(|line: &Line| short(&line.by).to_owned()),
        Column::text("SELECTION", "selection", 16),
        Column::count("EVENTS", "events"),
        Column::text("OUTCOME", "outcome", 20).essential(),
        Column::text("REASON", "reason", 12),
    ]
}

/// Returns the time of day if the time is today, otherwise the date.
fn when(at: i64, now: i64) -> String {
    let text = clock(at, now);
    let end = if text.len() > 12 { 10 } else { 8 };
    text.get(..end).unwrap_or(&text).to_owned()
}
