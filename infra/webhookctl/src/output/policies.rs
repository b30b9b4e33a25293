//! Finds the policies in `infra/policies` that allow a denied action.

use serde_json::Value;

use crate::glob;

/// The policies, in order of increasing permissions.
const POLICIES: [(&str, &str); 5] = [
    (
        "infra/policies/viewer.json",
        include_str!("../../../policies/viewer.json"),
    ),
    (
        "infra/policies/body-reader.json",
        include_str!("../../../policies/body-reader.json"),
    ),
    (
        "infra/policies/operator.json",
        include_str!("../../../policies/operator.json"),
    ),
    (
        "infra/policies/secret-admin.json",
        include_str!("../../../policies/secret-admin.json"),
    ),
    (
        "infra/policies/secrets-manager.json",
        include_str!("../../../policies/secrets-manager.json"),
    ),
];

/// Returns the files that allow an action on the resource. If the resource is unknown, any resource
/// counts. A file can allow only some items of a table, but the AWS error does not name the item.
pub(super) fn allowing(action: &str, resource: Option<&str>) -> Vec<&'static str> {
    let allows = |text: &str| {
        let policy: Value = serde_json::from_str(text).unwrap_or_default();
        listed(&policy["Statement"]).into_iter().any(|statement| {
            let actions = listed(&statement["Action"]);
            let resources = listed(&statement["Resource"]);
            actions.into_iter().any(|its| its == action)
                && resources.into_iter().any(|its| {
                    let pattern = its.as_str().unwrap_or_default();
                    resource.is_none_or(|resource| fits(pattern, resource))
                })
        })
    };
    let found = POLICIES.iter().filter(|(_, text)| allows(text));
    found.map(|(file, _)| *file).collect()
}

/// IAM accepts a single value in place of a list with one value.
fn listed(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    }
}

/// Returns whether an ARN matches a pattern with `${…}` and `*`.
fn fits(pattern: &str, arn: &str) -> bool {
    let mut starred = String::new();
    let mut rest = pattern;
    while let Some((before, named)) = rest.split_once("${") {
        starred += before;
        starred.push('*');
        rest = named.split_once('}').map_or("", |(_, behind)| behind);
    }
    starred += rest;
    // A name contains no slash. The pattern of a table must not match the ARN of its index.
    let slashes = |text: &str| text.matches('/').count();
    (pattern.contains('*') || slashes(pattern) == slashes(arn)) && glob::fits(&starred, arn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(action: &str, resource: &str) -> String {
        let arn = format!("arn:aws:{resource}");
        let found = allowing(action, Some(&arn));
        found.join(" ").replace("infra/policies/", "")
    }

    #[test]
    fn the_policy_that_allows_it_is_named() {
        let (table, queue) = (
            "dynamodb:eu-west-1:123456789012:table/mitt-prod",
            "sqs:eu-west-1:123456789012:mitt-WorkQueue-1",
        );
        let index = format!("{table}/index/time");
        for (action, resource, expected) in [
            ("dynamodb:Query", index.as_str(), "viewer.json"),
            ("dynamodb:Query", table, "viewer.json operator.json"),
            ("dynamodb:PutItem", table, "body-reader.json operator.json"),
            ("dynamodb:UpdateItem", table, "operator.json"),
            ("dynamodb:UpdateItem", index.as_str(), ""),
            ("sqs:SendMessage", queue, "operator.json"),
            ("s3:GetObject", "s3:::bodies/a/b", "body-reader.json"),
            (
                "ssm:PutParameter",
                "ssm:eu-west-1:123456789012:parameter/mitt/ingress/code/current",
                "secret-admin.json",
            ),
            (
                "secretsmanager:PutSecretValue",
                "secretsmanager:eu-west-1:123456789012:secret:prod/webhooks/code-1a2b3c",
                "secrets-manager.json",
            ),
            ("kms:Decrypt", "kms:eu-west-1:123456789012:key/1", ""),
        ] {
            assert_eq!(names(action, resource), expected, "{action} on {resource}");
        }
    }

    #[test]
    fn each_action_of_each_policy_is_found() {
        let mut found = 0;
        for (file, text) in POLICIES {
            let policy: Value = serde_json::from_str(text).unwrap();
            for statement in listed(&policy["Statement"]) {
                for action in listed(&statement["Action"]) {
                    let action = action.as_str().unwrap();
                    assert!(allowing(action, None).contains(&file), "{action}");
                    found += 1;
                }
            }
        }
        assert!(found > 20, "only {found} actions");
    }
}
