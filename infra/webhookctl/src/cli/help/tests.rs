use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::Arg;
use clap::error::ErrorKind;

use super::groups::GROUPS;
use super::*;
use crate::cli::tree::{parsed_tree, tree};
use crate::cli::{Stop, parse};

fn args(words: &[&str]) -> Vec<OsString> {
    [&["webhookctl"], words]
        .concat()
        .iter()
        .map(OsString::from)
        .collect()
}

/// Returns the page that `help WORD` prints for a topic or a code.
fn shown(word: &str) -> String {
    match parse(&args(&["help", word])) {
        Err(Stop::Text(page)) => page.to_string(),
        Err(Stop::Clap(error)) if error.kind() == ErrorKind::DisplayHelp => {
            error.render().to_string()
        }
        other => panic!("help {word}: {other:?}"),
    }
}

fn refused(word: &str) -> CliError {
    match parse(&args(&["help", word])) {
        Err(Stop::Ours(error)) => error,
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
    let page = parsed_tree().render_help().to_string();
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    assert!(page.lines().count() <= 56, "{page}");
    let lines = GROUPS.iter().flat_map(|(group, names)| {
        let names = names.iter().map(|name| format!("\n  {name} "));
        [format!("\n{group}:\n")].into_iter().chain(names)
    });
    let places: Vec<Option<usize>> = lines.map(|line| page.find(&line)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{page}"
    );
    for hidden in ["  man ", "  output ", "  options "] {
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
        let word = word
            .replace("COMMAND", "inbox")
            .replace("CODE", "inbox.not_found");
        assert!(!shown(&word).is_empty(), "{line}");
    }
    for line in OUTPUT.lines() {
        assert!(line.chars().count() <= 110, "{line}");
    }
}

/// Splits a line into words as a shell does. Supports only the quoting that the examples use.
fn words(line: &str) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars().chain([' ']) {
        match quote {
            Some(end) if c == end => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == ' ' => {
                if !word.is_empty() {
                    words.push(OsString::from(std::mem::take(&mut word)));
                }
            }
            _ => word.push(c),
        }
    }
    assert_eq!(quote, None, "{line}");
    words
}

/// Returns each command with its path, without the topics of `help`.
fn commands(tree: Command) -> Vec<(String, Command)> {
    fn below(command: &Command, path: &str, all: &mut Vec<(String, Command)>) {
        for command in command.get_subcommands() {
            let path = format!("{path} {}", command.get_name()).trim().to_owned();
            below(command, &path, all);
            all.push((path, command.clone()));
        }
    }
    let mut tree = tree.disable_help_subcommand(true);
    tree.build();
    let mut all = Vec::new();
    below(&tree, "", &mut all);
    all.retain(|(path, _)| page(path).is_none());
    all
}

/// Returns the examples of a help page. Each example is one line, with its comment on the line
/// above.
fn examples(help: &str) -> Vec<String> {
    let help = help.replace(" \\\n      ", " ");
    let lines = help.lines().skip_while(|line| *line != "Examples:");
    let lines = lines.filter_map(|line| line.strip_prefix("  "));
    let (comments, examples): (Vec<&str>, Vec<&str>) =
        lines.partition(|line| line.starts_with("# "));
    assert!(
        examples.len() >= 2 && examples.len() == comments.len(),
        "{help}"
    );
    for example in &examples {
        for call in example.split(" | ") {
            let call = call.split(" > ").next().unwrap();
            if let Err(stop) = parse(&words(call)) {
                panic!("{example}: {stop:?}");
            }
        }
    }
    examples.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_command_has_two_examples_that_parse() {
    let commands = commands(tree());
    for (path, command) in &commands {
        let help = command.get_after_help().unwrap().to_string();
        for example in examples(&help) {
            let own = format!("webhookctl {path}");
            let mut calls = example.split(" | ");
            assert!(
                calls.any(|call| call.starts_with(&own)),
                "{path}: {example}"
            );
        }
        assert!(
            help.lines().all(|line| line.chars().count() <= 80),
            "{help}"
        );
        assert!(help.ends_with("\n\nGlobal options: webhookctl help options"));
    }
    let blocks = examples::EXAMPLES.split("\n\n");
    assert_eq!(
        blocks.count(),
        commands.len(),
        "examples without a command, or two blocks for one command"
    );
}

#[test]
fn global_options_are_on_one_page() {
    let is_shown = |arg: &&Arg| arg.is_global_set() && !arg.is_hide_set();
    for (path, command) in commands(parsed_tree()) {
        assert_eq!(
            command.get_arguments().filter(is_shown).count(),
            0,
            "{path}"
        );
    }
    // clap generates the man pages and the completions from this tree.
    for (path, command) in commands(tree()) {
        assert!(
            command.get_arguments().filter(is_shown).count() > 8,
            "{path}"
        );
    }
    let page = shown("options");
    for option in tree().get_arguments().filter(is_shown) {
        let name = format!("--{}", option.get_long().unwrap());
        assert!(page.contains(&name), "{name} is missing:\n{page}");
    }
    assert!(page.contains("[env:WEBHOOKCTL_OUTPUT]"), "{page}");
    examples(&page);
}

#[test]
fn help_explains_every_error_code() {
    for code in codes::all() {
        let page = shown(code);
        assert!(page.starts_with(&format!("{code}\n\n")), "{page}");
        for part in ["\n\nCause: ", "\n\nFix: "] {
            assert!(page.contains(part), "{code}: {page}");
        }
        assert!(!page.contains("]("), "{page}");
    }
    assert!(codes::all().count() > 150);
    assert_eq!(
        shown("[usage.status]"),
        "usage.status\n\n`--status` names a status that does not exist.\n\n\
         Cause: The word is misspelled.\n\nFix: Use one of the values in the tip.\n"
    );
    assert!(shown("auth.denied").contains(" infra/docs/permissions.md "));
}

#[test]
fn an_unknown_topic_names_the_nearest_one() {
    for (word, tip) in [
        (
            "usage.statsu",
            "did you mean 'usage.status'? webhookctl help usage.status",
        ),
        ("inbx", "did you mean 'inbox'? webhookctl help inbox"),
        ("option", "did you mean 'options'? webhookctl help options"),
        (
            "x.y",
            "an error shows its code in brackets, such as [inbox.not_found]",
        ),
        ("123", "webhookctl --help"),
    ] {
        let error = refused(word);
        assert_eq!(error.code, "usage.unknown_topic", "{word}");
        assert_eq!(error.tip.as_deref(), Some(tip), "{word}");
    }
    assert_eq!(refused("a.b").message, "unknown error code 'a.b'");
    assert_eq!(refused("123").message, "no help page for '123'");
}

#[test]
fn help_of_a_command_is_that_of_its_flag() {
    for (path, flag) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "inbox", "list"], &["inbox", "list", "--help"]),
    ] {
        let [path, flag] = [path, flag].map(|words| match parse(&args(words)) {
            Err(Stop::Clap(error)) => error.render().to_string(),
            other => panic!("{words:?}: {other:?}"),
        });
        assert_eq!(path, flag);
    }
}
