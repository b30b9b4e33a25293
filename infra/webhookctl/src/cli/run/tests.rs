use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use clap::Parser;

use super::*;
use crate::cli::{Command, InboxCommand};
use crate::output::time::When;

fn args(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

fn parsed(line: &str) -> Cli {
    parse(&args(line)).unwrap_or_else(|stop| panic!("{line}: {stop:?}"))
}

fn refused(line: &str) -> CliError {
    match parse(&args(line)) {
        Err(Stop::Ours(error)) => error,
        Err(Stop::Clap(error)) => in_our_shape(&error),
        other => panic!("{line}: {other:?}"),
    }
}

/// A stream that records all output, or that behaves like a closed pipe.
#[derive(Clone, Default)]
struct Sink {
    text: Arc<Mutex<Vec<u8>>>,
    closed: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.text.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn printer(format: Format, closed: bool) -> (Printer, Sink) {
    let out = Sink {
        closed,
        ..Sink::default()
    };
    let err = Sink::default();
    let printer = Printer::onto(
        format,
        Terminal::default(),
        Box::new(out),
        Box::new(err.clone()),
    );
    (printer, err)
}

fn said(err: &Sink) -> String {
    String::from_utf8(err.text.lock().unwrap().clone()).unwrap()
}

#[test]
fn the_tree_is_consistent() {
    parsed_tree().debug_assert();
}

#[test]
fn global_options_stand_before_or_after_the_command() {
    for line in [
        "webhookctl -o json inbox list -q",
        "webhookctl inbox list -q --output=json",
    ] {
        let global = parsed(line).global;
        assert!(global.output == Format::Json && global.quiet);
    }
}

#[test]
fn every_argument_of_a_list_has_its_place() {
    let cli = parsed(
        "webhookctl inbox ls -s stripe-main -t invoice.paid --status failed --status dead_letter \
         --since 2h --until 2026-11-20 -n 5 --after c --reverse --error c41f09 --via backup_sync \
         --attempts 2 --id evt_1 --id - --where data.object.customer=cus_9",
    );
    let Command::Inbox(InboxCommand::List(list)) = cli.command else {
        panic!("not a list")
    };
    let asked = list.selection;
    assert_eq!((list.limit, asked.status.len(), list.reverse), (5, 2, true));
    let received = asked.received;
    assert!(matches!(received.since, Some(When::Ago(_))));
    assert!(matches!(received.until, Some(When::Day(_))));
    assert_eq!(received.id, ["evt_1", "-"]);
    assert_eq!(asked.where_[0].value, "cus_9");
}

#[test]
fn the_other_verbs_parse_too() {
    for line in [
        "webhookctl dev --demo --once --port 0 --state x --sources a --template b --functions c",
        "webhookctl dev --chaos crash-after-commit --state x --port 0",
        "webhookctl dev --state x --reset",
        "webhookctl send stripe -t invoice.paid --set data.a=1 --set +b=2 --wait",
        "webhookctl send github --tamper signature --duplicate -n 3 --secret-from env:X --id 7",
        "webhookctl send stripe --to http://127.0.0.1:1 --source s --data - --curl",
        "webhookctl send stripe --file body.json -n 100 --rate 20/s",
        "webhookctl send --event evt_01 --to :3000/hooks --set a=1 --secret-from env:X",
        "webhookctl listen -f :3000/hooks -s a -t invoice.* --backfill 2h --resign --show-response",
        "webhookctl listen -f 3000 --status failed --where a.b=1 --until 10m --allow-host a.test",
        "webhookctl completions zsh",
        "webhookctl send --list",
        "webhookctl inbox inspect evt_01 --full",
        "webhookctl inbox trace evt_01 -o otlp",
        "webhookctl inbox inspect evt_01 --timeline --watch",
        "webhookctl inbox body evt_01 --pretty --raw --body-bucket b",
        "webhookctl inbox diff evt_01 evt_02",
        "webhookctl inbox tail -s a --only done --only failed --since 2h",
        "webhookctl inbox export -f - --with-request --redact body.user -m why --status done",
        "webhookctl quarantine ls -s a -s b --reason bad_signature --since 2h --until 1h --flat -n 5",
        "webhookctl quarantine inspect evt_01 --reveal --secrets-path /mitt",
        "webhookctl quarantine reverify --dry-run --queue-url u --body-bucket b",
        "webhookctl quarantine reverify -m why --id evt_01 --id - --error bad_signature",
        "webhookctl quarantine reverify -m why --confirm 9",
        "webhookctl quarantine purge -s a --confirm 118 -m why",
        "webhookctl quarantine release evt_01 -m why --queue-url u --body-bucket b",
        "webhookctl quarantine discard github-main:1~abcdef01 -m why",
        "webhookctl dlq ls -s a --error c41f09 --since 2h",
        "webhookctl dlq list --flat -n 5 --after c",
        "webhookctl dlq inspect c41f09",
        "webhookctl dlq redrive --error c41f09 -m why --confirm 41",
        "webhookctl dlq redrive --native -m why --confirm 42 --queue-url u",
        "webhookctl log --since 2d --until 1d --by anna --what erase -n 5",
        "webhookctl verify evt_01 --reveal --at 2m --url https://a.test/ --secrets-path /mitt",
        "webhookctl sources check",
        "webhookctl sources check --deployed other.toml -c prod --region r --table t --endpoint-url u",
    ] {
        Cli::try_parse_from(args(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn a_wrong_value_is_refused_in_our_words() {
    let error = refused("webhookctl inbox list --status dead");
    assert_eq!(
        error.render(Format::Table, false),
        "error: unknown status 'dead' [usage.status]\n  tip: did you mean 'dead_letter'?\n \
         docs: infra/docs/errors.md#usagestatus\n"
    );
    assert_eq!(error.exit, Exit::Usage);
    assert_eq!(
        refused("webhookctl inbox list --since soon").code,
        "usage.time"
    );
    let error = refused("webhookctl send stripe --secret-from whsec_5up3r");
    assert!(!error.render(Format::Json, false).contains("5up3r"));
}

#[test]
fn a_typing_mistake_keeps_exit_2_and_has_a_suggestion() {
    for line in [
        "webhookctl dev --chaos slow --sources a",
        "webhookctl dev --chaos rain",
        "webhookctl send stripe --event evt_01",
        "webhookctl send stripe --data x --file y",
        "webhookctl listen -f 3000 --backfill 2h --since 3h",
        "webhookctl listen --resign",
        "webhookctl completions tcsh",
    ] {
        assert_eq!(refused(line).exit, Exit::Usage, "{line}");
    }
    let error = refused("webhookctl inbox list --statsu failed");
    assert_eq!(
        (error.code, error.exit),
        ("usage.unknown_argument", Exit::Usage)
    );
    assert_eq!(error.message, "unexpected argument '--statsu' found");
    assert_eq!(error.tip.as_deref(), Some("did you mean '--status'?"));
    assert_eq!(refused("webhookctl").code, "usage.missing_command");
    assert_eq!(
        refused("webhookctl dev --once").code,
        "usage.missing_argument"
    );
    assert_eq!(
        refused("webhookctl dev --reset").code,
        "usage.missing_argument"
    );
    assert_eq!(
        refused(&["webhookctl", "dashboard"].join(" ")).code,
        "usage.unknown_command"
    );
}

#[test]
fn version_is_a_command_too() {
    let text = match parse(&args(&["webhookctl", "version"].join(" "))) {
        Err(Stop::Text(text)) => text.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    let error = refused(&["webhookctl", "inbox", "version"].join(" "));
    assert_eq!(error.code, "usage.unknown_command");
}

#[test]
fn a_query_needs_json() {
    for format in ["csv", "ids", "wide"] {
        let error = refused(&format!("webhookctl inbox list -o {format} --query items"));
        assert_eq!(error.code, "usage.output", "{format}");
    }
    for line in [
        "webhookctl inbox list --query items",
        "webhookctl inbox list -o jsonl --query id",
    ] {
        assert!(parsed(line).global.format().is_json(), "{line}");
    }
}

#[test]
fn only_a_trace_is_printed_as_otlp() {
    for line in [
        "webhookctl inbox list -o otlp",
        "webhookctl inbox inspect evt_01 -o otlp",
        "webhookctl inbox trace evt_01 -o otlp --query spans",
    ] {
        assert_eq!(refused(line).code, "usage.output", "{line}");
    }
    let trace = parsed("webhookctl inbox trace evt_01 -o otlp");
    assert_eq!(trace.global.format(), Format::Otlp);
}

#[test]
fn a_time_range_must_not_be_empty() {
    const NOW: i64 = 1_795_169_681_000;
    let range = |line: &str| match parsed(line).command {
        Command::Inbox(InboxCommand::List(args)) => args.selection.received.checked(NOW),
        other => panic!("{other:?}"),
    };
    assert!(range("webhookctl inbox list --since 3h --until 2h").is_ok());
    for line in [
        "webhookctl inbox list --since 2h --until 3h",
        "webhookctl inbox list --since 2h --until 2h",
    ] {
        assert_eq!(range(line).unwrap_err().code, "usage.range", "{line}");
    }
    // A negative duration is a wrong time, and not an unknown flag.
    assert_eq!(
        refused("webhookctl inbox list --since -5h").code,
        "usage.time"
    );
}

#[test]
fn the_wanted_format_is_found_in_wrong_arguments() {
    for line in [
        "webhookctl inbox list --statsu failed -o json",
        "webhookctl inbox list -o json --statsu failed",
        "webhookctl inbox list --status dead -ojson",
        "webhookctl --output=json inbox nope",
        "webhookctl inbox inspect -o json",
    ] {
        assert_eq!(wanted(&args(line)).0, Format::Json, "{line}");
    }
    assert_eq!(
        wanted(&args("webhookctl inbox list -o yaml")).0,
        Format::Table
    );
}

#[test]
fn options_without_a_command_show_the_screen_too() {
    let first = |line: &str| {
        screen(&args(line))
            .to_string()
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert!(first("webhookctl -q").starts_with("Inspect and operate a webhook inbox"));
    assert_eq!(
        first("webhookctl inbox -q"),
        "List, inspect, count, follow and export stored events"
    );
    for line in ["webhookctl -q", "webhookctl inbox -q"] {
        assert!(matches!(
            parse(&args(line)),
            Err(Stop::Clap(error)) if error.kind() == ErrorKind::MissingSubcommand
        ));
    }
}

#[test]
fn help_output_is_the_text_and_nothing_else() {
    let error = parsed_tree()
        .try_get_matches_from(args("webhookctl help output"))
        .unwrap_err();
    assert_eq!(
        error.render().to_string().trim_end(),
        help::OUTPUT.trim_end()
    );
    assert!(matches!(
        parse(&args("webhookctl output")),
        Err(Stop::Text(_))
    ));
}

#[test]
fn a_closed_stdout_ends_quietly() {
    let (mut printer, err) = printer(Format::Table, true);
    let result = printer
        .text("one\n")
        .context("list the events")
        .map(|()| Exit::Done);
    assert_eq!(finish(result, &mut printer, Place::default), Exit::Done);
    assert_eq!(said(&err), "");
}

#[test]
fn a_broken_connection_is_no_closed_stdout() {
    let (mut printer, err) = printer(Format::Table, false);
    let broken = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe));
    let exit = finish(Err(broken.context("send")), &mut printer, Place::default);
    assert_eq!(exit, Exit::Failed);
    assert!(said(&err).starts_with("error: send: broken pipe"));
}

#[test]
fn an_error_of_ours_ends_with_its_code() {
    let (mut printer, err) = printer(Format::Json, false);
    let error = CliError::not_found("inbox.not_found", "no event 'x'");
    let exit = finish(Err(error.into()), &mut printer, Place::default);
    assert_eq!(exit, Exit::NotFound);
    assert_eq!(
        said(&err),
        "{\"error\":{\"code\":\"inbox.not_found\",\"message\":\"no event 'x'\",\"exit\":3,\"docs\":\"infra/docs/errors.md#inboxnot_found\"}}\n"
    );
}

#[test]
fn a_query_asks_a_json_document() {
    let format = |line: &str| parsed(line).global.format();
    assert_eq!(
        format("webhookctl inbox list --query items[].id"),
        Format::Json
    );
    assert_eq!(
        format("webhookctl inbox list --query id -o jsonl"),
        Format::Jsonl
    );
    assert_eq!(format("webhookctl inbox list"), Format::Table);
    let error = refused("webhookctl inbox list --query items[");
    assert_eq!((error.code, error.exit), ("usage.query", Exit::Usage));
}
