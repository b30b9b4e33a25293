//! `dlq`: lists dead letters, grouped by error, and replays them.
//!
//! The commands read dead letters from the table and not from the dead-letter queue. To read a
//! message of a queue, they would have to receive it, which hides it from other readers.

pub(crate) mod counts;
pub(super) mod group;
mod histogram;
mod inspect;
mod list;
mod native;
mod redrive;
pub(super) mod replay_safety;

use shared::inbox::ledger::{Row, State};

use crate::cli::{DlqCommand, Global, SelectionArgs, Status};
use crate::output::{CliError, Exit, Printer};
use crate::selection::{Found, Position, Selection, Want};
use crate::target::Deployment;

/// The maximum number of dead letters that a command reads to group them.
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

/// Restricts the selection to dead letters.
fn of_the_dead(args: &SelectionArgs) -> Result<SelectionArgs, CliError> {
    if args
        .status
        .iter()
        .any(|status| *status != Status::Of(State::DeadLetter))
    {
        return Err(CliError::usage(
            "dlq.status",
            "dlq works on dead letters only, so it does not accept another --status",
        )
        .tip("leave out --status, or use `webhookctl inbox list`"));
    }
    Ok(SelectionArgs {
        status: vec![Status::Of(State::DeadLetter)],
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

/// Returns the time at which the event became a dead letter. If the row does not have it, returns
/// the time of receipt.
fn died_at(row: &Row) -> i64 {
    row.dead_at.unwrap_or(row.received_at).0
}
