//! IAM policies, with the subset of features that the template uses.
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html>

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::call::Call;

/// A statement with the effect `Allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    sid: String,
    actions: Vec<String>,
    /// The patterns of ARNs.
    resources: Vec<String>,
    conditions: Vec<Condition>,
}

/// A condition, such as `ForAllValues:StringLike: { dynamodb:LeadingKeys: [E#*] }`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    /// Whether the condition has `ForAllValues`: it is true if every value matches, or if there are
    /// no values.
    for_all: bool,
    if_exists: bool,
    operator: Operator,
    key: String,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equals,
    Like,
    Null,
}

impl Statement {
    /// Reads a statement. Fails for a feature that the local stack does not support, because a
    /// skipped feature would change the permissions.
    pub(crate) fn read(statement: &Value) -> anyhow::Result<Self> {
        let sid = statement["Sid"].as_str().unwrap_or_default().to_owned();
        if statement["Effect"] != "Allow" {
            bail!(
                "the statement {sid:?} does not have the effect \"Allow\"; the local stack \
                 supports no other effect"
            );
        }
        let mut conditions = Vec::new();
        let given = statement.get("Condition").and_then(Value::as_object);
        for (operator, keys) in given.into_iter().flatten() {
            for (key, values) in keys.as_object().into_iter().flatten() {
                let condition = Condition::read(operator, key, values);
                conditions.push(condition.with_context(|| format!("the statement {sid:?}"))?);
            }
        }
        Ok(Self {
            actions: texts(&statement["Action"]),
            resources: texts(&statement["Resource"]),
            conditions,
            sid,
        })
    }

    /// Returns the parts of the statement that permit a call, or `None` if the statement does not
    /// permit it.
    pub(super) fn permits(&self, call: &Call) -> Option<Vec<String>> {
        let action = self.actions.iter().find(|it| like(it, &call.action))?;
        let resource = self.resources.iter().find(|it| like(it, &call.on))?;
        if !self.conditions.iter().all(|it| it.holds(call)) {
            return None;
        }
        let mut used = vec![self.part("action", action), self.part("resource", resource)];
        for condition in self.patterns() {
            let values = call.values(&condition.key);
            let matched = condition.values.iter();
            let matched = matched.filter(|it| values.iter().any(|value| like(it, value)));
            used.extend(matched.map(|it| self.part(&condition.key, it)));
        }
        Some(used)
    }

    /// Returns all parts: each action, each resource and each pattern of a condition key.
    pub(super) fn parts(&self) -> BTreeSet<String> {
        let actions = self.actions.iter().map(|it| self.part("action", it));
        let resources = self.resources.iter().map(|it| self.part("resource", it));
        let keys = self.patterns().flat_map(|condition| {
            let values = condition.values.iter();
            values.map(|it| self.part(&condition.key, it))
        });
        actions.chain(resources).chain(keys).collect()
    }

    fn patterns(&self) -> impl Iterator<Item = &Condition> {
        let all = self.conditions.iter();
        all.filter(|condition| condition.operator == Operator::Like)
    }

    fn part(&self, what: &str, value: &str) -> String {
        format!("{} {what} {value}", self.sid)
    }
}

impl Condition {
    fn read(operator: &str, key: &str, values: &Value) -> anyhow::Result<Self> {
        let (for_all, name) = match operator.strip_prefix("ForAllValues:") {
            Some(name) => (true, name),
            None => (false, operator),
        };
        let (if_exists, name) = match name.strip_suffix("IfExists") {
            Some(name) => (true, name),
            None => (false, name),
        };
        let operator = match name {
            "StringEquals" => Operator::Equals,
            "StringLike" => Operator::Like,
            "Null" => Operator::Null,
            _ => bail!("the local stack does not support the condition {operator}"),
        };
        Ok(Self {
            for_all,
            if_exists,
            operator,
            key: key.to_owned(),
            values: texts(values),
        })
    }

