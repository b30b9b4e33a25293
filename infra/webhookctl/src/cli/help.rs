//! Help pages that clap does not generate.

mod codes;
mod examples;
mod groups;
mod options;

use clap::Command;
use clap::builder::{StyledStr, Styles};

use crate::output::CliError;
use crate::output::error::nearest;

pub(super) use examples::with_examples;
pub(super) use groups::in_groups;

/// The text on the first page, below the commands.
const START_HERE: &str = "\
Start here:
  webhookctl dev --demo                     run the whole system on this machine
  webhookctl status                         show what is wrong, worst first
  webhookctl inbox list --status failed     list the events that failed
  webhookctl inbox inspect <ID>             explain one event
  webhookctl replay plan --status failed    preview a replay; runs nothing
  webhookctl doctor                         check the deployment";

const MORE_HELP: &str = "\
More help:
  webhookctl help COMMAND    a command, with examples
  webhookctl help CODE       an error code, such as inbox.not_found
  webhookctl help options    the options that every command accepts
  webhookctl help output     formats, exit codes, environment, contexts";

/// The page that `webhookctl help output` prints.
pub(super) const OUTPUT: &str = "\
Output
  stdout carries data. Progress, tips and errors go to stderr.
  -o table   the default; fits the terminal, and drops the least important columns first
  -o wide    every column, full ids
  -o json    one document: {\"schema\": \"webhookctl/<command>/v1\", \"items\": [...], \"next_cursor\": ...}
  -o jsonl   one object per line, for pipes
  -o csv     RFC 4180 with a header row; a leading ' prevents a cell from running as a formula
  -o ids     one id per line; pass them to another command with `--id -`
  --query    JMESPath on the JSON document; with -o jsonl, on each object
  A schema version can gain fields. It never loses or changes a field.
  Times are RFC 3339 in UTC. Durations are in seconds.
  A list that stops early has \"truncated\": true, and \"next_cursor\" to continue.
  When stdout is not a terminal, -o table prints no colour and no tips.
  Text from webhooks cannot control your terminal: control characters appear as symbols, invisible
  characters as <U+202E>. JSON escapes both.

Exit codes
    0  success; also an empty list
    1  failure: AWS, the network or the disk
    2  usage error: unknown flag, invalid value, missing argument; `sources diff`: the file differs
    3  not found, nothing to redrive, or more than one match
    4  no credentials, expired credentials, or access denied (the message names the IAM action)
    5  negative result: a request is not verified, a sources file is invalid, a test failed, objects
       differ, `doctor` found a fault, `status` found something wrong, an event waits longer than
       --max-lag, or the demo had an unexpected result
    6  partial success: some events failed again, or the final status is not `done`
    7  refused: confirmation missing or wrong, plan expired or changed, every dead letter excluded by
       the mode, secret in use, sources applied by another operator, or read-only context
    8  busy: another run holds the lock
  124  --timeout reached
  130  stopped with Ctrl-C; work that began is recorded and can be resumed

Errors
  error: what happened [code]
   note: what the command checked
    tip: the command to run next
   docs: the description of the code
  `webhookctl help CODE` prints that description: meaning, cause and fix.
  With -o json or jsonl, one object on stderr: {\"error\":{\"code\",\"message\",\"exit\",\"note\",\"tip\",\"docs\"}}

Environment
  WEBHOOKCTL_CONTEXT  WEBHOOKCTL_CONFIG  WEBHOOKCTL_OUTPUT  WEBHOOKCTL_TIME  WEBHOOKCTL_READ_ONLY=1
  WEBHOOKCTL_TIPS=0  WEBHOOKCTL_CACHE
  AWS_PROFILE  AWS_REGION  AWS_ENDPOINT_URL  and the other variables that the AWS SDK reads
  MITT_TABLE  MITT_QUEUE_URL  MITT_BODY_BUCKET  MITT_SECRETS_PATH  MITT_API_URL
  MITT_BACKUP_SYNC_FUNCTION
  NO_COLOR  CLICOLOR_FORCE  COLUMNS

Contexts
  A context names a deployment. Order of precedence: flags, environment variables, .webhookctl.toml
  of the project, ~/.config/webhookctl/config.toml (or the file in WEBHOOKCTL_CONFIG). A project
  file can protect a context, but not remove its protection. Without any of these, commands use the
  local stack that `dev` runs.
    default = \"prod\"
    [context.prod]
    stack = \"mitt-prod\"        # `context add` reads the names of its resources once
    region = \"eu-west-1\"
    profile = \"prod-oncall\"
    protected = true           # accepting quarantined requests and applying sources need --confirm
    read_only = true           # refuses every change
";

/// The topics of `help` that are not commands.
pub(super) fn topics() -> [Command; 2] {
    let topic = |name, about, page: StyledStr| {
        let topic = Command::new(name).hide(true).about(about);
        topic.override_help(page)
    };
    [
        topic(
            "output",
            "Formats, exit codes, environment variables, contexts",
            OUTPUT.into(),
        ),
        topic(
            "options",
            "Options that every command accepts",
            options::page(),
        ),
    ]
}

/// Returns the help page of a topic.
pub(super) fn page(topic: &str) -> Option<StyledStr> {
    match topic {
        "output" => Some(OUTPUT.into()),
        "options" => Some(options::page()),
        _ => None,
    }
}

/// Returns the help page of an error code. Any other word that is not a command is an error.
pub(super) fn page_of_code(word: &str, commands: &[&str]) -> Result<StyledStr, CliError> {
    // Error messages show the code in brackets, so users can paste it with the brackets.
    let code = word.trim_matches(['[', ']']);
    codes::page(code).ok_or_else(|| unknown(code, commands))
}

fn unknown(word: &str, commands: &[&str]) -> CliError {
    let codes: Vec<&str> = codes::all().collect();
    let (message, meant, otherwise) = if word.contains('.') {
        (
            format!("unknown error code '{word}'"),
            nearest(word, codes),
            "an error shows its code in brackets, such as [inbox.not_found]",
        )
    } else {
        (
            format!("no help page for '{word}'"),
            nearest(word, [commands, &codes].concat()),
            "webhookctl --help",
        )
    };
    let error = CliError::usage("usage.unknown_topic", message);
    match meant {
        Some(meant) => error.tip(format!("did you mean '{meant}'? webhookctl help {meant}")),
        None => error.tip(otherwise),
    }
}

/// Styles the lines that end with a colon as headings.
fn with_headings(text: &str, styles: &Styles) -> String {
    let heading = styles.get_header();
    let line = |line: &str| {
        if line.ends_with(':') && !line.starts_with(' ') {
            format!("{heading}{line}{heading:#}")
        } else {
            line.to_owned()
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
