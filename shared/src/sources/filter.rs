//! Reads the settings `types = ["invoice.*"]` and `where = [{ path = "$.data.object.status", equals
//! = "paid" }]`. They select the events to which an action applies.
//!
//! A condition can also test a header, a query parameter or the account of the request.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail, ensure};
use serde::Deserialize;

use crate::base::json_path::{JsonPath, scalar};
use crate::base::setting_path::At as _;
use crate::webhook::context::{ContextPolicy, RequestContext};
use crate::webhook::envelope::form_decode;

/// A filter for events. An event matches if its type matches and every condition is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The patterns for the type. An empty list matches any type.
    types: Vec<Glob>,
    conditions: Vec<Condition>,
}

/// A pattern with at most one `*`, which matches any number of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    head: String,
    /// The text after the `*`, if there is a `*`.
    tail: Option<String>,
}

/// The values that the conditions of a filter test.
#[derive(Clone, Copy)]
pub struct Facts<'e> {
    pub kind: &'e str,
    pub body: &'e [u8],
    pub account: Option<&'e str>,
    /// The request of the event, if it is stored.
    pub request: Option<&'e RequestContext>,
    /// The headers of the row. The filter tests them if the request is not stored.
    pub headers: &'e BTreeMap<String, String>,
}

/// A test of the values at one place. The test compares the values as text, so the number 1 is equal
/// to "1", but not to 1.0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    of: Of,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// A path in the body.
    Path(JsonPath),
    /// A header, in lower case.
    Header(String),
    /// A query parameter.
    Query(String),
    Account,
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
    path: Option<String>,
    header: Option<String>,
    query: Option<String>,
    /// One account, or a list of accounts.
    account: Option<toml::Value>,
    equals: Option<toml::Value>,
    r#in: Option<Vec<toml::Value>>,
    not: Option<toml::Value>,
    exists: Option<bool>,
}

impl Filter {
    pub(super) fn checked(types: &[String], conditions: &[FileCondition]) -> anyhow::Result<Self> {
        let types = types.iter().enumerate();
        let types = types.map(|(index, text)| Glob::parse(text).at(index));
        let types = types.collect::<anyhow::Result<_>>().at("types")?;
        let conditions = conditions.iter().enumerate();
        let conditions = conditions.map(|(index, condition)| condition.checked().at(index));
        let conditions = conditions.collect::<anyhow::Result<_>>().at("where")?;
        Ok(Self { types, conditions })
    }

    /// Returns whether an object without a type and without a request matches.
    pub fn matches_object(&self, json: &[u8]) -> bool {
        self.matches(Facts {
            kind: "",
            body: json,
            account: None,
            request: None,
            headers: &BTreeMap::new(),
        })
    }

    /// Returns whether an event matches.
    pub fn matches(&self, facts: Facts<'_>) -> bool {
        self.may_match(facts.kind)
            && self
                .conditions
                .iter()
                .all(|condition| condition.holds(facts))
    }

    /// Returns the path that an event of these types should have and lacks, if nothing else decides
    /// whether the event matches. The type of the event must match a pattern other than `*`:
    /// without a type, the condition itself may select the events that have the path. `null` and
    /// an empty array are values, and a second condition with `exists` marks a path as optional.
    /// `matched` is the result of [`matches`](Self::matches): an event that matches can lack only
    /// the path of a condition that excludes values.
    pub fn missing_path(&self, facts: Facts<'_>, matched: bool) -> Option<&JsonPath> {
        let names_type = |glob: &Glob| !glob.is_any() && glob.matches(facts.kind);
        let excludes = |condition: &Condition| matches!(condition.test, Test::NotIn(_));
        if !self.types.iter().any(names_type) || matched && !self.conditions.iter().any(excludes) {
            return None;
        }
        let mut missing = None;
        for condition in &self.conditions {
            match condition.unusable(facts.body) {
                Some(path) if !self.is_optional(path) => missing = missing.or(Some(path)),
                _ if condition.holds(facts) => {}
                _ => return None,
            }
        }
        missing
    }

    /// Returns whether a condition tests if the path exists.
    fn is_optional(&self, path: &JsonPath) -> bool {
        self.conditions.iter().any(|condition| {
            matches!(condition.test, Test::Exists(_))
                && matches!(&condition.of, Of::Path(of) if of == path)
        })
    }

