//! Creates the secrets of a local stack: those of the demo, or random secrets for the user's own
//! sources.

use anyhow::Context as _;
use aws_credential_types::Credentials;
use aws_sdk_ssm::operation::put_parameter::PutParameterError;
use aws_sdk_ssm::types::ParameterType;
use local::Stack;
use local::names::{ACCESS_KEY, REGION, SECRET_KEY, random_id};
use shared::aws::secrets::{Managed, Secret, Secrets};
use shared::aws::{Aws, CallPolicy};
use shared::sources::{Config, SecretStore, Signing, Source};
use shared::webhook::sign::{Algorithm, Means, means};

use crate::demo::DemoSecrets;
use crate::samples::{Signer, random_hex};
use crate::target::ManagedSecret;
use crate::test_keys;

/// The prefix of the secrets in Secrets Manager.
pub(super) const PREFIX: &str = "mitt/ingress";

/// A secret in Parameter Store.
struct Parameter {
    name: String,
    value: String,
}

/// Stores each secret where the functions read it. Generates missing secrets for the user's own
/// sources, and does not replace existing secrets: the user may have set them.
pub(super) async fn put(
    stack: &Stack,
    secrets: &DemoSecrets,
    config: &Config,
    own: bool,
) -> anyhow::Result<()> {
    let wanted = if own {
        missing(stack, config).await?
    } else {
        of_the_demo(stack, secrets).await?
    };
    let ssm = stack.clients().ssm;
    for Parameter { name, value } in wanted {
        let put = ssm
            .put_parameter()
            .name(format!("{name}/current"))
            .value(value)
            .r#type(ParameterType::SecureString)
            .overwrite(false);
        let exists = PutParameterError::is_parameter_already_exists;
        match put.send().await {
            Err(error) if !error.as_service_error().is_some_and(exists) => {
                return Err(error).with_context(|| format!("put the secret {name}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the secrets of the demo that the stack does not have yet.
async fn of_the_demo(stack: &Stack, secrets: &DemoSecrets) -> anyhow::Result<Vec<Parameter>> {
    let mut wanted = Vec::new();
    for kind in ["ingress", "egress", "provider-api"] {
        let path = path(stack, kind)?;
        let kept = Secrets::new(stack.clients().ssm, path).all().await?;
        let own = secrets.iter().filter(|(of, _, _)| *of == kind);
        let missing = own.filter(|(_, name, _)| !kept.contains_key(*name));
        wanted.extend(missing.map(|(_, name, value)| Parameter {
            name: format!("{path}/{name}"),
            value: value.to_owned(),
        }));
    }
    Ok(wanted)
}

/// Returns new secrets for the sources and destinations that have none. If a source has its secret
/// in Secrets Manager, this also stores the secret there.
async fn missing(stack: &Stack, config: &Config) -> anyhow::Result<Vec<Parameter>> {
    let ingress = path(stack, "ingress")?;
    let kept = Secrets::new(stack.clients().ssm, ingress)
        .with_managed(Managed::new(config.managed_secrets(), Some(PREFIX)))
        .all()
        .await?;
    let egress = path(stack, "egress")?;
    let of_receivers = Secrets::new(stack.clients().ssm, egress).all().await?;
    let mut wanted = Vec::new();
    let mut want = |name: String, value: String| wanted.push(Parameter { name, value });
    for source in config.sources() {
        let name = &source.secret;
        if !kept.contains_key(name) {
            let mut secret = random_hex(20)?;
            if let Some((public, private)) = test_keys::make(source)? {
                want(format!("{}/{name}", test_keys::path(ingress)), private);
                secret = public;
            }
            match source.secret_store {
                SecretStore::ParameterStore => want(format!("{ingress}/{name}"), secret),
                SecretStore::SecretsManager => make(stack, name, secret).await?,
            }
        }
        for action in &source.actions {
            if let Some((_, signing)) = action.kind.http()
                && let Some(secret) = signing.secret()
                && !of_receivers.contains_key(secret)
                && let Some(value) = of_receiver(source, signing)?
            {
                want(format!("{egress}/{secret}"), value);
            }
        }
    }
    Ok(wanted)
}

/// Returns a new secret or private key for the receiver of an action. Returns `None` for an RSA key,
/// which this program cannot generate.
fn of_receiver(source: &Source, signing: &Signing) -> anyhow::Result<Option<String>> {
    if let Signing::Provider { .. } = signing
        && let Some(scheme) = signing.scheme(&source.verifier)
    {
        if means(scheme) == Means::KeyPair(Algorithm::RsaSha256) {
            return Ok(None);
        }
        return Ok(match Signer::random(scheme)? {
            Signer::Secret(secret) => Some(secret.expose().to_owned()),
            Signer::KeyPair(pair) => Some(pair.expose_pem()),
            Signer::Unsigned => None,
        });
    }
    Ok(Some(format!("whsec_{}", random_hex(16)?)))
}

/// Returns the path of the secrets of one kind.
fn path<'s>(stack: &'s Stack, kind: &str) -> anyhow::Result<&'s str> {
    stack.secrets_path(match kind {
        "ingress" => "Catcher",
        "egress" => "Processor",
        _ => "BackupSync",
    })
}

/// Creates the secret in Secrets Manager, unless it exists. Several sources can use the same
/// secret.
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
