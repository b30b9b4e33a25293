//! `sync`: shows the state and the results of the sync. Only `sync run` changes anything.

mod coverage;
pub(super) mod facts;
mod gaps;
mod run;
mod span;
mod status;

use crate::cli::{Global, SyncCommand};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

pub(super) async fn run(
    command: SyncCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        SyncCommand::Status(args) => Box::pin(status::status(args, global, out)).await,
        SyncCommand::Run(args) => Box::pin(run::run(args, global, out)).await,
        SyncCommand::Gaps(args) => Box::pin(gaps::gaps(args, global, out)).await,
        SyncCommand::Coverage(args) => Box::pin(coverage::coverage(args, global, out)).await,
    }
}

/// Returns the selected sources, sorted by name.
fn sources<'i>(inbox: &'i Deployment, asked: &'i [String]) -> Result<Vec<&'i str>, CliError> {
    if asked.is_empty() {
        return Ok(inbox.sources());
    }
    super::inbox::known_sources(inbox, asked)
}
