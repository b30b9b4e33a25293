//! `dlq`: dead letters, grouped by their error, and the way back.
//!
//! All of it is read from the table, and nothing from the queue of dead letters: to look at a
//! message of a queue is to receive it.

pub(crate) mod counts;
mod group;
mod histogram;
mod inspect;
mod list;
mod native;
mod redrive;
mod replay_safety;

use shared::inbox::ledger::Row;

use crate::cli::{DlqCommand, Global, SelectionArgs};
use crate::inspect::Status;
use crate::output::{CliError, Exit, Printer};
use crate::selection::{Found, Position, Selection, Want};
use crate::target::Deployment;

/// Dead letters that are looked at to group them.
const MOST: usize = 10_000;

pub(super) async fn run(
    command: DlqCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        DlqCommand::List(args) => list::list(*args, global, out).await,
        DlqCommand::Inspect(args) => inspect::inspect(args, global, out).await,
        DlqCommand::Redrive(args) if args.native => native::redrive(*args, global, out).await,
        DlqCommand::Redrive(args) => redrive::redrive(*args, global, out).await,
    }
}

/// What was selected, of the dead letters.
fn of_the_dead(args: &SelectionArgs) -> Result<SelectionArgs, CliError> {
    if args
        .status
        .iter()
        .any(|status| *status != Status::DeadLetter)
    {
        return Err(CliError::usage(
            "dlq.status",
            "dlq is about dead letters, whatever --status says",
        )
        .tip("leave --status out, or use `webhookctl inbox list`"));
    }
    Ok(SelectionArgs {
        status: vec![Status::DeadLetter],
        ..args.clone()
    })
}

async fn dead_letters(
    inbox: &Deployment,
    args: &SelectionArgs,
    limit: usize,
    after: Option<Position>,
    now: i64,
) -> anyhow::Result<Found> {
    let selection = Selection::new(&of_the_dead(args)?, inbox, now)?;
    let want = Want {
        limit,
        reverse: false,
        after,
    };
    selection.find(inbox, want).await
}

/// When it died; a row that does not say so did when it came.
fn died_at(row: &Row) -> i64 {
    row.dead_at.unwrap_or(row.received_at).0
}

fn plural(count: usize, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    let count = crate::output::table::thousands(count as u64);
    format!("{count} {noun}{s}")
}
