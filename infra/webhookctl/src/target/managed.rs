//! Changes a secret in Secrets Manager, for rotation. The functions never change secrets.

use anyhow::Context as _;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::operation::create_secret::CreateSecretError;
use aws_sdk_secretsmanager::operation::list_secret_version_ids::ListSecretVersionIdsError;
use aws_sdk_secretsmanager::operation::put_secret_value::PutSecretValueError;
use aws_sdk_secretsmanager::operation::update_secret_version_stage::builders::UpdateSecretVersionStageFluentBuilder;
use shared::aws::Aws;
use shared::aws::secrets::{Secret, short};
use shared::base::clock::UnixMillis;

const CURRENT: &str = "AWSCURRENT";
const PREVIOUS: &str = "AWSPREVIOUS";

pub struct ManagedSecret {
    client: Client,
    id: String,
}

/// A version with its labels. The CLI does not read its value.
#[derive(Clone, Debug)]
pub struct Labelled {
    pub version_id: String,
    pub stages: Vec<String>,
    pub created_at: Option<UnixMillis>,
}

impl ManagedSecret {
    pub fn new(aws: &Aws, id: String) -> Self {
        Self {
            client: Client::new(&aws.sdk_config("SECRETS_MANAGER")),
            id,
        }
    }

    /// Stores a new current version. The old current version becomes the previous version. Creates
    /// the secret if it does not exist. Returns `false` if another process has created the secret
    /// or the version in the meantime.
    pub async fn put(&self, version_id: &str, secret: &Secret) -> anyhow::Result<bool> {
        let put = self
            .client
            .put_secret_value()
            .secret_id(&self.id)
            .client_request_token(version_id)
            .secret_string(secret.expose())
            .send()
            .await;
        let Err(error) = put else {
            return Ok(true);
        };
        let is = |of: fn(&PutSecretValueError) -> bool| error.as_service_error().is_some_and(of);
        if is(PutSecretValueError::is_resource_exists_exception) {
            return Ok(false);
        }
        if is(PutSecretValueError::is_resource_not_found_exception) {
            return self.create(version_id, secret).await;
        }
        Err(error).with_context(|| format!("store a version of the secret {}", self.id))
    }

    /// Creates the secret. Returns `false` if it already exists.
    pub async fn create(&self, version_id: &str, secret: &Secret) -> anyhow::Result<bool> {
        let created = self
            .client
            .create_secret()
            .name(&self.id)
            .client_request_token(version_id)
            .secret_string(secret.expose())
            .send()
            .await;
        match created {
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(CreateSecretError::is_resource_exists_exception) =>
            {
                Ok(false)
            }
            created => {
                created.with_context(|| format!("create the secret {}", self.id))?;
                Ok(true)
            }
        }
    }

    /// Returns the versions that have a label. Returns none if the secret does not exist.
    pub async fn versions(&self) -> anyhow::Result<Vec<Labelled>> {
        let (mut versions, mut next) = (Vec::new(), None);
        loop {
            let listed = self
                .client
                .list_secret_version_ids()
                .secret_id(&self.id)
                .set_next_token(next)
                .send()
                .await;
            let listed = match listed {
                Err(error)
                    if error.as_service_error().is_some_and(
                        ListSecretVersionIdsError::is_resource_not_found_exception,
                    ) =>
                {
                    return Ok(versions);
                }
                listed => listed
                    .with_context(|| format!("list the versions of the secret {}", self.id))?,
            };
            for version in listed.versions() {
                let at = version.created_date().and_then(|at| at.to_millis().ok());
                versions.push(Labelled {
                    version_id: version.version_id().unwrap_or_default().to_owned(),
                    stages: version.version_stages().to_vec(),
                    created_at: at.map(UnixMillis),
                });
            }
            next = listed.next_token().map(str::to_owned);
            if next.is_none() {
                return Ok(versions);
            }
        }
    }

    /// Removes the labels of a version. `version` and `heir` are prefixes of version ids. If the
    /// version is current, this first moves the current label to `heir`, because a secret always
    /// has a current version. Secrets Manager can delete a version without labels.
    pub async fn retire(&self, version: &str, heir: &str) -> anyhow::Result<()> {
        let versions = self.versions().await?;
        let find = |of: &str| versions.iter().find(|known| short(&known.version_id) == of);
        let Some(gone) = find(version) else {
            return Ok(());
        };
        let mut stages = gone.stages.clone();
        if stages.iter().any(|stage| stage == CURRENT) {
            let heir = find(heir).with_context(|| format!("version {heir} has no label"))?;
            let moved = self.relabel(CURRENT, &gone.version_id);
            let moved = moved.move_to_version_id(&heir.version_id).send().await;
            moved.with_context(|| format!("move {CURRENT} of the secret {}", self.id))?;
            stages.retain(|stage| stage != CURRENT && stage != PREVIOUS);
            // Secrets Manager gives this label to the version that loses AWSCURRENT, so it must be
            // removed too.
            stages.push(PREVIOUS.to_owned());
        }
        for stage in stages {
            let removed = self.relabel(&stage, &gone.version_id).send().await;
            removed.with_context(|| format!("remove {stage} of the secret {}", self.id))?;
        }
        Ok(())
    }

    /// Schedules the deletion of the secret, after the recovery window of Secrets Manager.
    pub async fn delete(&self) -> anyhow::Result<()> {
        let deleted = self.client.delete_secret().secret_id(&self.id).send().await;
        deleted.with_context(|| format!("delete the secret {}", self.id))?;
        Ok(())
    }

    fn relabel(&self, stage: &str, from: &str) -> UpdateSecretVersionStageFluentBuilder {
        self.client
            .update_secret_version_stage()
            .secret_id(&self.id)
            .version_stage(stage)
            .remove_from_version_id(from)
    }
}