    /// Returns what the event lacks for a test, if no condition is false. A condition counts as true
    /// if the body has no value that it can compare, and a type counts as true if the event has
    /// none. `null` is not a value here.
    pub(super) fn lacks(&self, facts: Facts<'_>) -> Option<Vec<String>> {
        let mut lacks = Vec::new();
        if !self.may_match(facts.kind) {
            if !facts.kind.is_empty() {
                return None;
            }
            lacks.push("the event has no type".to_owned());
        }
        for condition in &self.conditions {
            match condition.lacking(facts.body) {
                Some(path) => lacks.push(format!("{path} is missing")),
                None if condition.holds(facts) => {}
                None => return None,
            }
        }
        Some(lacks)
    }

    /// Returns the paths in the body that the conditions test.
    pub(super) fn paths(&self) -> impl Iterator<Item = &JsonPath> {
        self.conditions
            .iter()
            .filter_map(|condition| match &condition.of {
                Of::Path(path) => Some(path),
                Of::Header(_) | Of::Query(_) | Of::Account => None,
            })
    }

    /// Returns whether the filter does not match every event.
    pub(super) fn is_set(&self) -> bool {
        !self.types.is_empty() || self.has_conditions()
    }

    /// Whether every condition tests the body.
    pub(super) fn tests_only_the_body(&self) -> bool {
        let of_body = |condition: &Condition| matches!(condition.of, Of::Path(_));
        self.conditions.iter().all(of_body)
    }

    /// Rejects a condition on a part of the request that the source never stores, because it would
    /// never match.
    pub(super) fn check_stored(&self, policy: &ContextPolicy) -> anyhow::Result<()> {
        for condition in &self.conditions {
            match &condition.of {
                Of::Header(name) => ensure!(
                    policy.can_keep(name),
                    "where {name:?}: the source does not store this header; see [source.context]"
                ),
                Of::Query(name) => ensure!(
                    policy.can_keep_parameter(name),
                    "where {name:?}: the source does not store this query parameter; see \
                     [source.context]"
                ),
                Of::Path(_) | Of::Account => {}
            }
        }
        Ok(())
    }

    /// Returns whether the filter tests anything but the type.
    pub fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
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
        Self::parse_as("type", text)
    }

    /// Parses a pattern. `what` is the word for errors.
    pub(super) fn parse_as(what: &str, text: &str) -> anyhow::Result<Self> {
        let (head, tail) = match text.split_once('*') {
            Some((head, tail)) => (head, Some(tail.to_owned())),
            None => (text, None),
        };
        ensure!(
            !tail.as_deref().unwrap_or_default().contains('*'),
            "{what} {text:?} is invalid; use at most one \"*\""
        );
        Ok(Self {
            head: head.to_owned(),
            tail,
        })
    }

    /// Returns whether the pattern is `*`.
    fn is_any(&self) -> bool {
        self.head.is_empty() && self.tail.as_deref() == Some("")
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match &self.tail {
            None => text == self.head,
            Some(tail) => text
                .strip_prefix(self.head.as_str())
                .is_some_and(|rest| rest.ends_with(tail.as_str())),
        }
    }
}

impl Condition {
    fn holds(&self, facts: Facts<'_>) -> bool {
        match &self.of {
            Of::Path(path) => self.holds_in_body(path, facts.body),
            Of::Header(name) => self.holds_for(&facts.values_of_header(name)),
            Of::Query(name) => self.holds_for(&facts.values_of_parameter(name)),
            Of::Account => {
                let account = facts.account.map(str::to_owned);
                self.holds_for(&Vec::from_iter(account))
            }
        }
    }

    /// Returns the path of the condition if the body has no value there that the test can compare.
    fn unusable(&self, body: &[u8]) -> Option<&JsonPath> {
        let Of::Path(path) = &self.of else {
            return None;
        };
        if matches!(self.test, Test::Exists(_)) {
            return None;
        }
        let values = path.all(body).unwrap_or_default();
        let mut values = values.into_iter().flatten();
        let is_usable = values.any(|raw| scalar(raw).is_ok());
        (!is_usable && !path.leads_to_nothing(body)).then_some(path)
    }

