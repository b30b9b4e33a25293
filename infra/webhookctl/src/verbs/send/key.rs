//! Reads or generates secrets and private keys.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use aws_sdk_ssm::types::ParameterType;
use local::names::random_id;
use shared::aws::secrets::Secret;
use shared::webhook::preset::{Preset, Scheme};
use shared::webhook::sign::{Algorithm, KeyPair, Means, means};

use super::target::chosen;
use crate::cli::{SecretFrom, SendArgs};
use crate::files;
use crate::output::{CliError, Exit, Printer};
use crate::target::{Local, ManagedSecret};

/// The command that generates an RSA key, because this program cannot generate one.
const MAKE_RSA: &str =
    "create one with openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out FILE";

/// Reads a shared secret.
pub(in crate::verbs) fn secret(from: &SecretFrom) -> anyhow::Result<Secret> {
    let text = from.read("the secret")?;
    let value = text.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        return Err(CliError::usage("send.no_secret", "the secret is empty").into());
    }
    Ok(Secret::new("given", value))
}

/// Reads a private key, and checks that its algorithm is that of the scheme.
pub(super) fn pair(from: &SecretFrom, scheme: &Scheme) -> anyhow::Result<KeyPair> {
    let wrong = |why: String| CliError::usage("send.key", format!("--key-from: {why}"));
    let text = from.read("the private key")?;
    let pair = KeyPair::from_pem(&text).map_err(|error| wrong(error.to_string()))?;
    match means(scheme) {
        Means::KeyPair(algorithm) if algorithm != pair.algorithm() => Err(wrong(format!(
            "the key is for {}, but this preset signs with {algorithm}",
            pair.algorithm()
        ))
        .into()),
        _ => Ok(pair),
    }
}

/// Returns the error for a missing private key.
pub(super) fn needed(preset: &Preset, scheme: &Scheme) -> CliError {
    let id = &preset.id;
    let error = CliError::usage(
        "send.no_key",
        format!("{id} signs with a private key, so the command needs a test key pair"),
    );
    match means(scheme) {
        Means::KeyPair(Algorithm::RsaSha256) => error
            .note(MAKE_RSA)
            .tip("pass --key-from file:PATH (PKCS #8 in PEM)"),
        _ => error.tip(format!(
            "create a key pair with webhookctl send {id} --new-key FILE, then pass \
             --key-from file:FILE"
        )),
    }
}

/// Runs `--new-key FILE`: creates a key pair and prints its public key.
pub(super) fn make(file: &Path, args: &SendArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let (preset, variant) = chosen(args.preset.as_deref().unwrap_or_default(), args)?;
    let scheme = preset
        .scheme(&variant)
        .context("the preset does not have the selected variant")?;
    let Means::KeyPair(algorithm) = means(scheme) else {
        return Err(no_key_pair(&preset).into());
    };
    if algorithm == Algorithm::RsaSha256 {
        return Err(
            CliError::usage("send.rsa", "the CLI cannot generate an RSA key")
                .note(MAKE_RSA)
                .tip(format!(
                    "webhookctl send {} --key-from file:FILE --public-key",
                    preset.id
                ))
                .into(),
        );
    }
    let pair = KeyPair::generate(algorithm)?;
    let created = files::create_private(file);
    created
        .and_then(|mut created| created.write_all(pair.expose_pem().as_bytes()))
        .with_context(|| format!("write the private key to {}", file.display()))?;
    out.say(&format!("wrote the private key to {}", file.display()));
    print(&pair, scheme, out)
}

/// Runs `--public-key`: prints the public key of a private key.
pub(super) fn show(args: &SendArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let (preset, variant) = chosen(args.preset.as_deref().unwrap_or_default(), args)?;
    let scheme = preset
        .scheme(&variant)
        .context("the preset does not have the selected variant")?;
    let Means::KeyPair(_) = means(scheme) else {
        return Err(no_key_pair(&preset).into());
    };
    let from = args
        .key_from
        .as_ref()
        .context("--public-key requires --key-from")?;
    print(&pair(from, scheme)?, scheme, out)
}

/// Prints the public key in the form in which the receiver stores it, and where to store it.
fn print(pair: &KeyPair, scheme: &Scheme, out: &mut Printer) -> anyhow::Result<Exit> {
    if scheme.needs_secret() {
        out.text(&format!("{}\n", pair.public(scheme.key)?.trim_end()))?;
        out.say("store this as a secret of the source");
    } else {
        out.text(&format!("{}\n", pair.jwks()?))?;
        out.say("add this to the source: trust = { jwks = '…' }");
    }
    Ok(Exit::Done)
}

fn no_key_pair(preset: &Preset) -> CliError {
    CliError::usage(
        "send.no_key_pair",
        format!("webhooks of {} are not signed with a key pair", preset.id),
    )
    .tip("webhookctl send --list")
}

/// Stores the public key as a secret of the local stack, unless this secret is already stored.
pub(super) async fn store(
    local: &Local,
    name: &str,
    live: &[Secret],
    public: &Secret,
) -> anyhow::Result<()> {
    if is_live(live, public) {
        return Ok(());
    }
    let ssm = local.endpoints().clients().ssm;
    ssm.put_parameter()
        .name(format!("{}/{name}/test-key", local.secrets_path))
        .value(public.expose())
        .r#type(ParameterType::SecureString)
        .overwrite(true)
        .send()
        .await
        .context("store the public key as a secret of dev")?;
    Ok(())
}

/// Stores the public key as the current version in Secrets Manager, unless it is already stored.
pub(super) async fn store_managed(
    managed: &ManagedSecret,
    live: &[Secret],
    public: &Secret,
) -> anyhow::Result<()> {
    if !is_live(live, public) {
        managed.put(&random_id(), public).await?;
    }
    Ok(())
}

fn is_live(live: &[Secret], public: &Secret) -> bool {
    let public = public.expose().trim_end();
    live.iter().any(|known| known.expose().trim_end() == public)
}