    fn holds(&self, call: &Call) -> bool {
        let found = call.values(&self.key);
        let fits = |value: &String| match self.operator {
            Operator::Like => self.values.iter().any(|it| like(it, value)),
            _ => self.values.contains(value),
        };
        match self.operator {
            Operator::Null => self
                .values
                .iter()
                .any(|it| (it == "true") == found.is_empty()),
            _ if found.is_empty() => self.for_all || self.if_exists,
            _ if self.for_all => found.iter().all(fits),
            _ => found.iter().any(fits),
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match value {
        Value::Array(all) => all.iter().map(text).collect(),
        Value::Null => Vec::new(),
        one => vec![text(one)],
    }
}

/// Returns whether a text matches a pattern. `*` matches any text, and `?` any character.
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The position of the last star, and the end of the text that it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn statement(condition: &Value) -> Statement {
        Statement::read(&json!({
            "Sid": "One", "Effect": "Allow", "Action": ["dynamodb:UpdateItem"],
            "Resource": "arn:aws:dynamodb:*:*:table/t", "Condition": condition,
        }))
        .unwrap()
    }

    fn call(values: &[(&str, &[&str])]) -> Call {
        let on = "arn:aws:dynamodb:us-east-1:000000000000:table/t".to_owned();
        let mut call = Call::new("dynamodb:UpdateItem", on);
        for (key, values) in values {
            let values = values.iter().map(|value| (*value).to_owned());
            call.context.push(((*key).to_owned(), values.collect()));
        }
        call
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [
            ("E#*", "E#a#b"),
            ("*", ""),
            ("a*c", "abbc"),
            ("a?c", "abc"),
            ("SYS", "SYS"),
        ] {
            assert!(like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("E#*", "Q#a"),
            ("a*c", "abd"),
            ("a?c", "ac"),
            ("SYS", "SYSTEM"),
        ] {
            assert!(!like(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_condition_holds_for_each_value_of_its_key() {
        let keys = statement(&json!({
            "ForAllValues:StringLike": { "dynamodb:LeadingKeys": ["E#*", "O#*"] },
            "Null": { "dynamodb:LeadingKeys": "false" },
        }));
        let with = |values: &[&str]| keys.permits(&call(&[("dynamodb:LeadingKeys", values)]));
        assert!(with(&["E#1"]).is_some() && with(&["E#1", "O#2"]).is_some());
        assert!(with(&["E#1", "SYS"]).is_none());
        assert!(with(&[]).is_none(), "a request without a key");
        let returned =
            statement(&json!({ "StringEqualsIfExists": { "dynamodb:ReturnValues": "NONE" } }));
        assert!(returned.permits(&call(&[])).is_some());
        let of = |value| returned.permits(&call(&[("dynamodb:ReturnValues", &[value])]));
        assert!(of("NONE").is_some() && of("ALL_NEW").is_none());
    }

    #[test]
    fn a_permitted_call_names_what_it_used() {
        let keys = json!({ "ForAllValues:StringLike": { "dynamodb:LeadingKeys": ["E#*", "O#*"] } });
        let statement = statement(&keys);
        let used = statement.permits(&call(&[("dynamodb:LeadingKeys", &["E#1"])]));
        let unused: Vec<String> = statement
            .parts()
            .into_iter()
            .filter(|part| !used.as_ref().unwrap().contains(part))
            .collect();
        assert_eq!(unused, ["One dynamodb:LeadingKeys O#*"]);
    }

    #[test]
    fn what_cannot_be_judged_is_refused() {
        for wrong in [
            json!({ "Effect": "Deny", "Action": "a:B", "Resource": "*" }),
            json!({ "Effect": "Allow", "Action": "a:B", "Resource": "*",
                "Condition": { "NumericLessThan": { "a:b": "1" } } }),
        ] {
            assert!(Statement::read(&wrong).is_err(), "{wrong}");
        }
    }
}
