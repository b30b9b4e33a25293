//! The command tree as help shows it: in display order, with the topics of `help`.

use clap::{Command, CommandFactory as _};

use super::args::Cli;
use super::help;

/// All commands and options.
pub fn tree() -> Command {
    let tree = Cli::command().subcommands(help::topics());
    help::with_examples(help::in_groups(tree))
}

/// The tree that parses the arguments. Its help omits the options that every command accepts:
/// `help options` lists them.
pub(super) fn parsed_tree() -> Command {
    tree().mut_args(|arg| {
        let hide = arg.is_hide_set() || arg.is_global_set();
        arg.hide(hide)
    })
}

#[cfg(test)]
mod tests;
