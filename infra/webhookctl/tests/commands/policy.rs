//! Evaluates the policies of `infra/policies` as IAM does, for the features that they use: a single
//! statement allows a call, by exact actions, resources with `*`, and leading keys.
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html>

use std::collections::BTreeSet;

use local::names::{ACCOUNT, REGION};
use serde_json::{Value, json};

use crate::recorder::Call;
use crate::world::{PREFIX, World};

pub(crate) struct Policy {
    pub(crate) name: String,
    statements: Vec<Statement>,
}

struct Statement {
    sid: String,
    actions: Vec<String>,
    resources: Vec<String>,
    /// The patterns of the leading keys; `None` if the statement does not limit the keys.
    keys: Option<Vec<String>>,
}

impl Policy {
    /// Reads a policy, and fills in the names of this stack.
    pub(crate) fn read(name: &str, world: &World) -> Self {
        let path = format!("{}/../policies/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let text = filled(&text, world);
        assert!(
            !text.contains("${"),
            "{path} has a name that no step fills in"
        );
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["Version"], "2012-10-17");
        let statements = document["Statement"].as_array().unwrap();
        Self {
            name: name.to_owned(),
            statements: statements.iter().map(Statement::read).collect(),
        }
    }

    /// Returns the parts of the policy that allow a call. Returns none if the policy does not allow
    /// it.
    pub(crate) fn allows(&self, call: &Call) -> BTreeSet<String> {
        let found = self.statements.iter().flat_map(|s| s.allows(call));
        found.map(|part| format!("{}: {part}", self.name)).collect()
    }

    /// Returns all parts of the policy.
    pub(crate) fn parts(&self) -> BTreeSet<String> {
        let found = self.statements.iter().flat_map(Statement::parts);
        found.map(|part| format!("{}: {part}", self.name)).collect()
    }
}

/// Fills in the names that `infra/docs/permissions.md` describes.
fn filled(text: &str, world: &World) -> String {
    let secrets = world.stack.secrets_path("Catcher").unwrap();
    let queue = |id| {
        let url = world.stack.queue_url(id).unwrap();
        url.rsplit('/').next().unwrap()
    };
    let function = |id| world.stack.template().function(id).unwrap().name.as_str();
    [
        ("Partition", "aws"),
        ("Region", REGION),
        ("Account", ACCOUNT),
        ("Table", world.table()),
        ("BodyBucket", world.stack.bucket("Bodies").unwrap()),
        ("Queue", queue("WorkQueue")),
        ("BacklogQueue", queue("BacklogQueue")),
        ("LongQueue", queue("LongQueue")),
        ("WorkDeadLettersQueue", queue("WorkDeadLetters")),
        ("SpillQueue", queue("SpillQueue")),
        ("OpsDeadLettersQueue", queue("OpsDeadLetters")),
        ("SecretsPath", secrets.trim_end_matches("/ingress")),
        ("SecretsManagerPrefix", PREFIX),
        ("CatcherFunction", function("Catcher")),
        ("ProcessorFunction", function("Processor")),
        ("LongProcessorFunction", function("LongProcessor")),
        ("BackupSyncFunction", function("BackupSync")),
    ]
    .iter()
    .fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value)
    })
}

impl Statement {
    fn read(statement: &Value) -> Self {
        let keys = &statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"];
        if !keys.is_null() {
            // Without this condition, the policy would allow a request that has no key.
            let none = &statement["Condition"]["Null"]["dynamodb:LeadingKeys"];
            assert_eq!(none, &json!("false"), "{statement}");
        }
        assert_eq!(statement["Effect"], "Allow");
        let statement = Self {
            sid: statement["Sid"].as_str().unwrap().to_owned(),
            actions: listed(&statement["Action"]),
            resources: listed(&statement["Resource"]),
            keys: (!keys.is_null()).then(|| listed(keys)),
        };
        for action in &statement.actions {
            assert!(!action.contains('*'), "{action} is not exact");
        }
        // The policy allows each action only on the items that the action is used for.
        let one = statement.actions.len() == 1;
        assert!(statement.keys.is_none() || one, "{}", statement.sid);
        statement
    }

    fn allows(&self, call: &Call) -> Vec<String> {
        let action = self.actions.iter().find(|action| **action == call.action);
        let resource = self.resources.iter().find(|on| like(on, &call.on));
        let (Some(action), Some(resource)) = (action, resource) else {
            return Vec::new();
        };
        let mut parts = vec![
            format!("{} {action}", self.sid),
            format!("{} {resource}", self.sid),
        ];
        if let Some(patterns) = &self.keys {
            for key in &call.keys {
                match patterns.iter().find(|pattern| like(pattern, key)) {
                    Some(pattern) => parts.push(format!("{} {pattern}", self.sid)),
                    None => return Vec::new(),
                }
            }
        }
        parts
    }

    fn parts(&self) -> Vec<String> {
        let keys = self.keys.iter().flatten();
        let parts = self.actions.iter().chain(&self.resources).chain(keys);
        parts.map(|part| format!("{} {part}", self.sid)).collect()
    }
}

fn listed(value: &Value) -> Vec<String> {
    let texts = value.as_array().cloned().unwrap_or(vec![value.clone()]);
    let texts = texts.iter().map(|text| text.as_str().unwrap().to_owned());
    texts.collect()
}

/// Returns whether a pattern matches. `*` matches any text, and our policies use it only at the
/// end.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => {
            assert!(rest.is_empty(), "{pattern} has a star inside");
            // `parameter/path/*` also matches the path itself, as in SSM.
            text.starts_with(start) || text == start.trim_end_matches('/')
        }
    }
}
