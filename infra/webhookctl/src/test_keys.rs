//! Key pairs that `dev` makes for its sources, so that `send` can sign as their providers do.
//!
//! The public key is the source's secret. The private key is a parameter below a path that no
//! function reads.

use shared::sources::Source;
use shared::webhook::sign::{Algorithm, KeyPair, Means, means};

/// Where the private keys are, beside the secrets of the catcher.
pub fn path(secrets_path: &str) -> String {
    let (stack, _) = secrets_path.rsplit_once('/').unwrap_or_default();
    format!("{stack}/test-keys")
}

/// A new pair for a source whose provider publishes a key: the secret that is stored, and the
/// private key in PEM. RSA keys cannot be made here.
pub fn make(source: &Source) -> anyhow::Result<Option<(String, String)>> {
    let verifier = &source.verifier;
    let Some(scheme) = verifier.preset.scheme(&verifier.variant) else {
        return Ok(None);
    };
    match means(scheme) {
        Means::KeyPair(algorithm) if algorithm != Algorithm::RsaSha256 && scheme.needs_secret() => {
            let pair = KeyPair::generate(algorithm)?;
            Ok(Some((pair.public(scheme.key)?, pair.expose_pem())))
        }
        _ => Ok(None),
    }
}
