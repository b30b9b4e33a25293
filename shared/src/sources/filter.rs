//! Reads the settings `types = ["invoice.*"]` and `where = [{ path = "$.data.object.status", equals
//! = "paid" }]`. They select the events to which an action applies.

use anyhow::{bail, ensure};
use serde::Deserialize;

use crate::base::json_path::{JsonPath, scalar};

/// A filter for events. An event matches if its type matches and every condition is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The patterns for the type. An empty list matches any type.
    types: Vec<Glob>,
    conditions: Vec<Condition>,
}

/// A pattern with at most one `*`, which matches any number of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob {
    head: String,
    /// The text after the `*`, if there is a `*`.
    tail: Option<String>,
}

/// A test of the values at a path. The test compares the values as text, so the number 1 is equal
/// to "1", but not to 1.0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    path: JsonPath,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// At least one value is in the list.
    In(Vec<String>),
    /// No value is in the list. The test also succeeds if there are no values.
    NotIn(Vec<String>),
    /// With `true`, the path must have a value other than null. With `false`, the path must have no
    /// such value.
    Exists(bool),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileCondition {
    path: String,
    equals: Option<toml::Value>,
    r#in: Option<Vec<toml::Value>>,
    not: Option<toml::Value>,
    exists: Option<bool>,
}

impl Filter {
    pub(super) fn checked(types: &[String], conditions: &[FileCondition]) -> anyhow::Result<Self> {
        Ok(Self {
            types: types
                .iter()
                .map(|text| Glob::parse(text))
                .collect::<anyhow::Result<_>>()?,
            conditions: conditions
                .iter()
                .map(FileCondition::checked)
                .collect::<anyhow::Result<_>>()?,
        })
    }

    /// Returns whether an event with this type and this body matches.
    pub fn matches(&self, kind: &str, body: &[u8]) -> bool {
        self.may_match(kind)
            && self
                .conditions
                .iter()
                .all(|condition| condition.holds(body))
    }

    /// Returns whether an event of this type can match. This function does not check the
    /// conditions, because they need the body.
    pub fn may_match(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|glob| glob.matches(kind))
    }
}

impl Glob {
    fn parse(text: &str) -> anyhow::Result<Self> {
        ensure!(
            !text.is_empty(),
            "types contains an empty type; to match any type, use \"*\""
        );
        let (head, tail) = match text.split_once('*') {
            Some((head, tail)) => (head, Some(tail.to_owned())),
            None => (text, None),
        };
        ensure!(
            !tail.as_deref().unwrap_or_default().contains('*'),
            "type {text:?} is invalid; use at most one \"*\""
        );
        Ok(Self {
            head: head.to_owned(),
            tail,
        })
    }

    fn matches(&self, text: &str) -> bool {
        match &self.tail {
            None => text == self.head,
            Some(tail) => text
                .strip_prefix(self.head.as_str())
                .is_some_and(|rest| rest.ends_with(tail.as_str())),
        }
    }
}

impl Condition {
    fn holds(&self, body: &[u8]) -> bool {
        // A body that is not JSON has no values.
        let values = self.path.all(body).unwrap_or_default();
        let values: Vec<_> = values.into_iter().flatten().collect();
        let one_of = |wanted: &[String]| {
            let mut texts = values.iter().filter_map(|raw| scalar(raw).ok().flatten());
            texts.any(|text| wanted.contains(&text))
        };
        match &self.test {
            Test::In(wanted) => one_of(wanted),
            Test::NotIn(wanted) => !one_of(wanted),
            Test::Exists(wanted) => values.iter().any(|raw| raw.get() != "null") == *wanted,
        }
    }
}

impl FileCondition {
    fn checked(&self) -> anyhow::Result<Condition> {
        let path = path(&self.path)?;
        let mut tests = Vec::new();
        if let Some(value) = &self.equals {
            tests.push(Test::In(vec![plain(value)?]));
        }
        if let Some(values) = &self.r#in {
            ensure!(
                !values.is_empty(),
                "where {:?}: the list of in is empty; add at least one value",
                self.path
            );
            tests.push(Test::In(
                values.iter().map(plain).collect::<anyhow::Result<_>>()?,
            ));
        }
        match &self.not {
            Some(toml::Value::Array(values)) => {
                tests.push(Test::NotIn(
                    values.iter().map(plain).collect::<anyhow::Result<_>>()?,
                ));
            }
            Some(value) => tests.push(Test::NotIn(vec![plain(value)?])),
            None => {}
        }
        tests.extend(self.exists.map(Test::Exists));
        match <[Test; 1]>::try_from(tests) {
            Ok([test]) => Ok(Condition { path, test }),
            Err(_) => bail!(
                "where {:?}: set exactly one of equals, in, not and exists; write a second \
                 condition for a second test",
                self.path
            ),
        }
    }
}

