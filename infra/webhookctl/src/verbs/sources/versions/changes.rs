//! The differences between two sources files: which sources and which of their settings. The values
//! are not shown, because a secret may be in their place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;
use shared::sources::Config;
use toml::{Table, Value};

/// The name that stands for the settings outside of the sources.
const FILE: &str = "(file)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Added,
    Removed,
    Changed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Change {
    /// The name of the source, or `(file)` for settings outside of the sources.
    pub(super) source: String,
    #[serde(rename = "change")]
    pub(super) kind: Kind,
    /// The settings that differ, if the source is in both files.
    pub(super) settings: Vec<String>,
}

/// The differences, in the order of the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) all: Vec<Change>,
    from: String,
    to: String,
}

#[derive(Serialize)]
pub(super) struct Document {
    /// The version in force; `None` for the built-in file.
    version: Option<u64>,
    /// The hash of the file in force, and that of the other file.
    in_force: String,
    pub(super) hash: String,
    equal: bool,
    count: usize,
    changes: Vec<Change>,
}

impl Changes {
    /// Compares the file in force with another file. A file that is not TOML counts as empty.
    pub(super) fn between(old: &str, new: &str) -> Self {
        let (before, after) = (parts(old), parts(new));
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let all = names.into_iter().filter_map(|name| {
            let (kind, settings) = match (before.get(name), after.get(name)) {
                (Some(old), Some(new)) => (Kind::Changed, differing(old, new)),
                (None, Some(_)) => (Kind::Added, Vec::new()),
                _ => (Kind::Removed, Vec::new()),
            };
            (kind != Kind::Changed || !settings.is_empty()).then(|| Change {
                source: name.clone(),
                kind,
                settings,
            })
        });
        Self {
            all: all.collect(),
            from: Config::hash_of(old),
            to: Config::hash_of(new),
        }
    }

    /// Returns whether the files have the same text.
    pub(super) fn is_equal(&self) -> bool {
        self.from == self.to
    }

    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    pub(super) fn removed(&self) -> impl Iterator<Item = &str> {
        let removed = |change: &&Change| change.kind == Kind::Removed && change.source != FILE;
        let removed = self.all.iter().filter(removed);
        removed.map(|change| change.source.as_str())
    }

    /// Returns one line for each change.
    pub(super) fn text(&self) -> String {
        if self.all.is_empty() {
            return "  only comments or the layout differ\n".to_owned();
        }
        let mut text = String::new();
        for change in &self.all {
            let _ = match change.kind {
                Kind::Added => writeln!(text, "  + {}", change.source),
                Kind::Removed => writeln!(text, "  - {}", change.source),
                Kind::Changed => {
                    writeln!(
                        text,
                        "  ~ {}: {}",
                        change.source,
                        change.settings.join(", ")
                    )
                }
            };
        }
        text
    }

    pub(super) fn document(&self, version: Option<u64>) -> Document {
        Document {
            version,
            in_force: self.from.clone(),
            hash: self.to.clone(),
            equal: self.is_equal(),
            count: self.all.len(),
            changes: self.all.clone(),
        }
    }
}

/// Returns the settings of each source, and the settings outside of the sources. Sources without a
/// name are left out; no valid file has one.
fn parts(text: &str) -> BTreeMap<String, Table> {
    let mut file: Table = toml::from_str(text).unwrap_or_default();
    let sources = file.remove("source");
    let sources = sources.into_iter().filter_map(|sources| match sources {
        Value::Array(sources) => Some(sources),
        _ => None,
    });
    let named = sources.flatten().filter_map(|source| match source {
        Value::Table(source) => {
            let name = source.get("name")?.as_str()?.to_owned();
            Some((name, source))
        }
        _ => None,
    });
    let mut parts: BTreeMap<String, Table> = named.collect();
    parts.insert(FILE.to_owned(), file);
    parts
}

fn differing(old: &Table, new: &Table) -> Vec<String> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let keys = keys
        .into_iter()
        .filter(|key| old.get(*key) != new.get(*key));
    keys.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "schema = 1\n[forward]\nallow_hosts = [\"a.example\"]\n\
        [[source]]\nname = \"shop\"\npreset = \"shopify\"\nsecret = \"one\"\n\
        [[source]]\nname = \"code\"\npreset = \"github\"\n";

    #[test]
    fn each_source_that_differs_has_one_line() {
        let new = OLD
            .replace("a.example", "b.example")
            .replace("\"one\"", "\"sk_live_0123456789abcdef\"")
            .replace("\"code\"", "\"repo\"");
        let changes = Changes::between(OLD, &new);
        assert_eq!(
            changes.text(),
            "  ~ (file): forward\n  - code\n  + repo\n  ~ shop: secret\n"
        );
        assert_eq!(changes.removed().collect::<Vec<_>>(), ["code"]);
        assert!(!changes.is_equal());
        let json = serde_json::to_string(&changes.document(Some(3))).unwrap();
        assert!(!json.contains("sk_live"), "{json}");
    }

    #[test]
    fn a_comment_is_a_difference_without_a_change() {
        let changes = Changes::between(OLD, &format!("# ours\n{OLD}"));
        assert_eq!((changes.is_equal(), changes.count()), (false, 0));
        assert!(changes.text().contains("only comments"));
        assert!(Changes::between(OLD, OLD).is_equal());
    }
}
