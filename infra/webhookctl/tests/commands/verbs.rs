//! The table of commands, `infra/policies/verbs.toml`.

use std::collections::{BTreeMap, BTreeSet};

use clap::CommandFactory as _;
use serde::Deserialize;
use webhookctl::cli::Cli;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    verb: Vec<Verb>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verb {
    pub(crate) name: String,
    pub(crate) policies: Vec<String>,
    /// The reason why the command needs no policy.
    because: Option<String>,
    /// The lines that only read.
    #[serde(default)]
    pub(crate) run: Vec<String>,
    /// The lines that change something.
    #[serde(default)]
    pub(crate) writes: Vec<String>,
    #[serde(default = "success")]
    pub(crate) exit: Vec<i32>,
    #[serde(default)]
    pub(crate) probes: Vec<String>,
    #[serde(default)]
    pub(crate) without: Vec<String>,
}

fn success() -> Vec<i32> {
    vec![0]
}

pub(crate) fn table() -> Vec<Verb> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../policies/verbs.toml");
    let table: Table = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    table.verb
}

impl Verb {
    /// Returns the command. The name of a row can also have a flag, which is omitted.
    fn command(&self) -> &str {
        let name = self.name.split_once(" --").map(|(command, _)| command);
        name.unwrap_or(&self.name)
    }
}

/// Splits a line into its prefixes, such as `{deployed}`, and the rest.
pub(crate) fn split(line: &str) -> (Vec<&str>, &str) {
    let (mut before, mut line) = (Vec::new(), line);
    while let Some((word, rest)) = line.split_once(' ').filter(|_| line.starts_with('{')) {
        before.push(word);
        line = rest;
    }
    (before, line)
}

/// Returns the commands that have no subcommands, by their words.
fn leaves<'c>(command: &'c clap::Command, words: &str) -> BTreeMap<String, &'c clap::Command> {
    let mut below = command.get_subcommands().peekable();
    if below.peek().is_none() {
        return BTreeMap::from([(words.to_owned(), command)]);
    }
    let named = |below: &clap::Command| format!("{words} {}", below.get_name());
    let leaves = below.flat_map(|c| leaves(c, named(c).trim()));
    leaves.collect()
}

#[test]
fn every_command_has_a_row_and_every_row_a_command() {
    let (rows, tree) = (table(), Cli::command());
    let names: BTreeSet<&str> = rows.iter().map(|verb| verb.name.as_str()).collect();
    let commands = leaves(&tree, "");
    let missing: Vec<_> = commands
        .keys()
        .filter(|command| !names.contains(command.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "missing from infra/policies/verbs.toml: {missing:?}"
    );
    let gone: Vec<_> = rows
        .iter()
        .filter(|verb| !commands.contains_key(verb.command()))
        .map(|verb| &verb.name)
        .collect();
    assert!(gone.is_empty(), "not a command: {gone:?}");
}

#[test]
fn a_row_has_policies_and_lines_to_try_or_says_why_not() {
    for verb in table() {
        let mut lines = verb.run.iter().chain(&verb.writes).peekable();
        if verb.policies.is_empty() {
            assert!(verb.because.is_some(), "{}: say why", verb.name);
        } else {
            assert!(lines.peek().is_some(), "{}: try it", verb.name);
            assert!(verb.because.is_none(), "{} is tried", verb.name);
        }
        for line in lines {
            let (_, line) = split(line);
            assert!(line.starts_with(&verb.name), "{line} tries another command");
        }
    }
}

#[test]
fn a_command_that_wants_a_reason_or_a_count_is_one_that_writes() {
    let (rows, tree) = (table(), Cli::command());
    let mut found = 0;
    for (name, command) in leaves(&tree, "") {
        let is_asked =
            |flag: &clap::Arg| flag.get_short() == Some('m') || flag.get_id() == "confirm";
        if command.get_arguments().any(is_asked) {
            let writes = rows.iter().filter(|verb| verb.command() == name);
            let lines = writes.map(|verb| verb.writes.len()).sum::<usize>();
            assert!(lines > 0, "{name} wants to be told why, and writes nothing");
            found += 1;
        }
    }
    assert!(found > 10, "found only {found} commands");
}

#[test]
fn the_page_says_of_each_command_what_it_needs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/permissions.md");
    let page = std::fs::read_to_string(path).unwrap();
    for verb in table() {
        let policies = match verb.policies.as_slice() {
            [] => "none".to_owned(),
            policies => policies.join(", "),
        };
        let row = format!("| `{}` | {policies} |", verb.name);
        assert!(page.contains(&row), "missing from permissions.md: {row}");
    }
}
