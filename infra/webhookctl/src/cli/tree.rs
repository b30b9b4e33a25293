//! The tree of commands as it is shown: in one order, with the topics of `help`.

use clap::{Command, CommandFactory as _};

use super::args::Cli;
use super::help;

/// All commands and options.
pub fn tree() -> Command {
    let output = Command::new("output")
        .hide(true)
        .about("Formats, exit codes, environment")
        .override_help(help::OUTPUT);
    let tree = Cli::command().subcommand(output);
    help::with_examples(help::in_groups(tree))
}

#[cfg(test)]
mod tests;
