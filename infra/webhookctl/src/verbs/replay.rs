//! `replay`: processes a chosen set of events again. A plan stores the set, and cannot grow later.
//!
//! [`decision`] decides from the row of each event whether the event runs again. [`plan`] makes a
//! plan from these decisions, and [`executor`] applies it step by step.

mod apply;
mod confirm;
mod decision;
mod document;
mod events;
mod executor;
mod list;
mod nothing;
mod outcome;
mod plan;
mod progress;
mod record;
mod render;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Plan, Row};
use shared::inbox::queue::Queue;
use shared::sources::Config;

use crate::cli::{Global, QueueAt, ReplayCommand, ReplayMode};
use crate::output::count::plural;
use crate::output::{CliError, Exit, Format, Printer};
use crate::selection::Selection;
use crate::target::Deployment;

/// The number of recent plans that are searched for an id prefix.
const RECENT: usize = 10_000;

pub(super) async fn run(
    command: ReplayCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let is_list = match &command {
        ReplayCommand::Log(_) => true,
        ReplayCommand::Show(args) => args.left_out || args.events,
        _ => false,
    };
    if out.format == Format::Csv && !is_list {
        // The format is checked before anything changes, because the result could not be printed.
        let error = CliError::usage("usage.output", "-o csv is not available for a plan");
        return Err(error.tip("-o json").into());
    }
    let inbox = Deployment::open(&global.target).await?;
    match command {
        ReplayCommand::Plan(args) => Box::pin(plan::plan(*args, &inbox, out)).await,
        ReplayCommand::Apply(args) => Box::pin(apply::apply(args, &inbox, out)).await,
        ReplayCommand::Status(args) => record::status(&args.plan, &inbox, out).await,
        ReplayCommand::Show(args) => record::show(&args, &inbox, out).await,
        ReplayCommand::Cancel(args) => record::cancel(&args, &inbox, out).await,
        ReplayCommand::Log(args) => list::log(&args, &inbox, out).await,
    }
}

/// Makes and applies a plan in one step. Prints the plan, asks for its count unless `confirm`
/// equals it, and replays those dead letters that the mode allows. Returns an error if there are
/// none.
pub(crate) async fn plan_and_apply(
    selection: Selection,
    mode: ReplayMode,
    reason: &str,
    confirm: Option<u64>,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let flags = selection.flags();
    let asked = plan::Asked::redrive(selection, mode, reason, out.format.is_table());
    let plan = match plan::made(asked, inbox, out).await? {
        plan::Made::Kept(plan) => plan,
        plan::Made::Nothing(left) => {
            return Err(nothing::to_redrive(&left, mode, flags.as_deref(), inbox).into());
        }
    };
    let args = apply::Args::usual(plan.id, confirm);
    Box::pin(apply::apply(args, inbox, out)).await
}

/// Returns whether a redrive with its default mode runs the dead letter. Does not read the order of
/// its source.
pub(super) fn would_redrive(row: &Row, config: &Config, now: UnixMillis) -> bool {
    let source = config
        .source(row.key.source())
        .map(|source| decision::AtSource {
            bodies: source.retention.bodies,
            overtaken: false,
            stale: plan::is_stale(row, source, now),
        });
    let policy = decision::Policy {
        mode: ReplayMode::Guarded,
        ..decision::Policy::default()
    };
    let fate = decision::fate(row, policy, source, now);
    matches!(fate, decision::Fate::Runs { .. })
}

/// Finds a plan by its id, or by a unique prefix of its id.
async fn named(inbox: &Deployment, wanted: &str, now: UnixMillis) -> anyhow::Result<Plan> {
    let text = wanted.strip_prefix("rpl_").unwrap_or(wanted);
    let id = format!("rpl_{}", text.to_ascii_uppercase());
    if let Some(plan) = inbox.ledger.plans().plan(&id).await? {
        return Ok(plan);
    }
    let known = inbox
        .ledger
        .plans()
        .plan_ids(UnixMillis(0), now, RECENT)
        .await?;
    let fitting = known.into_iter().filter(|known| known.starts_with(&id));
    let mut fitting: Vec<String> = fitting.collect();
    if fitting.len() > 1 {
        let message = format!("'{wanted}' matches {} plans", fitting.len());
        fitting.truncate(10);
        let error = CliError::not_found("replay.ambiguous_id", message);
        return Err(error.details(fitting).into());
    }
    if let [id] = fitting.as_slice()
        && let Some(plan) = inbox.ledger.plans().plan(id).await?
    {
        return Ok(plan);
    }
    let message = format!("no plan '{wanted}' in {}", inbox.name);
    let error = CliError::not_found("replay.not_found", message);
    Err(error
        .note("plans are kept for 90 days")
        .tip("webhookctl replay log")
        .into())
}

/// Returns the work queue of an inbox.
fn queue(inbox: &Deployment, at: &QueueAt) -> anyhow::Result<Queue> {
    match &at.queue_url {
        Some(url) => Ok(Queue::new(inbox.sqs()?, url)),
        None => inbox.queue(),
    }
}

/// Returns a text such as `1 event was not replayed`.
fn untouched(count: usize) -> String {
    let were = if count == 1 { "was" } else { "were" };
    format!("{} {were} not replayed", plural(count, "event"))
}

/// Returns the last part of an ARN, as a short name of an operator.
fn short(who: &str) -> &str {
    who.rsplit(['/', ':']).next().unwrap_or(who)
}
