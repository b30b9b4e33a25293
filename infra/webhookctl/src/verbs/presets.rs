//! `presets`: checks the presets.

mod attacks;
mod check;

use crate::cli::PresetsCommand;
use crate::output::{Exit, Printer};

pub(super) fn run(command: &PresetsCommand, out: &mut Printer) -> anyhow::Result<Exit> {
    match command {
        PresetsCommand::Check(args) => check::check(args, out),
    }
}
