//! Secrets that are kept in AWS Secrets Manager, where a rotation moves labels from version to
//! version.
//!
//! They are read through Parameter Store, which passes references on, so that the functions need
//! no further client. Each version is asked for by itself: one answer for several lists what may
//! not be read as if it were not there.

use std::collections::BTreeSet;

use anyhow::Context as _;
use aws_sdk_ssm::operation::get_parameter::GetParameterError;
use futures::future::try_join_all;
use serde::Deserialize;

use super::Secret;
use crate::base::clock::UnixMillis;

/// What follows is the name of a secret, and the label of a version behind a colon.
const REFERENCE: &str = "/aws/reference/secretsmanager";

/// The labels of the versions that are live, and what we call them.
const STAGES: [(&str, &str); 3] = [
    ("AWSCURRENT", "current"),
    ("AWSPENDING", "pending"),
    ("AWSPREVIOUS", "previous"),
];

/// Which secrets are kept there, and below which prefix.
#[derive(Clone, Debug, Default)]
pub struct Managed {
    names: BTreeSet<String>,
    prefix: Option<String>,
}

impl Managed {
    /// Without a prefix nobody can read these secrets.
    pub fn new(names: BTreeSet<String>, prefix: Option<&str>) -> Self {
        Self {
            names,
            prefix: prefix.map(str::to_owned),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// What a secret is called in Secrets Manager.
    pub(super) fn id(&self, name: &str) -> anyhow::Result<String> {
        let prefix = self.prefix.as_deref().with_context(|| {
            format!(
                "the secret {name} is kept in Secrets Manager, of which nothing is read here: the \
                 parameter SecretsManagerPrefix of the stack permits it"
            )
        })?;
        Ok(format!("{prefix}/{name}"))
    }
}

/// The part of a version's id that labels show.
pub fn short(version_id: &str) -> String {
    let legal = version_id.chars().filter(char::is_ascii_alphanumeric);
    legal.take(8).collect()
}

/// The live versions with the times they were made at, in seconds.
pub(super) async fn read(
    ssm: &aws_sdk_ssm::Client,
    id: &str,
) -> anyhow::Result<Vec<(i64, Secret)>> {
    let [(stage, called), others @ ..] = STAGES;
    let current = version(ssm, id, stage, called).await?;
    // AWSPREVIOUS comes to where AWSCURRENT was. Read later, it has what that has lost meanwhile.
    let others = others.map(|(stage, called)| version(ssm, id, stage, called));
    let others = try_join_all(others).await?;
    let mut found: Vec<(i64, Secret)> = Vec::new();
    for version in std::iter::once(current).chain(others).flatten() {
        // The label of a version to come stays behind at the one that is current.
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
    let value = value.with_context(|| format!("{stage} of the secret {id} is no text"))?;
    let at = parameter
        .last_modified_date()
        .map_or(0, aws_smithy_types::DateTime::secs);
    // Without its id it is told by its time: a new version has to be seen to be another.
    let version = parameter.source_result().and_then(version_of);
    let version = version.unwrap_or_else(|| at.to_string());
    let since = (at > 0).then(|| UnixMillis(at * 1000));
    let secret = Secret::stored(label(&version, called), value, since);
    Ok(Some((at, secret)))
}

/// Which of the two it says of a label that no version has, its documentation leaves open.
/// <https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html>
fn is_missing(error: &GetParameterError) -> bool {
    error.is_parameter_not_found() || error.is_parameter_version_not_found()
}

/// A version keeps its value and changes its name, so it stands where the slot does.
fn label(version: &str, called: &str) -> String {
    format!("{version}.{called}")
}

/// Whether two labels name the same value. A slot holds one after the other, which are numbered;
/// a version has one value under all its names.
pub fn is_same(one: &str, other: &str) -> bool {
    let called = |label: &str| STAGES.iter().any(|(_, called)| *called == label);
    match (one.rsplit_once('.'), other.rsplit_once('.')) {
        (Some((one, a)), Some((other, b))) if called(a) && called(b) => one == other,
        _ => one == other,
    }
}

/// What Secrets Manager said of the version. It repeats the value, so it is shown nowhere, and
/// neither is what is wrong with it.
fn version_of(source_result: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Origin {
        /// The documentation writes it with a capital letter.
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
        assert!(!is_same("current.1", "current.2"), "it was overwritten");
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
