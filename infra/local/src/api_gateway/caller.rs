//! The caller of a route with IAM authorization.
//!
//! The local gateway does not verify signatures: every caller is on this machine. The access key id
//! of a signed request is the name of the caller's role, so that two workers can have two roles.

use serde_json::{Value, json};

use crate::names::{ACCESS_KEY, ACCOUNT, LOCAL_WORKER};

/// The longest name of a role.
const LONGEST: usize = 64;

/// Returns the part `requestContext.authorizer.iam` of an event.
pub(super) fn iam(authorization: Option<&str>) -> Value {
    let key = authorization.and_then(access_key).unwrap_or(ACCESS_KEY);
    let role = if key == ACCESS_KEY { LOCAL_WORKER } else { key };
    json!({
        "accessKey": key,
        "accountId": ACCOUNT,
        "callerId": format!("{role}:local"),
        "cognitoIdentity": null,
        "principalOrgId": null,
        "userArn": format!("arn:aws:sts::{ACCOUNT}:assumed-role/{role}/local"),
        "userId": format!("{role}:local"),
    })
}

/// Returns the access key id in the credential scope of a signature.
fn access_key(authorization: &str) -> Option<&str> {
    let (_, scope) = authorization.split_once("Credential=")?;
    let (key, _) = scope.split_once('/')?;
    let in_role = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
    (!key.is_empty() && key.len() <= LONGEST && key.chars().all(in_role)).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_key_is_the_role_of_the_caller() {
        let signed = |key: &str| {
            format!(
                "AWS4-HMAC-SHA256 Credential={key}/20261128/us-east-1/execute-api/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature=0a1b"
            )
        };
        let arn = |authorization: Option<&str>| iam(authorization)["userArn"].clone();
        let role = |name: &str| format!("arn:aws:sts::000000000000:assumed-role/{name}/local");
        assert_eq!(
            arn(Some(&signed("triage-agent"))),
            role("triage-agent").as_str()
        );
        let unnamed = role(LOCAL_WORKER);
        for other in [
            None,
            Some(signed(ACCESS_KEY)),
            Some(signed("")),
            Some(signed("a b")),
            Some(signed("ä")),
            Some(signed(&"a".repeat(65))),
            Some("Bearer token".to_owned()),
            Some("Credential=".to_owned()),
        ] {
            assert_eq!(arn(other.as_deref()), unnamed.as_str(), "{other:?}");
        }
    }
}
