//! Reads the names and ages of the stored secrets.

use std::time::Duration;

use shared::base::clock::UnixMillis;

use crate::doctor::{Known, Stored, Unknown};
use crate::target::Deployment;
use crate::verbs::doctor::probe::{asked, told};

/// The kinds of secrets that functions read.
const KINDS: [&str; 3] = ["ingress", "egress", "provider-api"];

/// Returns the names and ages of the secrets. AWS returns the values encrypted, and this function
/// drops them.
pub(super) async fn secrets(inbox: &Deployment, now: UnixMillis) -> Known<Vec<Stored>> {
    const ACTION: &str = "ssm:GetParametersByPath";
    let root = root(inbox).ok_or(Unknown::Unnamed("secrets_path"))?;
    let ssm = told(ACTION, inbox.ssm())?;
    let mut stored = Vec::new();
    let mut next = None;
    loop {
        let answer = ssm
            .get_parameters_by_path()
            .path(&root)
            .recursive(true)
            .with_decryption(false)
            .set_next_token(next)
            .send()
            .await;
        let answer = asked(ACTION, answer)?;
        for parameter in answer.parameters.unwrap_or_default() {
            let name = parameter.name.unwrap_or_default();
            let changed = parameter.last_modified_date;
            let changed = changed.and_then(|at| at.to_millis().ok()).map(UnixMillis);
            let age = changed.map_or(Duration::ZERO, |at| now.since(at));
            stored.extend(stored_as(&root, &name, age));
        }
        next = answer.next_token;
        if next.is_none() {
            break;
        }
    }
    stored.extend(managed(inbox, now).await?);
    Ok(stored)
}

/// Returns the secrets in Secrets Manager, one for each label of a version.
async fn managed(inbox: &Deployment, now: UnixMillis) -> Known<Vec<Stored>> {
    const ACTION: &str = "secretsmanager:ListSecretVersionIds";
    let names = inbox.config.managed_secrets();
    let mut stored = Vec::new();
    if names.is_empty() {
        return Ok(stored);
    }
    let prefix = inbox.names().secrets_manager_prefix.as_deref();
    let prefix = prefix.ok_or(Unknown::Unnamed("secrets_manager_prefix"))?;
    for name in names {
        let secret = told(ACTION, inbox.managed_secret(format!("{prefix}/{name}")))?;
        for version in told(ACTION, secret.versions().await)? {
            let age = version
                .created_at
                .map_or(Duration::ZERO, |at| now.since(at));
            stored.extend(version.stages.into_iter().map(|slot| Stored {
                kind: "ingress".to_owned(),
                name: name.clone(),
                slot,
                age,
            }));
        }
    }
    Ok(stored)
}

/// Parses `<root>/<kind>/<name>/<slot>`. Parameters of any other form are not secrets of a
/// function.
fn stored_as(root: &str, parameter: &str, age: Duration) -> Option<Stored> {
    let below = parameter.strip_prefix(root)?.strip_prefix('/')?;
    let (kind, rest) = below.split_once('/')?;
    let (name, slot) = rest.rsplit_once('/')?;
    KINDS.contains(&kind).then(|| Stored {
        kind: kind.to_owned(),
        name: name.to_owned(),
        slot: slot.to_owned(),
        age,
    })
}

/// Returns the parent path of all secrets of the deployment.
pub(super) fn root(inbox: &Deployment) -> Option<String> {
    let ingress = inbox.names().secrets("ingress")?;
    Some(ingress.strip_suffix("/ingress")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_a_secret_by_its_path() {
        let stored = |name: &str| stored_as("/mitt", name, Duration::ZERO);
        let secret = stored("/mitt/ingress/stripe-main/current").unwrap();
        assert_eq!(
            (
                secret.kind.as_str(),
                secret.name.as_str(),
                secret.slot.as_str()
            ),
            ("ingress", "stripe-main", "current")
        );
        for other in [
            "/mitt/names",
            "/mitt/test-keys/a/current",
            "/mitt-2/ingress/a/b",
        ] {
            assert!(stored(other).is_none(), "{other}");
        }
    }
}
