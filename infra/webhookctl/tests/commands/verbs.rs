//! The table of commands, `infra/policies/verbs.toml`.

use std::collections::BTreeSet;

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
    /// Why it needs none, or why it is not tried.
    because: Option<String>,
    #[serde(default)]
    pub(crate) run: Vec<String>,
    #[serde(default = "success")]
    pub(crate) exit: Vec<i32>,
    #[serde(default = "yes")]
    pub(crate) reads: bool,
    #[serde(default)]
    pub(crate) without: Vec<String>,
}

fn success() -> Vec<i32> {
    vec![0]
}

fn yes() -> bool {
    true
}

pub(crate) fn table() -> Vec<Verb> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../policies/verbs.toml");
    let table: Table = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    table.verb
}

/// The commands that do something, by their words.
fn leaves(command: &clap::Command, words: &str) -> BTreeSet<String> {
    let below: Vec<&clap::Command> = command.get_subcommands().collect();
    if below.is_empty() {
        return BTreeSet::from([words.to_owned()]);
    }
    let named = |below: &clap::Command| format!("{words} {}", below.get_name());
    let leaves = below.iter().flat_map(|c| leaves(c, named(c).trim()));
    leaves.collect()
}

#[test]
fn every_command_has_a_row_and_every_row_a_command() {
    let names: BTreeSet<String> = table().into_iter().map(|verb| verb.name).collect();
    let commands = leaves(&Cli::command(), "");
    let missing: Vec<_> = commands.difference(&names).collect();
    assert!(
        missing.is_empty(),
        "infra/policies/verbs.toml lacks {missing:?}"
    );
    let gone: Vec<_> = names.difference(&commands).collect();
    assert!(gone.is_empty(), "there is no command {gone:?}");
}

#[test]
fn a_row_has_policies_and_lines_to_try_or_says_why_not() {
    for verb in table() {
        if verb.policies.is_empty() {
            assert!(verb.because.is_some(), "{}: say why", verb.name);
        } else {
            let tried = !verb.run.is_empty();
            assert!(
                tried != verb.because.is_some(),
                "{}: try it, or say why not",
                verb.name
            );
        }
        for line in &verb.run {
            let line = line.trim_start_matches("{rotate} ");
            assert!(line.starts_with(&verb.name), "{line} tries another command");
        }
    }
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
        assert!(page.contains(&row), "permissions.md lacks {row}");
    }
}
