use std::collections::BTreeSet;

use super::question::{command, quoted};
use super::table::{READS, WRITES};
use super::*;

fn given(pairs: &[(&str, &str)]) -> Pairs {
    let owned = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    owned.collect()
}

fn command_of(name: &str, given: &[(&str, &str)]) -> String {
    let question = Question::new(name, &self::given(given)).unwrap();
    question.command(&Vec::new())
}

fn code_of(name: &str, given: &[(&str, &str)]) -> (&'static str, String) {
    let error = Question::new(name, &self::given(given)).unwrap_err();
    (error.code, error.tip.unwrap_or_default().into())
}

#[test]
fn every_flag_of_a_read_is_allowed_or_withheld_by_name() {
    for read in READS.iter().chain(WRITES) {
        let command = command(read);
        let path = read.words.join(" ");
        assert_eq!(command.get_name(), *read.words.last().unwrap(), "{path}");
        let of_command = command.get_arguments().filter(|arg| !arg.is_positional());
        let known: BTreeSet<&str> = of_command.filter_map(clap::Arg::get_long).collect();
        let flags: BTreeSet<&str> = read.flags().collect();
        for flag in &known {
            let withheld = read.withholds(flag);
            let undecided = "is neither allowed nor withheld in src/reads/table.rs";
            assert!(
                flags.contains(flag) != withheld,
                "{path} --{flag} {undecided}"
            );
        }
        let gone: Vec<_> = flags.difference(&known).collect();
        assert!(gone.is_empty(), "{path} has no {gone:?}");
        let positional = command.get_positionals().count();
        let named = read.positional.len();
        let withheld = usize::from(read.name == "context.show");
        assert_eq!(
            positional,
            named + withheld,
            "{path}: arguments without a flag"
        );
    }
}

#[test]
fn names_of_reads_are_unique() {
    let all = || READS.iter().chain(WRITES);
    let names: BTreeSet<&str> = all().map(|read| read.name).collect();
    assert_eq!(names.len(), all().count());
}

#[test]
fn flags_become_a_command_line() {
    for (name, given, expected) in [
        (
            "inbox.list",
            &[("status", "failed"), ("source", "a"), ("source", "b")][..],
            "webhookctl inbox list --status=failed --source=a --source=b",
        ),
        (
            "inbox.list",
            &[("reverse", ""), ("type", "it's *")],
            r"webhookctl inbox list --reverse '--type=it'\''s *'",
        ),
        ("dlq.list", &[("flat", "false")], "webhookctl dlq list"),
        (
            "inbox.inspect",
            &[("full", "true"), ("id", "--x")],
            "webhookctl inbox inspect --full -- --x",
        ),
        (
            "inbox.diff",
            &[("b", "2"), ("a", "1")],
            "webhookctl inbox diff 1 2",
        ),
    ] {
        assert_eq!(command_of(name, given), expected);
    }
}

#[test]
fn a_value_is_never_a_flag() {
    let given = given(&[("source", "--endpoint-url=http://x"), ("id", "evt_1")]);
    let line = Question::new("inbox.list", &given).unwrap().line("json");
    let cli = crate::cli::parse(&line).unwrap();
    assert_eq!(cli.global.target.endpoint_url, None);
}

#[test]
fn what_a_caller_may_not_pass_is_an_error() {
    for (name, flag) in [
        ("inbox.list", "endpoint-url"),
        ("inbox.list", "columns"),
        ("inbox.list", "o"),
        ("inbox.list", "help"),
        ("inbox.list", "where_"),
        ("verify", "secret-from"),
        ("verify", "body"),
        ("doctor", "bundle"),
        ("sources.show", "reveal"),
        ("sources.show", "file"),
        ("quarantine.list", "error"),
        ("context.show", "context"),
        ("endpoint.show", "now"),
    ] {
        let (code, _) = code_of(name, &[(flag, "x")]);
        let expected = ["console.flag", "usage.unknown_argument"];
        assert!(expected.contains(&code), "{name} {flag}: {code}");
    }
    assert_eq!(
        code_of("inbox.list", &[("endpoint-url", "x")]).0,
        "console.flag"
    );
    assert_eq!(code_of("inbox.list", &[("id", "-")]).0, "console.flag");
    assert_eq!(code_of("inbox.inspect", &[("id", "-")]).0, "console.flag");
    assert_eq!(
        code_of("inbox.list", &[("statsu", "x")]),
        (
            "usage.unknown_argument",
            "did you mean '--status'?".to_owned()
        )
    );
    assert_eq!(code_of("replay.apply", &[]).0, "console.no_read");
}

#[test]
fn a_word_is_quoted_for_a_shell() {
    for (word, expected) in [
        ("--status=failed", "--status=failed"),
        ("", "''"),
        ("a b", "'a b'"),
        ("$(id)", "'$(id)'"),
        ("it's", r"'it'\''s'"),
        ("~x", "'~x'"),
    ] {
        assert_eq!(quoted(word), expected);
    }
}
