//! The tree of commands as it is shown: in one order, with the topics of `help`.

use clap::{Command, CommandFactory as _};

use super::args::Cli;
use super::help;

/// All commands and options.
pub fn tree() -> Command {
    let tree = Cli::command().subcommands(help::topics());
    help::with_examples(help::in_groups(tree))
}

/// The tree as the program parses it. Its help leaves out the options that every command accepts:
/// they have a page of their own.
pub(super) fn parsed_tree() -> Command {
    tree().mut_args(|arg| {
        let hide = arg.is_hide_set() || arg.is_global_set();
        arg.hide(hide)
    })
}

#[cfg(test)]
mod tests;
