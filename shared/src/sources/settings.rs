//! The settings of a sources file, for `infra/docs/configuration.md` and for error messages.
//!
//! The types of the settings are in the modules that read them. `tests.rs` compares this table with
//! these types: the names of the settings, the defaults, and the examples.

mod action;
mod policy;
mod root;
mod source;
mod tables;

use crate::base::setting_path::Step;

/// A setting of a sources file.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The path, such as `source[].retry.attempts`. `[]` stands for an element of an array.
    pub path: &'static str,
    pub kind: Kind,
    pub absent: Absent,
    /// What the setting means, in complete sentences.
    pub meaning: &'static str,
    /// A value in TOML. `None` for a table, and for values that are too long.
    pub example: Option<&'static str>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    String,
    /// A string such as `30s`, `5m` or `2h`.
    Duration,
    Integer,
    Number,
    Boolean,
    /// One of these words.
    Word(&'static [&'static str]),
    Strings,
    Durations,
    /// A table with names that the file chooses. The values are strings.
    Map,
    Table,
    /// An array of tables.
    Tables,
    /// Another type.
    Other(&'static str),
}

/// What applies if a setting is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The file is invalid.
    Required,
    /// This value in TOML applies.
    Is(&'static str),
    /// The text says what applies.
    Means(&'static str),
}

impl Kind {
    /// Returns the name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::String | Self::Word(_) => "string",
            Self::Duration => "duration",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Strings => "list of strings",
            Self::Durations => "list of durations",
            Self::Map => "table of strings",
            Self::Table => "table",
            Self::Tables => "array of tables",
            Self::Other(name) => name,
        }
    }
}

impl Setting {
    /// Returns the name of the setting in its table.
    pub fn key(&self) -> &'static str {
        let (_, key) = self.path.rsplit_once('.').unwrap_or(("", self.path));
        key
    }

    /// Returns the path of the table that contains the setting.
    pub fn table(&self) -> &'static str {
        let (table, _) = self.path.rsplit_once('.').unwrap_or(("", ""));
        table
    }
}

/// Returns all settings. Those of a table are together.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    [
        root::SETTINGS,
        source::SETTINGS,
        tables::SETTINGS,
        action::SETTINGS,
        policy::SETTINGS,
    ]
    .into_iter()
    .flatten()
}

/// Returns the setting at a path of a file.
pub fn at(path: &[Step]) -> Option<&'static Setting> {
    find(&pattern(path))
}

/// Returns the setting with this path.
pub fn find(path: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.path == path)
}

/// Returns the path with `[]` for each index.
pub fn pattern(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(_) | Step::Named(_) => text.push_str("[]"),
            Step::File => text.clear(),
        }
    }
    text
}

const fn setting(
    path: &'static str,
    kind: Kind,
    absent: Absent,
    meaning: &'static str,
    example: &'static str,
) -> Setting {
    Setting {
        path,
        kind,
        absent,
        meaning,
        example: Some(example),
    }
}

/// A table, or a setting whose values are too long for an example.
const fn table(path: &'static str, kind: Kind, absent: Absent, meaning: &'static str) -> Setting {
    Setting {
        path,
        kind,
        absent,
        meaning,
        example: None,
    }
}

#[cfg(test)]
mod tests;
