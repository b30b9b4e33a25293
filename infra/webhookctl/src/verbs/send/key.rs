//! Secrets and private keys: read from where they are, or made.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use aws_sdk_ssm::types::ParameterType;
use local::names::random_id;
use shared::aws::secrets::Secret;
use shared::webhook::preset::{Preset, Scheme};
use shared::webhook::sign::{Algorithm, KeyPair, Means, means};

use super::target::chosen;
use crate::cli::{SecretFrom, SendArgs};
use crate::output::{CliError, Exit, Printer};
use crate::target::{Local, ManagedSecret};

/// How an RSA key is made, which nothing here can.
const MAKE_RSA: &str =
    "openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out FILE makes one";

/// Reads a shared secret.
pub(in crate::verbs) fn secret(from: &SecretFrom) -> anyhow::Result<Secret> {
    let text = read(from, "the secret")?;
    let value = text.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        return Err(CliError::usage("send.no_secret", "the secret is empty").into());
    }
    Ok(Secret::new("given", value))
}

/// Reads a private key that fits the scheme.
pub(super) fn pair(from: &SecretFrom, scheme: &Scheme) -> anyhow::Result<KeyPair> {
    let wrong = |why: String| CliError::usage("send.key", format!("--key-from: {why}"));
    let text = read(from, "the private key")?;
    let pair = KeyPair::from_pem(&text).map_err(|error| wrong(error.to_string()))?;
    match means(scheme) {
        Means::KeyPair(algorithm) if algorithm != pair.algorithm() => Err(wrong(format!(
            "it is a key of {}, and this preset signs with {algorithm}",
            pair.algorithm()
        ))
        .into()),
        _ => Ok(pair),
    }
}

/// What is said when there is no private key.
pub(super) fn needed(preset: &Preset, scheme: &Scheme) -> CliError {
    let id = &preset.id;
    let error = CliError::usage(
        "send.no_key",
        format!("{id} publishes a public key: a test key pair is needed to sign in its place"),
    );
    match means(scheme) {
        Means::KeyPair(Algorithm::RsaSha256) => error
            .note(MAKE_RSA)
            .tip("--key-from file:PATH (PKCS #8 in PEM)"),
        _ => error.tip(format!(
            "webhookctl send {id} --new-key FILE makes one; then --key-from file:FILE"
        )),
    }
}

/// `--new-key FILE`
pub(super) fn make(file: &Path, args: &SendArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let (preset, variant) = chosen(args.preset.as_deref().unwrap_or_default(), args)?;
    let scheme = preset.scheme(&variant).context("it was looked up")?;
    let Means::KeyPair(algorithm) = means(scheme) else {
        return Err(no_key_pair(&preset).into());
    };
    if algorithm == Algorithm::RsaSha256 {
        return Err(
            CliError::usage("send.rsa", "an RSA key cannot be made here")
                .note(MAKE_RSA)
                .tip(format!(
                    "webhookctl send {} --key-from file:FILE --public-key",
                    preset.id
                ))
                .into(),
        );
    }
    let pair = KeyPair::generate(algorithm)?;
    write_private(file, &pair.expose_pem())
        .with_context(|| format!("write the private key to {}", file.display()))?;
    out.say(&format!("wrote the private key to {}", file.display()));
    print(&pair, scheme, out)
}

/// `--public-key`
pub(super) fn show(args: &SendArgs, out: &mut Printer) -> anyhow::Result<Exit> {
    let (preset, variant) = chosen(args.preset.as_deref().unwrap_or_default(), args)?;
    let scheme = preset.scheme(&variant).context("it was looked up")?;
    let Means::KeyPair(_) = means(scheme) else {
        return Err(no_key_pair(&preset).into());
    };
    let from = args.key_from.as_ref().context("--public-key takes one")?;
    print(&pair(from, scheme)?, scheme, out)
}

/// The public key as the receiver has to store it, and where.
fn print(pair: &KeyPair, scheme: &Scheme, out: &mut Printer) -> anyhow::Result<Exit> {
    if scheme.needs_secret() {
        out.text(&format!("{}\n", pair.public(scheme.key)?.trim_end()))?;
        out.say("store this as a secret of the source");
    } else {
        out.text(&format!("{}\n", pair.jwks()?))?;
        out.say("give this to the source: trust = { jwks = '…' }");
    }
    Ok(Exit::Done)
}

fn no_key_pair(preset: &Preset) -> CliError {
    CliError::usage(
        "send.no_key_pair",
        format!("{} is not signed with a key pair", preset.id),
    )
    .tip("webhookctl send --list")
}

/// Puts the public key among the secrets of the local stack, where it is not there yet.
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
        .context("put the public key among the secrets of dev")?;
    Ok(())
}

/// The same in Secrets Manager, where it becomes the current version.
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

fn read(from: &SecretFrom, what: &str) -> anyhow::Result<String> {
    match from {
        SecretFrom::Stdin => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .with_context(|| format!("read {what} from stdin"))?;
            Ok(text)
        }
        SecretFrom::File(path) => std::fs::read_to_string(path)
            .with_context(|| format!("read {what} from {}", path.display())),
        SecretFrom::Env(name) => {
            shared::base::env::env_var(name).with_context(|| format!("{name} is not set"))
        }
    }
}

/// A new file that only its owner can read.
fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(text.as_bytes())
}