    /// Returns the path of the condition if the body does not show whether the condition is true:
    /// the body is not JSON, or the value at the path, or in one of the elements on the path, is
    /// missing or cannot be compared.
    fn lacking(&self, body: &[u8]) -> Option<&JsonPath> {
        let Of::Path(path) = &self.of else {
            return None;
        };
        let Ok(values) = path.all(body) else {
            return Some(path);
        };
        if matches!(self.test, Test::Exists(_)) {
            return None;
        }
        let texts = values.into_iter();
        let texts: Vec<Option<String>> = texts.map(|raw| scalar(raw?).ok().flatten()).collect();
        let is_listed = |text: &Option<String>| match &self.test {
            Test::In(wanted) | Test::NotIn(wanted) => {
                text.as_ref().is_some_and(|text| wanted.contains(text))
            }
            Test::Exists(_) => false,
        };
        // One listed value decides both tests.
        let is_known = texts.iter().any(is_listed) || !texts.is_empty() && !texts.contains(&None);
        (!is_known).then_some(path)
    }

    fn holds_for(&self, values: &[String]) -> bool {
        let one_of = |wanted: &[String]| values.iter().any(|value| wanted.contains(value));
        match &self.test {
            Test::In(wanted) => one_of(wanted),
            Test::NotIn(wanted) => !one_of(wanted),
            Test::Exists(wanted) => values.is_empty() != *wanted,
        }
    }

    fn holds_in_body(&self, path: &JsonPath, body: &[u8]) -> bool {
        // A body that is not JSON has no values.
        let values = path.all(body).unwrap_or_default();
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

impl Facts<'_> {
    fn values_of_header(&self, name: &str) -> Vec<String> {
        match self.request {
            Some(request) => request.headers.all(name).map(str::to_owned).collect(),
            None => self.headers.get(name).cloned().into_iter().collect(),
        }
    }

    fn values_of_parameter(&self, name: &str) -> Vec<String> {
        let query = self.request.and_then(|request| request.query.as_deref());
        let pairs = query.unwrap_or_default().split('&');
        let values = pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form_decode(key) == name).then(|| form_decode(value))
        });
        values.collect()
    }
}

impl FileCondition {
    /// Returns the path in the body as it is written.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// What the condition tests, and its name for errors. An account is compared with the values
    /// that are in the place of its name.
    fn of(&self) -> anyhow::Result<(Of, &str)> {
        let accounts = self.account.as_ref().map(|_| "account");
        let named = [&self.path, &self.header, &self.query];
        let named = named.map(Option::as_deref).into_iter().chain([accounts]);
        let [name] = <[&str; 1]>::try_from(named.flatten().collect::<Vec<_>>())
            .map_err(|_| anyhow!("where: set exactly one of path, header, query and account"))?;
        ensure!(!name.is_empty(), "where: the name is empty");
        let of = match (&self.path, &self.header, &self.query) {
            (Some(text), ..) => Of::Path(path(text)?),
            (_, Some(name), _) => Of::Header(name.to_ascii_lowercase()),
            (_, _, Some(name)) => Of::Query(name.clone()),
            (None, None, None) => Of::Account,
        };
        Ok((of, name))
    }

    fn checked(&self) -> anyhow::Result<Condition> {
        let (of, name) = self.of()?;
        let mut tests = Vec::new();
        if let Some(accounts) = &self.account {
            let accounts = match accounts {
                toml::Value::Array(accounts) => accounts.as_slice(),
                one => std::slice::from_ref(one),
            };
            ensure!(
                !accounts.is_empty(),
                "where account is empty; list at least one account"
            );
            let accounts = accounts.iter().map(plain);
            tests.push(Test::In(accounts.collect::<anyhow::Result<_>>()?));
        }
        if let Some(value) = &self.equals {
            tests.push(Test::In(vec![plain(value)?]));
        }
        if let Some(values) = &self.r#in {
            ensure!(
                !values.is_empty(),
                "where {name:?}: the list of in is empty; add at least one value"
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
            Ok([test]) => Ok(Condition { of, test }),
            Err(_) if self.account.is_some() => {
                bail!(
                    "where account: remove equals, in, not and exists; account = [\"…\"] is the test"
                )
            }
            Err(_) => bail!(
                "where {name:?}: set exactly one of equals, in, not and exists; write a second \
                 condition for a second test"
            ),
        }
    }
}

/// Parses a path into the body, with or without the prefix `$.`.
pub(super) fn path(text: &str) -> anyhow::Result<JsonPath> {
    let bare = text.strip_prefix("$.").unwrap_or(text);
    JsonPath::try_from(bare.to_owned()).map_err(anyhow::Error::msg)
}

pub(super) fn plain(value: &toml::Value) -> anyhow::Result<String> {
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
mod tests;
