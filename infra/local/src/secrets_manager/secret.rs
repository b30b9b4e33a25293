//! A secret and its versions. Each label identifies one version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CURRENT, PREVIOUS, Request, not_found};
use crate::{
    json_service::Refusal,
    names::{now_ms, random_id},
};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) arn: String,
    /// The versions with a label, by id. A version without a label is deleted.
    pub(super) versions: BTreeMap<String, Version>,
    /// The version id of each label. A label belongs to one version only.
    pub(super) stages: BTreeMap<String, String>,
    pub(super) deleted_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    value: String,
    pub(super) created_ms: i64,
}

/// One version of a secret.
pub(crate) struct Found {
    pub(crate) arn: String,
    pub(crate) version_id: String,
    pub(crate) value: String,
    pub(crate) stages: Vec<String>,
    pub(crate) created_ms: i64,
}

impl Entry {
    pub(super) fn version(&self, selector: &str) -> Option<Found> {
        let id = self.stages.get(selector).map_or(selector, String::as_str);
        let version = self.versions.get(id)?;
        Some(Found {
            arn: self.arn.clone(),
            version_id: id.to_owned(),
            value: version.value.clone(),
            stages: self.stages_of(id),
            created_ms: version.created_ms,
        })
    }

    pub(super) fn stages_of(&self, id: &str) -> Vec<String> {
        let stages = self.stages.iter().filter(|(_, at)| *at == id);
        stages.map(|(stage, _)| stage.clone()).collect()
    }

    /// Adds a version. The token becomes the id of the version, so that a repeated request has no
    /// effect.
    pub(super) fn put(&mut self, request: Request) -> Result<(String, Vec<String>), Refusal> {
        let value = request.secret_string.unwrap_or_default();
        if value.is_empty() {
            return Err(Refusal(
                "InvalidParameterException",
                "You must provide either SecretString or SecretBinary.".into(),
            ));
        }
        let id = request.client_request_token.unwrap_or_else(random_id);
        if !(32..=64).contains(&id.len()) {
            return Err(Refusal(
                "InvalidParameterException",
                "ClientRequestToken must have between 32 and 64 characters.".into(),
            ));
        }
        match self.versions.get(&id) {
            Some(known) if known.value == value => return Ok((id.clone(), self.stages_of(&id))),
            Some(_) => {
                return Err(Refusal(
                    "ResourceExistsException",
                    "You tried to create a version with the id of another one.".into(),
                ));
            }
            None => {}
        }
        let created_ms = now_ms();
        self.versions
            .insert(id.clone(), Version { value, created_ms });
        let stages = request.version_stages.unwrap_or_default();
        let stages = if stages.is_empty() || self.versions.len() == 1 {
            vec![CURRENT.to_owned()]
        } else {
            stages
        };
        for stage in &stages {
            self.attach(stage, &id);
        }
        self.forget();
        let stages = self.stages_of(&id);
        Ok((id, stages))
    }

    pub(super) fn relabel(&mut self, request: &Request) -> Result<(), Refusal> {
        let refused = |said: &str| Err(Refusal("InvalidParameterException", said.to_owned()));
        let stage = request.version_stage.as_deref().unwrap_or_default();
        let (from, to) = (&request.remove_from_version_id, &request.move_to_version_id);
        let at = self.stages.get(stage);
        if at.is_some() && at != from.as_ref() && at != to.as_ref() {
            return refused(
                "The parameter RemoveFromVersionId must be the version that has the staging label.",
            );
        }
        match to {
            Some(to) if self.versions.contains_key(to) => self.attach(stage, to),
            Some(_) => return Err(not_found()),
            None if stage == CURRENT => {
                return refused(
                    "You can only move staging label AWSCURRENT to a different secret version. It \
                     can't be completely removed.",
                );
            }
            None => {
                self.stages.remove(stage);
            }
        }
        self.forget();
        Ok(())
    }

    /// Moves a label. AWSPREVIOUS moves to the version that had AWSCURRENT.
    fn attach(&mut self, stage: &str, id: &str) {
        let before = self.stages.insert(stage.to_owned(), id.to_owned());
        if let Some(before) = before
            && stage == CURRENT
            && before != id
        {
            self.stages.insert(PREVIOUS.to_owned(), before);
        }
    }

    fn forget(&mut self) {
        let stages = &self.stages;
        self.versions
            .retain(|id, _| stages.values().any(|at| at == id));
    }
}
