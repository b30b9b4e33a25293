//! Resolves parameter names that refer to Secrets Manager.

use serde_json::{Value, json};

use super::{Answer, Refusal};
use crate::secrets_manager::{Found, Missing, Store};

const PREFIX: &str = "/aws/reference/secretsmanager/";

/// Returns the response for the reference `name`, or `None` if it is the name of a parameter.
pub(super) fn parameter(secrets: &Store, name: &str, decrypted: bool) -> Option<Answer> {
    let reference = name.strip_prefix(PREFIX)?;
    Some(resolved(secrets, reference, decrypted))
}

fn resolved(secrets: &Store, reference: &str, decrypted: bool) -> Answer {
    let (id, selector) = match reference.split_once(':') {
        None => (reference, None),
        Some((id, selector)) if !selector.is_empty() && !selector.contains(':') => {
            (id, Some(selector))
        }
        Some(_) => {
            return Err(invalid(
                "Invalid parameter name. Please use correct syntax for referencing a version/label  \
                 <name>:<version/label>",
            ));
        }
    };
    if !decrypted {
        return Err(invalid(
            "WithDecryption flag must be True for retrieving a Secret Manager secret.",
        ));
    }
    match secrets.find(id, selector.unwrap_or("AWSCURRENT")) {
        Ok(found) => Ok(shown(id, selector, &found)),
        Err(Missing::Deleted) => Err(invalid("Invalid Request to Secrets Manager")),
        // AWS returns exactly this message, including `null`.
        Err(Missing::Nothing) => {
            let selected = selector.map_or("null".to_owned(), |selector| format!(":{selector}"));
            let said = format!(
                "An error occurred (ParameterNotFound) when referencing Secrets Manager: Secret \
                 aws/reference/secretsmanager/{id}{selected} not found."
            );
            Err(Refusal("ParameterNotFound", said))
        }
    }
}

fn shown(id: &str, selector: Option<&str>, found: &Found) -> Value {
    let origin = json!({
        "ARN": found.arn,
        "name": id,
        "versionId": found.version_id,
        "secretString": found.value,
        "versionStages": found.stages,
    });
    let mut parameter = json!({
        "Name": format!("{PREFIX}{id}"),
        "Type": "SecureString",
        "Value": found.value,
        "Version": 0,
        "LastModifiedDate": found.created_ms / 1000,
        "ARN": found.arn,
        "SourceResult": origin.to_string(),
    });
    if let Some(selector) = selector {
        parameter["Selector"] = json!(format!(":{selector}"));
    }
    parameter
}

fn invalid(said: &str) -> Refusal {
    Refusal("ValidationException", said.to_owned())
}
