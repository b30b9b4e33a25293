//! Keys and keyed hashes.

use base64::Engine as _;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use super::Piece;
use super::candidates::BASE64;
use crate::preset::{Hash, KeyForm};

/// The key that a secret stands for. An empty or undecodable secret is none: the empty key is
/// known to everybody.
pub(crate) fn key(form: KeyForm, secret: &str) -> Option<Vec<u8>> {
    let secret = secret.trim_end_matches(['\r', '\n']);
    let key = match form {
        KeyForm::Utf8 => secret.as_bytes().to_vec(),
        KeyForm::Base64 => BASE64.decode(secret).ok()?,
        KeyForm::Hex => hex::decode(secret).ok()?,
        KeyForm::Whsec => BASE64
            .decode(secret.strip_prefix("whsec_").unwrap_or(secret))
            .ok()?,
        KeyForm::WhsecOrUtf8 => match secret.strip_prefix("whsec_") {
            Some(encoded) => BASE64.decode(encoded).ok()?,
            None => secret.as_bytes().to_vec(),
        },
    };
    (!key.is_empty()).then_some(key)
}

/// Whether a signature is that of the message under the key, in constant time.
pub(crate) fn matches(hash: Hash, key: &[u8], message: &[Piece<'_>], signature: &[u8]) -> bool {
    fn check<M: Mac + KeyInit>(key: &[u8], message: &[Piece<'_>], signature: &[u8]) -> bool {
        fed::<M>(key, message).is_some_and(|mac| mac.verify_slice(signature).is_ok())
    }
    match hash {
        Hash::Sha1 => check::<Hmac<Sha1>>(key, message, signature),
        Hash::Sha256 => check::<Hmac<Sha256>>(key, message, signature),
        Hash::Sha512 => check::<Hmac<Sha512>>(key, message, signature),
    }
}

/// The signature of a message.
pub(crate) fn sign(hash: Hash, key: &[u8], message: &[Piece<'_>]) -> Vec<u8> {
    fn make<M: Mac + KeyInit>(key: &[u8], message: &[Piece<'_>]) -> Vec<u8> {
        fed::<M>(key, message)
            .map(|mac| mac.finalize().into_bytes().to_vec())
            .unwrap_or_default()
    }
    match hash {
        Hash::Sha1 => make::<Hmac<Sha1>>(key, message),
        Hash::Sha256 => make::<Hmac<Sha256>>(key, message),
        Hash::Sha512 => make::<Hmac<Sha512>>(key, message),
    }
}

/// `None` for no key: HMAC takes keys of any length.
fn fed<M: Mac + KeyInit>(key: &[u8], message: &[Piece<'_>]) -> Option<M> {
    let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
    for piece in message {
        mac.update(piece.bytes());
    }
    Some(mac)
}
