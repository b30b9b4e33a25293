//! Option values that need a parser of their own.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};

use shared::base::env::env_var;
use shared::inbox::ledger::State;

use crate::files;
use crate::output::CliError;
use crate::output::time::When;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// The time zone of times in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Zone {
    #[default]
    Utc,
    /// The time zone of this machine.
    Local,
}

/// A status by which a command selects events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The event waits for an approval. Its row is `received`, but it is not selected by that word,
    /// so that each event has one status.
    Held,
    Of(State),
}

impl Status {
    pub(crate) fn new(state: State, is_held: bool) -> Self {
        if is_held { Self::Held } else { Self::Of(state) }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Of(state) => state.as_str(),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        State::ALL.iter().copied().map(Self::Of).chain([Self::Held])
    }
}

/// A parser for statuses, which also lists the possible values for shell completions.
#[derive(Clone)]
pub(super) struct StatusWord;

impl TypedValueParser for StatusWord {
    type Value = Status;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Status, clap::Error> {
        let words = StringValueParser::new().try_map(|text| status(&text));
        words.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = Status::all().map(Status::as_str);
        Some(Box::new(words.map(PossibleValue::new)))
    }
}

fn status(text: &str) -> Result<Status, CliError> {
    let found = Status::all().find(|status| status.as_str() == text);
    found.ok_or_else(|| {
        let known: Vec<&str> = Status::all().map(Status::as_str).collect();
        CliError::usage("usage.status", format!("unknown status '{text}'")).one_of(text, &known)
    })
}

/// How to make a request invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tamper {
    /// Change one byte of the body
    Body,
    /// Change one byte of the signature
    Signature,
    /// Sign an old timestamp
    Timestamp,
    /// Sign with a wrong secret
    Secret,
}

/// A case that the demo runs only if it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// Refunds that a worker pays, and a person approves if they are large
    Agent,
}

/// The fault to cause in the local stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Chaos {
    /// The destination answers 502 for a minute
    Outage,
    /// The destination answers only after the lease has expired
    Slow,
    /// The processor stops between a side effect and its record
    CrashAfterCommit,
    /// The table throttles one write in three
    Throttle,
    /// The provider's clock is ten minutes slow
    ClockSkew,
}

/// A function that another tool runs instead of `dev`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FunctionName {
    /// Answers the providers' requests
    Catcher,
    /// Runs the actions, except long ones
    Processor,
    /// Runs the scheduled tasks
    BackupSync,
}

/// `--set path=value`: replaces a field of the sample; `+path=value` adds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub add: bool,
    pub path: String,
    pub value: String,
}

/// Where to read a secret. A secret is never an argument, because other users of the machine can
/// see arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretFrom {
    Stdin,
    File(PathBuf),
    Env(String),
}

impl SecretFrom {
    /// Reads the secret from its location. `what` names the secret in error messages.
    pub(crate) fn read(&self, what: &str) -> anyhow::Result<String> {
        match self {
            Self::Stdin => text(files::read_stdin(what)?, what),
            Self::File(path) => text(files::read(path, what)?, what),
            Self::Env(name) => env_var(name).ok_or_else(|| {
                let message = format!("the environment variable {name} is not set");
                let error = CliError::usage("usage.env", message);
                error
                    .tip(format!("export {name}=…, or use file:PATH"))
                    .into()
            }),
        }
    }
}

fn text(bytes: Vec<u8>, what: &str) -> anyhow::Result<String> {
    String::from_utf8(bytes).with_context(|| format!("read {what} as text"))
}

impl fmt::Display for SecretFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("stdin"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Env(name) => write!(f, "env:{name}"),
        }
    }
}

/// The value of `--rate`, such as `20/s`, as the interval between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub Duration);

pub(super) fn rate(text: &str) -> Result<Rate, CliError> {
    let read = || {
        let (count, unit) = text.split_once('/')?;
        let unit = match unit.trim() {
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            _ => return None,
        };
        unit.checked_div(count.trim().parse().ok()?).map(Rate)
    };
    read().ok_or_else(|| {
        CliError::usage("usage.rate", format!("invalid rate '{text}'"))
            .tip("for example --rate 20/s or --rate 100/m")
    })
}

