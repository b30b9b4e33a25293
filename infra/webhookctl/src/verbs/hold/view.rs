//! What an operator sees of a hold.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::base::json_path::JsonPath;
use shared::inbox::ledger::{Hold, Row, WorkPlan};

use crate::output::time::{duration, rfc3339};
use crate::output::{safe, safe::capped};
use crate::target::Deployment;
use crate::verbs::inbox::read_body;

/// The largest value of the body that is shown, in characters.
const LONGEST_VALUE: usize = 200;

/// The most values that are shown of a path with `[*]`.
const MOST_VALUES: usize = 5;

/// A hold, with the values in the body that its rule read.
#[derive(Serialize)]
pub(super) struct Shown {
    pub id: String,
    /// The key of the event, as `source:event-id`.
    key: String,
    source: String,
    #[serde(rename = "type")]
    event_type: String,
    /// The id of the hold.
    pub hold: String,
    rule: String,
    /// The effect that is held. `*` stands for the event as a whole.
    effect: String,
    reason: String,
    /// What would be sent.
    summary: String,
    /// The hash of what would be sent.
    plan: String,
    /// What a worker outside of Lambda declared. `null` for an effect of an action.
    declared: Option<WorkPlan>,
    /// The body that would be sent.
    body_sha256: Option<String>,
    held_at: String,
    expires_at: String,
    read: Vec<Read>,
    #[serde(skip)]
    left: i64,
}

/// A path that the rule read, and its values.
#[derive(Serialize)]
struct Read {
    path: String,
    /// The values as they are in the body. Empty if the body has none.
    values: Vec<String>,
}

impl Shown {
    pub(super) async fn read(inbox: &Deployment, row: &Row, hold: &Hold) -> anyhow::Result<Self> {
        let read = if hold.read.is_empty() {
            Vec::new()
        } else {
            let body = read_body(inbox, row).await?;
            let paths = hold.read.iter();
            paths.map(|path| Read::of(path, &body)).collect()
        };
        let declared = match row.pull {
            Some(_) => {
                inbox
                    .ledger
                    .work_plan(row, &hold.effect, &hold.plan)
                    .await?
            }
            None => None,
        };
        let now = UnixMillis::now();
        Ok(Self {
            id: row.id().to_string(),
            key: row.key.to_string(),
            source: row.key.source().to_owned(),
            event_type: row.kind.clone(),
            hold: hold.id.clone(),
            rule: hold.rule.clone(),
            effect: hold.effect.clone(),
            reason: hold.why.clone(),
            summary: hold.summary.clone(),
            plan: hold.plan.clone(),
            declared,
            body_sha256: row.sha.map(|sha| sha.hex()),
            held_at: rfc3339(hold.at.0),
            expires_at: rfc3339(hold.expires.0),
            read,
            left: (hold.expires.0 - now.0) / 1000,
        })
    }

    /// Returns the lines for people. A value of the body can contain any character.
    pub(super) fn text(&self) -> String {
        let expires = match self.left {
            left if left > 0 => format!("{} (in {})", self.expires_at, duration(left)),
            _ => format!("{} (expired)", self.expires_at),
        };
        let effect = match self.effect.as_str() {
            "*" => "the event as a whole",
            effect => effect,
        };
        let mut lines = vec![
            ("event", self.key.clone()),
            ("type", self.event_type.clone()),
            ("hold", self.hold.clone()),
            ("effect", effect.to_owned()),
            ("rule", self.rule.clone()),
            ("reason", self.reason.clone()),
            ("would send", self.summary.clone()),
            ("plan", self.plan.clone()),
            ("expires", expires),
        ];
        for read in &self.read {
            let values = match read.values.as_slice() {
                [] => "missing".to_owned(),
                values => values.join(", "),
            };
            lines.push(("read", format!("{} = {values}", read.path)));
        }
        if let Some(plan) = &self.declared {
            lines.extend(of_plan(plan));
        }
        lines.iter().fold(String::new(), |text, (name, value)| {
            text + &format!("{name:<12}{}\n", safe(value))
        })
    }
}

/// Returns the lines of a worker's plan. Each of its characters is a part of what an operator approves,
/// so the plan is shown as a whole.
fn of_plan(plan: &WorkPlan) -> Vec<(&'static str, String)> {
    let field = |name, value: &Option<String>| Some((name, value.clone()?));
    let fields = [
        field("says", &plan.summary),
        field("target", &plan.target),
        field("amount", &plan.amount),
        field("sha256", &plan.sha256),
    ];
    let full = plan.full.as_deref().unwrap_or_default().lines();
    let full = full.enumerate().map(|(index, line)| {
        let name = if index == 0 { "full plan" } else { "" };
        (name, line.to_owned())
    });
    fields.into_iter().flatten().chain(full).collect()
}

impl Read {
    fn of(path: &str, body: &[u8]) -> Self {
        let parsed = JsonPath::parse(path);
        let values = parsed.and_then(|path| path.all(body).ok());
        let values = values.into_iter().flatten().flatten().take(MOST_VALUES);
        Self {
            path: path.to_owned(),
            values: values
                .map(|raw| capped(raw.get(), LONGEST_VALUE).into_owned())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_a_worker_is_shown_as_a_whole() {
        let plan = WorkPlan {
            summary: Some("refund".into()),
            amount: Some("74".into()),
            full: Some("first\nsecond".into()),
            ..WorkPlan::default()
        };
        let lines = [
            ("says", "refund"),
            ("amount", "74"),
            ("full plan", "first"),
            ("", "second"),
        ];
        let lines = lines.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(of_plan(&plan), lines);
        assert_eq!(of_plan(&WorkPlan::default()), []);
    }

    #[test]
    fn the_values_at_a_path_are_shown_as_they_are() {
        let of = |path, body: &str| Read::of(path, body.as_bytes()).values;
        assert_eq!(of("a.b", r#"{"a": {"b": "7400"}}"#), ["\"7400\""]);
        assert_eq!(
            of("a[*].b", r#"{"a": [{"b": 1}, {}, {"b": 2}]}"#),
            ["1", "2"]
        );
        assert!(of("a", "{}").is_empty() && of("a", "no json").is_empty());
    }
}
