//! Formats the errors of a TOML file. An error text contains the line, but no values of the file. A
//! value may be a secret in the wrong place, and errors are logged, printed and shared.

use std::fmt;

use toml::Value;

use super::setting_path::AtSetting;

/// The maximum length of a text that is shown even if it is not a word. A longer text may be a
/// secret.
const LONGEST_SHOWN: usize = 16;

/// Describes a TOML error, such as `line 7: max_body: invalid type: string …, expected usize`. The
/// full text of the error is not used, because that text contains the whole line.
pub fn refusal(error: &toml::de::Error, text: &str) -> String {
    let why = message(error);
    let Some(span) = error.span() else {
        return why;
    };
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    match field(before) {
        Some(field) => format!("line {line}: {field}: {why}"),
        None => format!("line {line}: {why}"),
    }
}

/// Returns the message of a TOML error without values of the file.
pub fn message(error: &toml::de::Error) -> String {
    without_value(error.message())
}

/// Describes an invalid setting without long values of the file. Adds the line number of a removed
/// value.
pub(crate) fn refused(error: &anyhow::Error, text: &str) -> String {
    let mut said = format!("{error:#}");
    let inner = error.downcast_ref::<AtSetting>();
    let inner = inner.map_or(error, AtSetting::error);
    let name = inner.downcast_ref::<NotAName>();
    let mut line = name.and_then(|refused| line_of(text, &refused.name));
    for value in long_texts(text) {
        let escaped = value.escape_debug().to_string();
        for form in [&value, &escaped] {
            if said.contains(form.as_str()) {
                said = said.replace(form.as_str(), "…");
                line = line.or_else(|| line_of(text, &value));
            }
        }
    }
    match line {
        Some(line) => format!("line {line}: {said}"),
        None => said,
    }
}

/// An invalid name. The error never shows the name, because a secret may be in its place.
pub(crate) struct NotAName {
    what: &'static str,
    name: String,
}

impl NotAName {
    pub(crate) fn new(what: &'static str, name: &str) -> Self {
        Self {
            what,
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what;
        write!(f, "{what} must have 1 to 40 characters: a-z, 0-9 and -")
    }
}

impl fmt::Debug for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NotAName({})", self.what)
    }
}

impl std::error::Error for NotAName {}

/// Removes a value of the file from a message, unless the value is a word. Keeps the expected
/// values.
fn without_value(message: &str) -> String {
    let (said, expected) = message
        .rfind(", expected ")
        .map_or((message, ""), |at| message.split_at(at));
    let quotes = ['"', '`'];
    let (Some(from), Some(to)) = (said.find(quotes), said.rfind(quotes)) else {
        return message.to_owned();
    };
    let quoted = said.get(from + 1..to).unwrap_or_default();
    if is_word(quoted) {
        return message.to_owned();
    }
    let (before, after) = (&said[..from], &said[to + 1..]);
    format!("{before}…{after}{expected}")
}

/// The key of the value at which an error starts.
fn field(before: &str) -> Option<&str> {
    let line = before.rsplit('\n').next()?;
    let (key, _) = line.rsplit_once('=')?;
    // A `=` inside a string does not follow a key.
    let is_within = |quote: char| key.matches(quote).count() % 2 == 1;
    if is_within('"') || is_within('\'') {
        return None;
    }
    let begins = |c: char| c.is_whitespace() || ".,{[".contains(c);
    let key = key.trim_end().rsplit(begins).next()?;
    is_word(key).then_some(key)
}

/// Whether a text is a word, as settings and most of their values are. A secret is longer or
/// contains a digit.
pub fn is_word(text: &str) -> bool {
    (1..=24).contains(&text.len()) && text.chars().all(is_of_word)
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_lowercase() || c == '_' || c == '-'
}

/// Returns the line in which a value first occurs.
pub(crate) fn line_of(text: &str, value: &str) -> Option<usize> {
    let at = text.find(value).filter(|_| !value.is_empty())?;
    Some(text[..at].matches('\n').count() + 1)
}

/// Removes long values of the file from a text.
pub(crate) fn redacted(said: &str, text: &str) -> String {
    let mut said = said.to_owned();
    for value in long_texts(text) {
        said = said.replace(&value.escape_debug().to_string(), "…");
        said = said.replace(&value, "…");
    }
    said
}

/// The texts of the file that may be secrets, longest first.
fn long_texts(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(table) = toml::from_str::<toml::Table>(text) {
        collect(Value::Table(table), &mut found);
    }
    let plain = |c: char| c.is_ascii_lowercase() || c == '-';
    found.retain(|text| text.chars().count() > LONGEST_SHOWN && !text.chars().all(plain));
    found.sort_by_key(|text| std::cmp::Reverse(text.len()));
    found
}

fn collect(value: Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => {
            for value in values {
                collect(value, found);
            }
        }
        Value::Table(table) => {
            for (key, value) in table {
                found.push(key);
                collect(value, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_said_and_what_stands_there_is_not() {
        for (message, said) in [
            (
                "unknown field `presett`, expected one of `name`, `preset`",
                "unknown field `presett`, expected one of `name`, `preset`",
            ),
            (
                "unknown field `sk_live_51`, expected `name`",
                "unknown field …, expected `name`",
            ),
            (
                "invalid type: string \"hunter2\", expected usize",
                "invalid type: string …, expected usize",
            ),
            (
                "invalid type: string \"a\\\", expected hunter2\", expected usize",
                "invalid type: string …, expected usize",
            ),
            (
                "unknown variant `a`hunter2`, expected `b`",
                "unknown variant …, expected `b`",
            ),
            ("missing field `name`", "missing field `name`"),
            (
                "string values must be quoted",
                "string values must be quoted",
            ),
        ] {
            assert_eq!(without_value(message), said);
        }
    }

    #[test]
    fn the_key_before_a_value_is_its_field() {
        for (before, expected) in [
            ("a = 1\nmax_body = ", Some("max_body")),
            ("retry = { attempts = 3, waits = [\"1s\", ", Some("waits")),
            ("source.secret = ", Some("secret")),
            ("[forward]\n", None),
            ("waits = [\"hunter=", None),
            ("51_live = ", None),
        ] {
            assert_eq!(field(before), expected, "{before}");
        }
    }
}
