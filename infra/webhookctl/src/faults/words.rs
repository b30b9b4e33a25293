//! The texts of a fault: the position, the path, what is wrong, and what to write instead.

use std::fmt::Write as _;

use shared::base::setting_path::Step;
use shared::base::toml_error::{is_word, message};
use shared::sources::settings::{self, Kind, Setting};
use shared::sources::{Refusal, SCHEMA};
use shared::webhook::preset::Preset;

use super::Fault;
use super::locate::Place;
use crate::output::nearest;

/// The words with which the fix begins in an error message of a check.
const FIXES: [&str; 3] = ["; ", ": use ", ": set "];

pub(super) fn of_syntax(error: &toml::de::Error, text: &str) -> Fault {
    let at = error.span().map_or(0, |span| span.start);
    let (line, column) = position(text, at);
    Fault {
        line,
        column,
        path: String::new(),
        message: format!("invalid TOML: {}", message(error)),
        fix: "write each setting as key = value, with strings in quotes".to_owned(),
    }
}

/// Returns the line and the column of a byte, both from 1.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Returns a path as text. A key that may be a secret is not shown.
pub(super) fn path(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Index(index) => {
                let _ = write!(text, "[{index}]");
            }
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(if is_word(key) { key } else { "…" });
            }
            Step::Named(_) | Step::File => {}
        }
    }
    text
}

/// Returns what is wrong, and what to write instead.
pub(super) fn said(refusal: &Refusal, place: &Place) -> (String, String) {
    let message = refusal.message.as_str();
    if message.starts_with("unknown field") {
        let (of, known) = (shown(message, "setting"), expected(message));
        let other = format!("remove it, or use one of: {}", known.join(", "));
        return (of, place.did_you_mean(&known).unwrap_or(other));
    }
    if message.starts_with("unknown variant") {
        let (of, known) = (shown(message, "value"), expected(message));
        let other = format!("use one of: {}", known.join(", "));
        return (of, place.did_you_mean(&known).unwrap_or(other));
    }
    if message.starts_with("unknown preset") {
        let known: Vec<&str> = Preset::names().collect();
        let what = message.split(';').next().unwrap_or(message).to_owned();
        let other = "`webhookctl sources presets` lists the presets".to_owned();
        return (what, place.did_you_mean(&known).unwrap_or(other));
    }
    let setting = of_path(&place.path);
    if let Some(name) = message.strip_prefix("missing field ").and_then(quoted) {
        return (format!("`{name}` is missing"), to_add(name, setting));
    }
    if let Some((what, fix)) = of_type(message, place, setting) {
        return (what, fix);
    }
    for begin in FIXES {
        if let Some((what, fix)) = message.rsplit_once(begin) {
            let verb = begin.trim_start_matches([';', ':', ' ']);
            return (what.to_owned(), format!("{verb}{fix}"));
        }
    }
    (message.to_owned(), setting.map(example).unwrap_or_default())
}

impl Place {
    fn did_you_mean(&self, known: &[&str]) -> Option<String> {
        let meant = nearest(self.word.as_deref()?, known.iter().copied())?;
        Some(format!("did you mean `{meant}`?"))
    }
}

/// Describes a value of the wrong type.
fn of_type(message: &str, place: &Place, setting: Option<&Setting>) -> Option<(String, String)> {
    // The parser says the second of any value that is not a word.
    if !message.starts_with("invalid type: ") && message != "wanted string or table" {
        return None;
    }
    let (found, setting) = (place.found?, setting?);
    let is_element = matches!(place.path.last(), Some(Step::Index(_)));
    let what = match setting.kind {
        Kind::Strings if is_element => "string",
        Kind::Durations if is_element => "duration",
        Kind::Tables if is_element => "table",
        kind => kind.name(),
    };
    // The parser names only the table if the type of the table depends on one of its keys.
    if what == found {
        return None;
    }
    let what = format!("expected {}, found {}", a(what), a(found));
    Some((what, example(setting)))
}

/// Returns the setting at a path, or the array of an element.
fn of_path(path: &[Step]) -> Option<&'static Setting> {
    settings::at(path).or_else(|| match path.split_last() {
        Some((Step::Index(_), array)) => settings::at(array),
        _ => None,
    })
}

fn to_add(name: &str, setting: Option<&Setting>) -> String {
    match setting {
        Some(setting) if setting.path == "schema" => {
            format!("add `schema = {SCHEMA}` as the first line")
        }
        Some(setting) => match setting.example {
            Some(value) => format!("add a line such as `{name} = {value}`"),
            None => format!("add the table `{name}`"),
        },
        None => format!("add `{name}`"),
    }
}

fn example(setting: &Setting) -> String {
    match setting.example {
        Some(value) => format!("for example: {} = {value}", setting.key()),
        None => setting.meaning.to_owned(),
    }
}

/// Returns the unknown word, unless it may be a secret.
fn shown(message: &str, what: &str) -> String {
    match quoted(message) {
        Some(word)
            if ["field", "variant"]
                .iter()
                .any(|of| message.starts_with(&format!("unknown {of} `{word}`"))) =>
        {
            format!("unknown {what} `{word}`")
        }
        _ => format!("unknown {what}"),
    }
}

/// Returns the first word in backticks.
pub(super) fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('`')?;
    rest.split_once('`').map(|(word, _)| word)
}

/// Returns the words that the parser expects.
pub(super) fn expected(message: &str) -> Vec<&str> {
    let (_, list) = message.rsplit_once(", expected ").unwrap_or_default();
    list.split('`').skip(1).step_by(2).collect()
}

fn a(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {noun}")
}
