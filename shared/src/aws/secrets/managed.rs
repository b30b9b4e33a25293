//! Reads secrets from AWS Secrets Manager, in which a rotation moves labels between versions.
//!
//! Mitt reads the secrets through Parameter Store by reference, so the functions need no client of
//! Secrets Manager. It reads each version with a separate call. A call for several parameters would
//! report a parameter as missing if the function has no permission to read it.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context as _;
use aws_sdk_ssm::operation::get_parameter::GetParameterError;
use futures::future::try_join_all;
use serde::Deserialize;

use super::Secret;
use crate::base::clock::UnixMillis;

/// The prefix of a reference. A slash, the id of the secret, a colon and the label of a version
/// follow.
const REFERENCE: &str = "/aws/reference/secretsmanager";

/// The labels of live versions, and the names that Mitt uses for the labels.
const STAGES: [(&str, &str); 3] = [
    ("AWSCURRENT", "current"),
    ("AWSPENDING", "pending"),
    ("AWSPREVIOUS", "previous"),
];

/// The names of the secrets in Secrets Manager, and their prefix.
///
/// All clones share the names, because the configuration of the sources can change while the
/// process runs.
#[derive(Clone, Debug, Default)]
pub struct Managed {
    names: Arc<RwLock<Arc<BTreeSet<String>>>>,
    prefix: Option<String>,
}

impl Managed {
    /// If `prefix` is `None`, these secrets cannot be read.
    pub fn new(names: BTreeSet<String>, prefix: Option<&str>) -> Self {
        Self {
            names: Arc::new(RwLock::new(Arc::new(names))),
            prefix: prefix.map(str::to_owned),
        }
    }

    /// Replaces the names, also in all clones.
    pub fn follow(&self, names: BTreeSet<String>) {
        let mut current = self.names.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(names);
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names().contains(name)
    }

    pub(super) fn names(&self) -> Arc<BTreeSet<String>> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&names)
    }

    /// Returns the id of a secret in Secrets Manager. Fails without a prefix.
    pub(super) fn id(&self, name: &str) -> anyhow::Result<String> {
        let prefix = self.prefix.as_deref().with_context(|| {
            format!(
                "the secret {name} is in Secrets Manager, but the stack has no permission to read \
                 it; set the stack parameter SecretsManagerPrefix"
            )
        })?;
        Ok(format!("{prefix}/{name}"))
    }
}

/// Returns the part of a version id that labels show.
pub fn short(version_id: &str) -> String {
    let legal = version_id.chars().filter(char::is_ascii_alphanumeric);
    legal.take(8).collect()
}

/// Reads the live versions, with their creation times in Unix seconds.
pub(super) async fn read(
    ssm: &aws_sdk_ssm::Client,
    id: &str,
) -> anyhow::Result<Vec<(i64, Secret)>> {
    let [(stage, called), others @ ..] = STAGES;
    let current = version(ssm, id, stage, called).await?;
    // A rotation moves AWSPREVIOUS to the version that had AWSCURRENT. Because AWSPREVIOUS is read
    // after AWSCURRENT, that version is found even if a rotation happens between the reads.
    let others = others.map(|(stage, called)| version(ssm, id, stage, called));
    let others = try_join_all(others).await?;
    let mut found: Vec<(i64, Secret)> = Vec::new();
    for version in std::iter::once(current).chain(others).flatten() {
        // After a rotation, the version with AWSCURRENT can also keep the label AWSPENDING.
        let value = version.1.expose();
        if !found.iter().any(|(_, known)| known.expose() == value) {
            found.push(version);
        }
    }
    Ok(found)
}

async fn version(
    ssm: &aws_sdk_ssm::Client,
    id: &str,
    stage: &str,
    called: &str,
) -> anyhow::Result<Option<(i64, Secret)>> {
    let got = ssm
        .get_parameter()
        .name(format!("{REFERENCE}/{id}:{stage}"))
        .with_decryption(true)
        .send()
        .await;
    let got = match got {
        Err(error) if error.as_service_error().is_some_and(is_missing) => return Ok(None),
        got => got.with_context(|| format!("read {stage} of the secret {id}"))?,
    };
    let Some(parameter) = got.parameter() else {
        return Ok(None);
    };
    let value = parameter.value();
    let value = value.with_context(|| {
        format!("the value {stage} of the secret {id} is not text; store the secret as text")
    })?;
    let at = parameter
        .last_modified_date()
        .map_or(0, aws_smithy_types::DateTime::secs);
    // If there is no version id, the time identifies the version, because each version needs a
    // different label.
    let version = parameter.source_result().and_then(version_of);
    let version = version.unwrap_or_else(|| at.to_string());
    let since = (at > 0).then(|| UnixMillis(at * 1000));
    let secret = Secret::stored(label(&version, called), value, since);
    Ok(Some((at, secret)))
}

/// Returns whether no version has the label. The documentation does not define which of the two
/// errors this case returns.
/// <https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html>
fn is_missing(error: &GetParameterError) -> bool {
    error.is_parameter_not_found() || error.is_parameter_version_not_found()
}

/// Returns the label of a value, which consists of the version id and the stage. The version id
/// takes the place of the slot, because a version keeps its value but changes its stage.
fn label(version: &str, called: &str) -> String {
    format!("{version}.{called}")
}

/// Returns whether two labels name the same value. A slot contains several values over time, so its
/// labels have a number. A version always has the same value, so its stage does not matter.
pub fn is_same(one: &str, other: &str) -> bool {
    let called = |label: &str| STAGES.iter().any(|(_, called)| *called == label);
    match (one.rsplit_once('.'), other.rsplit_once('.')) {
        (Some((one, a)), Some((other, b))) if called(a) && called(b) => one == other,
        _ => one == other,
    }
}

/// Reads the version id from the response of Secrets Manager. The response contains the secret, so
/// this function never shows the response or a parse error.
fn version_of(source_result: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Origin {
        /// The documentation spells this field `VersionId`.
        #[serde(alias = "VersionId")]
        version_id: String,
    }
    let origin: Origin = serde_json::from_str(source_result).ok()?;
    Some(short(&origin.version_id)).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_by_the_beginning_of_its_id() {
        let said = r#"{"ARN":"arn:aws:x","name":"a/b","versionId":"1F2E3d4c-5b6a-4789-8abc-0123456789ab",
            "secretString":"{\"a\":1}","versionStages":["AWSCURRENT"],"createdDate":"Sep 28"}"#;
        assert_eq!(version_of(said).as_deref(), Some("1F2E3d4c"));
        let documented = said.replace("versionId", "VersionId");
        assert_eq!(version_of(&documented).as_deref(), Some("1F2E3d4c"));
        for other in ["", "{}", "[]", r#"{"versionId":"---"}"#] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_version_is_the_same_under_each_of_its_names() {
        assert!(is_same("1f2e3d4c.current", "1f2e3d4c.previous"));
        assert!(!is_same("1f2e3d4c.current", "9a8b7c6d.current"));
        assert!(is_same("current.1", "current.1"));
        assert!(
            !is_same("current.1", "current.2"),
            "the slot was overwritten"
        );
        assert!(!is_same("current", "previous"));
    }

    #[test]
    fn without_a_prefix_it_is_said_what_permits_it() {
        let names = || BTreeSet::from(["shop".to_owned()]);
        let managed = Managed::new(names(), Some("prod/webhooks"));
        assert_eq!(managed.id("shop").unwrap(), "prod/webhooks/shop");
        let error = Managed::new(names(), None).id("shop").unwrap_err();
        assert!(
            error.to_string().contains("SecretsManagerPrefix"),
            "{error}"
        );
    }
}