pub(super) fn assignment(text: &str) -> Result<Assignment, CliError> {
    let (add, rest) = match text.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    match rest.split_once('=') {
        Some((path, value)) if !path.is_empty() => Ok(Assignment {
            add,
            path: path.to_owned(),
            value: value.to_owned(),
        }),
        _ => Err(
            CliError::usage("usage.set", format!("'{text}' is not PATH=VALUE"))
                .tip("for example --set data.object.amount=99"),
        ),
    }
}

/// Parses the value of `--where`.
pub(super) fn condition(text: &str) -> Result<Assignment, CliError> {
    assignment(text).map_err(|_| {
        CliError::usage("usage.where", format!("'{text}' is not PATH=VALUE"))
            .tip("for example --where data.object.customer=cus_9")
    })
}

/// Parses the value of `--header` as a condition.
pub(super) fn header_condition(text: &str) -> Result<Assignment, CliError> {
    assignment(text).map_err(|_| {
        CliError::usage("usage.header", format!("'{text}' is not NAME=VALUE"))
            .tip("for example --header x-shopify-topic=orders/create")
    })
}

pub(super) fn secret_from(text: &str) -> Result<SecretFrom, CliError> {
    match text.split_once(':') {
        _ if text == "-" => Ok(SecretFrom::Stdin),
        Some(("file", path)) if !path.is_empty() => Ok(SecretFrom::File(path.into())),
        Some(("env", name)) if !name.is_empty() => Ok(SecretFrom::Env(name.to_owned())),
        // The value may be the secret itself, so the error does not repeat it.
        _ => Err(CliError::usage(
            "usage.secret_from",
            "--secret-from takes a location, not the secret itself",
        )
        .tip("pass --secret-from with - (stdin), file:PATH or env:NAME")),
    }
}

pub(super) fn when(text: &str) -> Result<When, CliError> {
    When::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_keeps_what_follows_the_first_sign() {
        let set = assignment("+a.b=c=d").unwrap();
        assert_eq!(
            (set.add, set.path.as_str(), set.value.as_str()),
            (true, "a.b", "c=d")
        );
        assert!(assignment("a.b").is_err() && assignment("=c").is_err());
    }

    #[test]
    fn each_flag_with_a_pair_has_a_tip_of_its_own() {
        let tip = |error: CliError| error.tip.unwrap_or_default();
        assert!(tip(assignment("a").unwrap_err()).contains("--set"));
        assert!(tip(condition("a").unwrap_err()).contains("--where"));
        assert!(tip(header_condition("a").unwrap_err()).contains("--header"));
    }

    #[test]
    fn an_unset_variable_and_a_missing_file_are_named() {
        let code = |from: SecretFrom| {
            let error = from.read("the secret").unwrap_err();
            let error = error.downcast::<CliError>().unwrap();
            (error.code, error.message.contains("none-of-this-name"))
        };
        let name = "none-of-this-name";
        let unset = SecretFrom::Env(name.to_owned());
        assert_eq!(code(unset), ("usage.env", true));
        let missing = SecretFrom::File(name.into());
        assert_eq!(code(missing), ("usage.file", true));
    }

    #[test]
    fn a_rate_is_the_time_between_two() {
        assert_eq!(rate("20/s").unwrap(), Rate(Duration::from_millis(50)));
        assert_eq!(rate("30 / m").unwrap(), Rate(Duration::from_secs(2)));
        for wrong in ["", "20", "0/s", "-1/s", "x/s", "5/d"] {
            assert_eq!(rate(wrong).unwrap_err().code, "usage.rate", "{wrong}");
        }
    }

    #[test]
    fn a_secret_comes_from_a_place_and_is_not_echoed() {
        assert_eq!(secret_from("-").unwrap(), SecretFrom::Stdin);
        assert_eq!(
            secret_from("file:/run/s").unwrap(),
            SecretFrom::File("/run/s".into())
        );
        assert_eq!(secret_from("env:S").unwrap(), SecretFrom::Env("S".into()));
        let error = secret_from("whsec_5up3r").unwrap_err();
        assert!(!format!("{error:?}").contains("5up3r"));
    }
}
