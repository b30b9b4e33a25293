//! The secrets of a local stack: those of the demo, or random ones for the user's own sources.

use anyhow::Context as _;
use aws_credential_types::Credentials;
use aws_sdk_ssm::operation::put_parameter::PutParameterError;
use aws_sdk_ssm::types::ParameterType;
use local::Stack;
use local::names::{ACCESS_KEY, REGION, SECRET_KEY, random_id};
use shared::aws::secrets::{Managed, Secret, Secrets};
use shared::aws::{Aws, CallPolicy};
use shared::sources::{ActionKind, Config, SecretStore};

use crate::demo::DemoSecrets;
use crate::samples::random_hex;
use crate::target::ManagedSecret;
use crate::test_keys;

/// Prefix of the secrets in Secrets Manager.
pub(super) const PREFIX: &str = "mitt/ingress";

/// Stores each secret where the functions read it. For the user's own sources, missing secrets are
/// generated; secrets of a kept state are not replaced.
pub(super) async fn put(
    stack: &Stack,
    secrets: &DemoSecrets,
    config: &Config,
    own: bool,
) -> anyhow::Result<()> {
    let ssm = stack.clients().ssm;
    let path = |kind: &str| {
        stack.secrets_path(match kind {
            "ingress" => "Catcher",
            "egress" => "Processor",
            _ => "BackupSync",
        })
    };
    let mut wanted: Vec<(String, String, bool)> = Vec::new();
    if own {
        let ingress = path("ingress")?;
        let kept = Secrets::new(ssm.clone(), ingress)
            .with_managed(Managed::new(config.managed_secrets(), Some(PREFIX)))
            .all()
            .await?;
        for source in config.sources() {
            if !kept.contains_key(&source.secret) {
                let mut secret = random_hex(20)?;
                if let Some((public, private)) = test_keys::make(source)? {
                    let keys = test_keys::path(ingress);
                    wanted.push((format!("{keys}/{}", source.secret), private, false));
                    secret = public;
                }
                match source.secret_store {
                    SecretStore::ParameterStore => {
                        wanted.push((format!("{ingress}/{}", source.secret), secret, false));
                    }
                    SecretStore::SecretsManager => make(stack, &source.secret, secret).await?,
                }
            }
            for action in &source.actions {
                if let ActionKind::Http { secret, .. } = &action.kind {
                    wanted.push((
                        format!("{}/{secret}", path("egress")?),
                        format!("whsec_{}", random_hex(16)?),
                        false,
                    ));
                }
            }
        }
    } else {
        for (kind, name, value) in secrets.iter() {
            wanted.push((format!("{}/{name}", path(kind)?), value.to_owned(), true));
        }
    }
    for (name, value, replace) in wanted {
        let put = ssm
            .put_parameter()
            .name(format!("{name}/current"))
            .value(value)
            .r#type(ParameterType::SecureString)
            .overwrite(replace)
            .send()
            .await;
        match put {
            Ok(_) => {}
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(PutParameterError::is_parameter_already_exists) => {}
            Err(error) => return Err(error).with_context(|| format!("put the secret {name}")),
        }
    }
    Ok(())
}

/// Creates the secret in Secrets Manager. Sources can share a secret; the first one creates it.
async fn make(stack: &Stack, name: &str, value: String) -> anyhow::Result<()> {
    let keys = Credentials::from_keys(ACCESS_KEY, SECRET_KEY, None);
    let url = stack.endpoints().secrets_manager.clone();
    let aws = Aws::new(REGION.to_owned(), keys, Some(url), CallPolicy::LONG);
    let secret = ManagedSecret::new(&aws, format!("{PREFIX}/{name}"));
    secret
        .create(&random_id(), &Secret::new("made", value))
        .await?;
    Ok(())
}
