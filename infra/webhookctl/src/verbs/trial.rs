//! `trial`: compares the previous route of a source with Mitt.

mod document;
mod figures;
mod render;
mod report;

use crate::cli::{Global, TrialCommand};
use crate::output::{Exit, Printer};

pub(super) async fn run(
    command: TrialCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        TrialCommand::Report(args) => report::report(args, global, out).await,
    }
}
