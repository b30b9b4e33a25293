//! Builds the command line of a read from its name and the flags of a caller.

use std::ffi::OsString;

use clap::{ArgAction, Command};
use serde_json::Value;

use super::table::{READS, Read, WRITES};
use crate::cli::{Stop, parse, tree};
use crate::output::CliError;
use crate::target::TargetFlags;

/// The flags and the arguments of a caller, by name. A name can occur more than once.
pub(crate) type Pairs = Vec<(String, String)>;

/// Returns the pairs of a JSON object. A list is a flag that occurs more than once.
pub(crate) fn pairs(flags: &serde_json::Map<String, Value>) -> Result<Pairs, CliError> {
    let word = |name: &String, value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            let message = format!("--{name} must be a text, a number, or a list of texts");
            Err(CliError::usage("console.flag", message))
        }
    };
    let mut pairs = Pairs::new();
    for (name, value) in flags {
        match value {
            Value::Null => {}
            Value::Array(values) => {
                for value in values {
                    pairs.push((name.clone(), word(name, value)?));
                }
            }
            value => pairs.push((name.clone(), word(name, value)?)),
        }
    }
    Ok(pairs)
}

/// A read and its checked arguments.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) read: &'static Read,
    /// The flags, each in the form `--name=value`.
    flags: Vec<String>,
    positional: Vec<String>,
}

impl Question {
    /// Checks the name and the flags. Returns an error for each flag that a caller may not pass.
    pub(crate) fn new(name: &str, pairs: &Pairs) -> Result<Self, CliError> {
        let read = READS.iter().find(|read| read.name == name);
        Self::of(read.ok_or_else(|| unknown(name))?, pairs)
    }

    /// Checks the flags of a command that changes something. `more` are the flags of this process.
    pub(crate) fn write(name: &str, pairs: &Pairs, more: Vec<String>) -> Result<Self, CliError> {
        let write = WRITES.iter().find(|write| write.name == name);
        let mut question = Self::of(write.ok_or_else(|| unknown(name))?, pairs)?;
        question.flags.extend(more);
        Ok(question)
    }

    fn of(read: &'static Read, pairs: &Pairs) -> Result<Self, CliError> {
        let command = command(read);
        let mut question = Self {
            read,
            flags: Vec::new(),
            positional: Vec::new(),
        };
        for name in read.positional {
            let given = pairs.iter().filter(|(given, _)| given == name);
            question.positional.extend(given.map(|(_, id)| id.clone()));
        }
        for (name, value) in pairs {
            if value == "-" {
                return Err(withheld(name).note("`-` reads from stdin"));
            }
            if read.positional.contains(&name.as_str()) {
                continue;
            }
            if !read.allows(name) {
                return Err(question.refused(name, value));
            }
            question.flags.extend(flag(&command, name, value));
        }
        Ok(question)
    }

    /// Returns the error for a flag that is not in the table: the error of the command line if the
    /// command does not have the flag, and otherwise that a caller may not pass it.
    fn refused(&self, name: &str, value: &str) -> CliError {
        if self.read.withholds(name) {
            return withheld(name);
        }
        let words = self.read.words.iter().map(OsString::from);
        let mut line: Vec<OsString> = vec!["webhookctl".into()];
        line.extend(words);
        line.push(format!("--{name}={value}").into());
        match parse(&line) {
            Err(stop) if stop.is_unknown_argument() => stop.into_error(),
            _ => withheld(name),
        }
    }

    /// Returns the arguments of the command line, with this output format.
    pub(crate) fn line(&self, format: &str) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["webhookctl".into()];
        line.extend(self.read.words.iter().map(OsString::from));
        line.push(format!("--output={format}").into());
        line.extend(self.flags.iter().map(OsString::from));
        if !self.positional.is_empty() {
            line.push("--".into());
            line.extend(self.positional.iter().map(OsString::from));
        }
        line
    }

    /// Returns the command that prints the same in a terminal, quoted for a shell.
    pub(crate) fn command(&self, target: &TargetFlags) -> String {
        let mut words = vec!["webhookctl".to_owned()];
        words.extend(self.read.words.iter().map(|word| (*word).to_owned()));
        words.extend(target.iter().map(|word| quoted(word)));
        words.extend(self.flags.iter().map(|flag| quoted(flag)));
        if self.positional.iter().any(|it| it.starts_with('-')) {
            words.push("--".to_owned());
        }
        words.extend(self.positional.iter().map(|it| quoted(it)));
        words.join(" ")
    }
}

impl Stop {
    fn is_unknown_argument(&self) -> bool {
        matches!(self, Self::Clap(error) if error.kind() == clap::error::ErrorKind::UnknownArgument)
    }
}

/// Returns the flag as one word, so that a value is never read as another flag. A switch has no
/// value: `name`, `name=` and `name=true` set it, and `name=false` does not.
fn flag(command: &Command, name: &str, value: &str) -> Option<String> {
    let mut arguments = command.get_arguments();
    let argument = arguments.find(|argument| argument.get_long() == Some(name));
    let is_switch =
        argument.is_some_and(|argument| matches!(argument.get_action(), ArgAction::SetTrue));
    match value {
        "false" if is_switch => None,
        "" | "true" if is_switch => Some(format!("--{name}")),
        value => Some(format!("--{name}={value}")),
    }
}

/// Returns the command of a read in the tree of commands.
pub(super) fn command(read: &Read) -> Command {
    let mut at = tree();
    at.build();
    for word in read.words {
        if let Some(below) = at.find_subcommand(word) {
            at = below.clone();
        }
    }
    at
}

/// Returns a command of the tables.
pub(crate) fn named(name: &str) -> Option<&'static Read> {
    READS.iter().chain(WRITES).find(|read| read.name == name)
}

/// Returns the arguments of a command, with their help.
pub(crate) fn arguments(read: &Read) -> Vec<clap::Arg> {
    command(read).get_arguments().cloned().collect()
}

fn unknown(name: &str) -> CliError {
    let known = READS.iter().map(|read| read.name);
    CliError::not_found("console.no_read", format!("unknown read '{name}'"))
        .note("only commands that change nothing can be read")
        .did_you_mean(name, known)
}

fn withheld(name: &str) -> CliError {
    CliError::usage("console.flag", format!("--{name} cannot be set from here"))
        .tip("run the command in a terminal")
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