/// Parses a path into the body, with or without the prefix `$.`.
pub(super) fn path(text: &str) -> anyhow::Result<JsonPath> {
    let bare = text.strip_prefix("$.").unwrap_or(text);
    JsonPath::try_from(bare.to_owned()).map_err(anyhow::Error::msg)
}

fn plain(value: &toml::Value) -> anyhow::Result<String> {
    Ok(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(truth) => truth.to_string(),
        other => bail!(
            "cannot compare with a value of type {}; use a string, a number or a boolean",
            other.type_str()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        types: Vec<String>,
        #[serde(default, rename = "where")]
        conditions: Vec<FileCondition>,
    }

    fn filter(text: &str) -> Filter {
        let file: File = toml::from_str(text).unwrap();
        Filter::checked(&file.types, &file.conditions).unwrap()
    }

    #[test]
    fn a_type_matches_with_a_star_anywhere() {
        for (glob, matching, other) in [
            ("invoice.*", "invoice.paid", "invoices.paid"),
            ("*.paid", "invoice.paid", "invoice.paid.twice"),
            ("invoice.*.done", "invoice.x.done", "invoice.done"),
            ("push", "push", "pushed"),
            ("*", "", "\0"),
        ] {
            let filter = filter(&format!("types = ['nothing', {glob:?}]"));
            assert!(filter.matches(matching, b""), "{glob}");
            assert_eq!(filter.matches(other, b""), glob == "*", "{glob}");
        }
        // Head and tail do not overlap.
        assert!(!filter("types = ['ab*ba']").matches("aba", b""));
        assert!(Filter::default().matches("anything", b"not json"));
    }

    #[test]
    fn conditions_look_into_the_body() {
        let body = br#"{"a":{"s":"paid","n":1,"t":true,"z":null},"l":[{"k":"x"},{"k":"y"}]}"#;
        for (condition, holds) in [
            ("path = '$.a.s', equals = 'paid'", true),
            ("path = 'a.s', equals = 'void'", false),
            ("path = 'a.s', in = ['void', 'paid']", true),
            ("path = 'a.s', not = 'void'", true),
            ("path = 'a.s', not = ['void', 'paid']", false),
            ("path = 'a.none', not = 'void'", true),
            ("path = 'a.n', equals = 1", true),
            ("path = 'a.n', equals = 1.5", false),
            ("path = 'a.t', equals = true", true),
            ("path = 'a.s', exists = true", true),
            ("path = 'a', exists = true", true),
            ("path = 'a', equals = 'paid'", false),
            ("path = 'a.z', exists = true", false),
            ("path = 'a.z', exists = false", true),
            ("path = 'l[*].k', equals = 'y'", true),
            ("path = 'l[*].k', not = 'y'", false),
        ] {
            let one = filter(&format!("where = [{{ {condition} }}]"));
            assert_eq!(one.matches("", body), holds, "{condition}");
        }
        let both = "where = [{ path = 'a.s', equals = 'paid' }, { path = 'a.n', equals = 2 }]";
        assert!(!filter(both).matches("", body));
        assert!(filter("where = [{ path = 'a', exists = false }]").matches("", b"\xff"));
        assert!(!filter("where = [{ path = 'a', equals = '1' }]").matches("", b"a=1"));
    }

    #[test]
    fn a_condition_has_one_test() {
        for text in [
            "path = 'a'",
            "path = 'a', equals = 1, exists = true",
            "path = 'a..b', equals = 1",
            "path = 'a', equals = [1]",
            "path = 'a', in = []",
        ] {
            let file: File = toml::from_str(&format!("where = [{{ {text} }}]")).unwrap();
            assert!(Filter::checked(&[], &file.conditions).is_err(), "{text}");
        }
    }
}
