//! Key pairs that `dev` creates for its sources, so that `send` can sign as their providers do.
//!
//! The public key is the secret of the source. The private key is a parameter below a path that no
//! function reads.

use shared::sources::Source;
use shared::webhook::sign::{Algorithm, KeyPair, Means, means};

/// Returns the path of the private keys, next to the secrets of the catcher.
pub(crate) fn path(secrets_path: &str) -> String {
    let (stack, _) = secrets_path.rsplit_once('/').unwrap_or_default();
    format!("{stack}/test-keys")
}

/// Creates a key pair for a source whose provider publishes a key. Returns the secret to store, and
/// the private key in PEM. Returns `None` for other sources, and for RSA keys.
pub(crate) fn make(source: &Source) -> anyhow::Result<Option<(String, String)>> {
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
