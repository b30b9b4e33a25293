//! Signs stored events again, with a secret that exists only on this machine.
//!
//! The program verifies signatures as usual. The stored signatures may be too old for the program,
//! and the provider's secret stays in the deployment.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::sources::Source;
use shared::webhook::preset::{Preset, Scheme};
use shared::webhook::sign::{Algorithm, KeyPair, Means, Original, Receiver, means, outgoing};
use shared::webhook::verify::Verifier;

use super::Stored;
use crate::files;
use crate::samples::{Draft, Signed, Signer};

/// The header for the original signature.
const ORIGINAL_SIGNATURE: &str = "x-webhookctl-original-signature";

/// The folder of the secrets of this machine, below the working folder of the program.
const FOLDER: &str = ".mitt/listen";

/// Signs the events of one source again.
#[derive(Clone, Debug)]
pub(crate) struct Signing {
    preset: Preset,
    variant: String,
    signer: Signer,
    /// The file with the secret or public key for the program; `None` if the operator gave the
    /// secret.
    pub(crate) file: Option<PathBuf>,
}

/// Returns the signature scheme of a source.
pub(crate) fn scheme_of(source: &Source) -> anyhow::Result<&Scheme> {
    let verifier = &source.verifier;
    let scheme = verifier.preset.scheme(&verifier.variant);
    scheme.context("the source has an unknown variant")
}

impl Signing {
    /// Signs with the given secret if the scheme has a secret. Otherwise signs like
    /// [`Signing::local`].
    pub(crate) fn given_or_local(
        source: &Source,
        given: Option<&Secret>,
    ) -> anyhow::Result<Result<Self, String>> {
        match (given, means(scheme_of(source)?)) {
            (Some(secret), Means::Secret) => {
                let signer = Signer::Secret(secret.clone());
                Ok(Ok(Self::new(&source.verifier, signer)))
            }
            _ => Self::local(source),
        }
    }

    /// Signs with a secret or key pair from the folder of this machine. Creates a missing secret or
    /// key pair. If the scheme does not allow that, returns the reason.
    pub(crate) fn local(source: &Source) -> anyhow::Result<Result<Self, String>> {
        let scheme = scheme_of(source)?;
        let folder = Path::new(FOLDER);
        let at = |end: &str| folder.join(format!("{}.{end}", source.name));
        let (signer, file) = match means(scheme) {
            Means::Secret => {
                let text = kept(&at("secret"), || match Signer::random(scheme)? {
                    Signer::Secret(secret) => Ok(secret.expose().to_owned()),
                    _ => anyhow::bail!("the scheme has no secret"),
                })?;
                (Signer::Secret(Secret::new("local", text)), at("secret"))
            }
            Means::KeyPair(Algorithm::RsaSha256) => {
                let why = "the scheme needs an RSA key, which cannot be created on this machine";
                return Ok(Err(why.to_owned()));
            }
            Means::KeyPair(algorithm) => {
                let pem = kept(
                    &at("key"),
                    || Ok(KeyPair::generate(algorithm)?.expose_pem()),
                )?;
                let pair = KeyPair::from_pem(&pem)?;
                let public = if scheme.needs_secret() {
                    pair.public(scheme.key)?
                } else {
                    pair.jwks()?
                };
                write(&at("pub"), &public)?;
                (Signer::KeyPair(pair), at("pub"))
            }
            Means::Nothing => return Ok(Err("the scheme has no signature".to_owned())),
            Means::No(why) => return Ok(Err(why.to_owned())),
        };
        Ok(Ok(Self {
            file: Some(file),
            ..Self::new(&source.verifier, signer)
        }))
    }

    /// Creates a `Signing` for this verifier that signs with the given signer.
    pub(crate) fn new(verifier: &Verifier, signer: Signer) -> Self {
        Self {
            preset: verifier.preset.clone(),
            variant: verifier.variant.clone(),
            signer,
            file: None,
        }
    }

    /// Returns whether the signer is a key pair. The program then needs the public key.
    pub(crate) fn is_key_pair(&self) -> bool {
        matches!(self.signer, Signer::KeyPair(_))
    }

    /// Signs the event as the provider would sign it now, like an action with `sign =
    /// "provider"`. `change` can change the event first. `url` is the URL that the receiver
    /// verifies.
    pub(crate) fn sign(
        &self,
        stored: &Stored,
        change: impl FnOnce(&mut Draft) -> anyhow::Result<()>,
        url: &str,
        at: UnixMillis,
    ) -> anyhow::Result<Signed> {
        let scheme = self.preset.scheme(&self.variant);
        let scheme = scheme.context("the source has an unknown variant")?;
        let (mut draft, original) = stored.unsigned(scheme);
        change(&mut draft)?;
        let event = Original {
            id: stored.row.key.id(),
            kind: &stored.row.kind,
            headers: stored.headers().into_iter().collect(),
            body: draft.body.clone(),
        };
        let receiver = Receiver {
            url: &stored.url(&draft.url(url)),
            signed_url: None,
        };
        let key = self.signer.key();
        let mut signed = Signed::from(outgoing(&self.preset, scheme, &event, &key, receiver, at)?);
        if let Some(original) = original {
            signed
                .headers
                .push((ORIGINAL_SIGNATURE.to_owned(), original));
        }
        Ok(signed)
    }
}

/// Returns the content of the file. If the file is missing or empty, creates the content with
/// `make`.
fn kept(path: &Path, make: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<String> {
    let missing = match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim_end().to_owned()),
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !missing {
        anyhow::bail!(
            "cannot read {}; remove the file to create a new one",
            path.display()
        );
    }
    let text = make()?;
    write(path, &text)?;
    Ok(text.trim_end().to_owned())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    files::replace(path, &format!("{}\n", text.trim_end()), Some(0o600))
}
