//! `secrets keypair`: creates a key pair, stores the private key, and prints the public key.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Serialize;
use shared::aws::secrets::Secret;
use shared::webhook::preset::{KeyForm, Preset, Scheme};
use shared::webhook::sign::{Algorithm, KeyPair, Means, means};

use super::signers::signers;
use super::store::{Place, Stored, Verb, Why};
use crate::cli::{Global, KeyAlgorithm, SecretKind, SecretsKeypairArgs};
use crate::output::{CliError, Exit, Printer};

#[derive(Serialize)]
struct Made {
    #[serde(flatten)]
    stored: Stored,
    algorithm: String,
    public_key: String,
}

/// The form in which the receiver needs the public key.
enum Receiver {
    /// A public key in this form.
    Key(Algorithm, KeyForm),
    /// A JSON Web Key Set.
    KeySet(Algorithm),
}

pub(super) async fn keypair(
    args: SecretsKeypairArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let kind = args.kind.given().unwrap_or(SecretKind::Egress);
    let place = Place::open(&args.name, kind, &args.secrets_at, global).await?;
    let receiver = receiver(&args, &place)?;
    let (pair, public_key) = receiver.pair()?;
    let why = Why {
        verb: Verb::Keypair,
        reason: args.reason.as_deref(),
        replace: args.replace,
    };
    let secret = Secret::new("new", pair.expose_pem().trim_end());
    let stored = place.store(&secret, &why).await?;
    let made = Made {
        algorithm: pair.algorithm().to_string(),
        public_key: public_key.trim_end().to_owned(),
        stored,
    };
    let text = format!("{}\n", made.public_key);
    out.document("secrets.keypair", &made, &made.stored.name, &text)?;
    out.say(made.stored.text().trim_end());
    out.say("Give the public key above to the receiver.");
    made.stored.say(&place, out);
    Ok(Exit::Done)
}

/// Returns the receiver that the arguments name, or the receiver of the action that uses the secret.
fn receiver(args: &SecretsKeypairArgs, place: &Place) -> anyhow::Result<Receiver> {
    if let Some(name) = &args.preset {
        return of_preset(name, args.variant.as_deref().unwrap_or("default"));
    }
    let algorithm = match args.algorithm {
        Some(KeyAlgorithm::EcdsaP256) => Algorithm::EcdsaP256,
        Some(KeyAlgorithm::Ed25519) => Algorithm::Ed25519,
        None => {
            let signers = signers(&place.inbox.config, &place.name);
            let signers = signers.iter().filter(|_| place.kind == SecretKind::Egress);
            let mut schemes = signers.filter_map(|it| Some((it.source, it.provider_scheme()?)));
            match schemes.next() {
                Some((source, scheme)) => return of_scheme(&source.verifier.preset.id, scheme),
                None => Algorithm::Ed25519,
            }
        }
    };
    Ok(Receiver::Key(algorithm, KeyForm::Pem))
}

fn of_preset(name: &str, variant: &str) -> anyhow::Result<Receiver> {
    let preset = Preset::embedded(name, &BTreeMap::new()).map_err(|_| {
        CliError::usage("secrets.no_preset", format!("unknown preset '{name}'"))
            .tip("webhookctl sources presets")
            .did_you_mean(name, Preset::names())
    })?;
    let scheme = preset.scheme(variant).ok_or_else(|| {
        let known = preset.schemes.iter().map(|scheme| scheme.variant.as_str());
        let known: Vec<&str> = known.collect();
        let message = format!("preset {name} has no variant '{variant}'");
        CliError::usage("secrets.no_preset", message).one_of(variant, &known)
    })?;
    of_scheme(name, scheme)
}

fn of_scheme(preset: &str, scheme: &Scheme) -> anyhow::Result<Receiver> {
    match means(scheme) {
        Means::KeyPair(Algorithm::RsaSha256) => Err(CliError::usage(
            "secrets.rsa",
            format!("the preset {preset} needs an RSA key, which this command cannot create"),
        )
        .note("openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out FILE creates one")
        .tip("store it with webhookctl secrets put NAME --egress --from file:FILE")
        .into()),
        Means::KeyPair(algorithm) if scheme.needs_secret() => {
            Ok(Receiver::Key(algorithm, scheme.key))
        }
        Means::KeyPair(algorithm) => Ok(Receiver::KeySet(algorithm)),
        _ => Err(CliError::usage(
            "secrets.no_key_pair",
            format!("a receiver of the preset {preset} does not verify with a public key"),
        )
        .tip("store a shared secret with webhookctl secrets put NAME --egress")
        .into()),
    }
}

impl Receiver {
    /// Creates a pair. Returns it with the public key in the form of the receiver.
    fn pair(&self) -> anyhow::Result<(KeyPair, String)> {
        let algorithm = match self {
            Self::Key(algorithm, _) | Self::KeySet(algorithm) => *algorithm,
        };
        let pair = KeyPair::generate(algorithm)?;
        let public = match self {
            Self::Key(_, form) => pair.public(*form),
            Self::KeySet(_) => pair.jwks(),
        };
        let public = public.context("write the public key")?;
        Ok((pair, public))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(preset: &str, variant: &str) -> anyhow::Result<Receiver> {
        let preset = Preset::embedded(preset, &BTreeMap::new())?;
        of_scheme(&preset.id, preset.scheme(variant).unwrap())
    }

    #[test]
    fn a_public_key_has_the_form_of_its_receiver() {
        for (preset, variant, start) in [
            ("discord", "default", ""),
            ("standard-webhooks", "v1a", "whpk_"),
        ] {
            let (pair, public) = of(preset, variant).unwrap().pair().unwrap();
            assert_eq!(pair.algorithm(), Algorithm::Ed25519, "{preset}");
            assert!(public.starts_with(start), "{preset}: {public}");
            let again = KeyPair::from_pem(&pair.expose_pem()).unwrap();
            assert_eq!(again.algorithm(), pair.algorithm());
        }
    }

    #[test]
    fn a_preset_without_a_key_pair_is_refused() {
        let error = of("stripe", "default").err().unwrap();
        let error = error.downcast::<CliError>().unwrap();
        assert_eq!(error.code, "secrets.no_key_pair");
    }
}
