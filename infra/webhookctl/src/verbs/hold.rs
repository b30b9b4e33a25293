//! `hold`: shows the events that wait for an approval, and decides on them.
//!
//! A rule of a source holds an effect: see `[[source.policy]]`. Approving an event allows exactly the
//! plan that was held.

mod decide;
mod list;
mod view;

use shared::inbox::ledger::{Hold, Row};

use crate::cli::{Global, HoldCommand};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;
use crate::verbs::inbox;
use view::Shown;

pub(super) async fn run(
    command: HoldCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        HoldCommand::List(args) => list::list(args, global, out).await,
        HoldCommand::Show(args) => {
            let inbox = args.bodies_at.open(global).await?;
            let (row, hold) = held(&inbox, &args.id).await?;
            let shown = Shown::read(&inbox, &row, &hold).await?;
            out.document("hold.show", &shown, &shown.id, &shown.text())?;
            out.tip(&format!("webhookctl hold approve {} -m \"…\"", shown.id));
            Ok(Exit::Done)
        }
        HoldCommand::Approve(args) => Box::pin(decide::approve(args, global, out)).await,
        HoldCommand::Reject(args) => decide::reject(args, global, out).await,
    }
}

/// Finds the event by id, and returns its hold.
async fn held(inbox: &Deployment, wanted: &str) -> anyhow::Result<(Row, Hold)> {
    let row = inbox::find(inbox, wanted).await?;
    match row.hold.clone() {
        Some(hold) => Ok((row, *hold)),
        None => Err(not_held(&row).into()),
    }
}

fn not_held(row: &Row) -> CliError {
    CliError::refused(
        "hold.not_held",
        format!(
            "{} does not wait for an approval; its state is {}",
            row.key, row.state
        ),
    )
    .tip(format!("webhookctl inbox inspect {} --full", row.id()))
}
