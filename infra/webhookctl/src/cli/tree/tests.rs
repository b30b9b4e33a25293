use std::collections::BTreeSet;
use std::path::Path;

use clap::Arg;

use super::*;

/// Every command with its path.
fn all() -> Vec<(Vec<String>, Command)> {
    fn below(path: &[String], command: &Command, all: &mut Vec<(Vec<String>, Command)>) {
        all.push((path.to_vec(), command.clone()));
        for command in command.get_subcommands() {
            let path = [path, &[command.get_name().to_owned()]].concat();
            below(&path, command, all);
        }
    }
    let mut tree = tree().disable_help_subcommand(true);
    tree.build();
    let mut all = Vec::new();
    below(&[], &tree, &mut all);
    all
}

fn text(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// The help texts of a command and of its arguments.
fn texts(command: &Command) -> String {
    let of_command = [
        command.get_about(),
        command.get_long_about(),
        command.get_before_help(),
        command.get_after_help(),
        command.get_after_long_help(),
    ];
    let args = command.get_arguments();
    let of_args = args.flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
    let all: Vec<String> = of_command.into_iter().chain(of_args).map(text).collect();
    all.join("\n")
}

/// The words of a text that are flags.
fn flags(text: &str) -> BTreeSet<String> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = text.split(|c: char| !inside(c));
    let names = words.filter_map(|word| word.strip_prefix("--"));
    let names = names.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    names
        .map(|name| name.trim_end_matches('-').to_owned())
        .collect()
}

fn has(command: &Command, flag: &str) -> bool {
    let is = |arg: &Arg| {
        arg.get_long() == Some(flag)
            || arg
                .get_all_aliases()
                .is_some_and(|aliases| aliases.contains(&flag))
    };
    flag == "help" || command.get_arguments().any(is)
}

/// Returns the command that an example calls. `example` is the text after `webhookctl`.
fn called<'t>(tree: &'t Command, example: &str) -> &'t Command {
    let mut at = tree;
    for word in example.split_whitespace() {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        match at.find_subcommand(word) {
            Some(below) => at = below,
            None if at.get_name() == tree.get_name() && !word.starts_with('-') => return at,
            None => {}
        }
    }
    at
}

#[test]
fn every_command_and_every_argument_says_what_it_is() {
    for (path, command) in all() {
        let about = text(command.get_about());
        assert!(!about.is_empty(), "{path:?} has no help text");
        assert!(
            !about.ends_with('.') && about.len() < 100,
            "{path:?}: {about}"
        );
        for arg in command.get_arguments() {
            let help = text(arg.get_help());
            assert!(!help.is_empty(), "{path:?} {}", arg.get_id());
            assert!(!help.ends_with('.'), "{path:?} {}: {help}", arg.get_id());
        }
    }
}

#[test]
fn commands_that_write_or_reach_outside_explain_themselves_at_length() {
    for name in ["dev", "send", "listen", "verify", "erase"] {
        let tree = tree();
        let command = tree.find_subcommand(name).unwrap();
        assert!(text(command.get_long_about()).len() > 60, "{name}");
    }
}

#[test]
fn no_help_names_a_flag_that_does_not_exist() {
    let all = all();
    let (_, root) = all.first().unwrap();
    for (path, command) in &all {
        // An example can continue on the next line.
        for line in texts(command).replace("\\\n", "").lines() {
            let mut examples = line.split("webhookctl ");
            for flag in flags(examples.next().unwrap_or_default()) {
                assert!(has(command, &flag), "{path:?}: --{flag} in {line:?}");
            }
            for example in examples {
                let called = called(root, example);
                for flag in flags(example) {
                    assert!(has(called, &flag), "{path:?}: --{flag} in {line:?}");
                }
            }
        }
    }
    for flag in flags(help::OUTPUT) {
        assert!(
            all.iter().any(|(_, command)| has(command, &flag)),
            "help output: --{flag}"
        );
    }
}

/// The test reads all source files, because each of them can contain a tip or a note.
#[test]
fn no_tip_names_a_command_that_does_not_exist() {
    let tree = tree();
    let mut seen = 0;
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap_or_default();
            let code = source.split("#[cfg(test)]").next().unwrap_or_default();
            for line in code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
            {
                for example in line.split("webhookctl ").skip(1) {
                    let word = example.split(|c: char| !c.is_ascii_lowercase()).next();
                    let word = word.unwrap_or_default();
                    // The text is `webhookctl {…}`, `webhookctl --table …` or `webhookctl/list/v1`,
                    // and does not contain a command.
                    if word.is_empty() || example.starts_with('-') {
                        continue;
                    }
                    if word == "help" || word == "dev" {
                        continue;
                    }
                    seen += 1;
                    assert!(
                        tree.find_subcommand(word).is_some(),
                        "{}: webhookctl {example}",
                        path.display()
                    );
                }
            }
        }
    }
    assert!(seen > 30, "found only {seen} examples");
}
