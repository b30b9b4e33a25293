//! The tree of commands as it is shown: in one order, with the topics of `help`.

use clap::{Command, CommandFactory as _};

use super::args::Cli;
use super::help;

/// The order of the first screen: to try it, to look, to mend, to run it.
const ORDER: [&str; 17] = [
    "dev",
    "send",
    "listen",
    "verify",
    "inbox",
    "replay",
    "dlq",
    "quarantine",
    "sources",
    "sync",
    "reconcile",
    "endpoint",
    "erase",
    "doctor",
    "context",
    "log",
    "completions",
];

/// All that can be asked for.
pub fn tree() -> Command {
    let output = Command::new("output")
        .hide(true)
        .about("Formats, exit codes, environment")
        .override_help(help::OUTPUT);
    let tree = Cli::command().subcommand(output);
    ORDER.iter().enumerate().fold(tree, |tree, (place, name)| {
        if tree.find_subcommand(name).is_none() {
            return tree;
        }
        tree.mut_subcommand(name, |command| command.display_order(place))
    })
}

#[cfg(test)]
mod tests;
