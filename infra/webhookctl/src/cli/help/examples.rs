//! The examples of each command, from `examples.txt`, in the order of the first page.

use std::collections::HashMap;

use clap::Command;

use super::with_headings;

pub(super) const EXAMPLES: &str = include_str!("examples.txt");

/// The examples, by command path.
type Examples = HashMap<&'static str, &'static str>;

/// Returns the tree. The help of each command includes its examples.
pub(in crate::cli) fn with_examples(tree: Command) -> Command {
    let blocks = EXAMPLES.split("\n\n");
    let examples: Examples = blocks.filter_map(|block| block.split_once('\n')).collect();
    tree.mut_subcommands(|command| {
        let path = command.get_name().to_owned();
        explained(command, &path, &examples)
    })
}

fn explained(command: Command, path: &str, examples: &Examples) -> Command {
    let mut below = String::new();
    if let Some(lines) = examples.get(path) {
        below.push_str("Examples:\n");
        below.extend(lines.lines().flat_map(|line| ["  ", line, "\n"]));
    }
    let below = with_headings(&below, command.get_styles());
    let heading = *command.get_styles().get_header();
    command
        .after_help(format!(
            "{below}\n\n{heading}Global options:{heading:#} webhookctl help options"
        ))
        .mut_subcommands(|command| {
            let path = format!("{path} {}", command.get_name());
            explained(command, &path, examples)
        })
}
