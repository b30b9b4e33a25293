use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::Command;
use clap::error::ErrorKind;

use super::groups::GROUPS;
use super::*;
use crate::cli::{Stop, parse, tree};

fn args(words: &[&str]) -> Vec<OsString> {
    [&["webhookctl"], words]
        .concat()
        .iter()
        .map(OsString::from)
        .collect()
}

/// What `help WORD` prints.
fn shown(word: &str) -> String {
    match parse(&args(&["help", word])) {
        Err(Stop::Clap(error)) if error.kind() == ErrorKind::DisplayHelp => {
            error.render().to_string()
        }
        other => panic!("help {word}: {other:?}"),
    }
}

#[test]
fn every_command_is_in_exactly_one_group() {
    let tree = tree();
    let shown = tree
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
    let grouped: Vec<&str> = GROUPS
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    assert_eq!(grouped.len(), shown.len());
    assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), shown);
}

#[test]
fn the_first_page_has_one_short_line_per_command() {
    let page = tree().render_help().to_string();
    assert!(
        page.lines().all(|line| line.chars().count() <= 100),
        "{page}"
    );
    assert!(page.lines().count() <= 70, "{page}");
    let lines = GROUPS.iter().flat_map(|(group, names)| {
        let names = names.iter().map(|name| format!("\n  {name} "));
        [format!("\n{group}:\n")].into_iter().chain(names)
    });
    let places: Vec<Option<usize>> = lines.map(|line| page.find(&line)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{page}"
    );
    for hidden in ["  man ", "  output "] {
        assert!(!page.contains(&format!("\n{hidden}")), "{page}");
    }
}

#[test]
fn the_first_page_names_what_exists_only() {
    for line in START_HERE
        .lines()
        .filter_map(|line| line.strip_prefix("  webhookctl "))
    {
        let words: Vec<&str> = line.split("   ").next().unwrap().split(' ').collect();
        assert!(parse(&args(&words)).is_ok(), "{line}");
    }
    for line in MORE_HELP
        .lines()
        .filter_map(|line| line.strip_prefix("  webhookctl help "))
    {
        let word = line.split(' ').next().unwrap();
        let word = word.replace("COMMAND", "inbox");
        assert!(!shown(&word).is_empty(), "{line}");
    }
    for line in OUTPUT.lines() {
        assert!(line.chars().count() <= 110, "{line}");
    }
}
