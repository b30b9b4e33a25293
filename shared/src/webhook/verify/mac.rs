//! Keyed and plain hashes.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq as _;

use super::message::Piece;
use crate::webhook::event::Sha;
use crate::webhook::preset::Hash;

/// Returns whether one of the signatures is valid for the message and the key. Compares in constant
/// time and hashes the message once.
pub(super) fn matches(
    hash: Hash,
    key: &[u8],
    message: &[Piece<'_>],
    signatures: &[Vec<u8>],
) -> bool {
    fn check<M: Mac + KeyInit + Clone>(key: &[u8], message: &[Piece<'_>], all: &[Vec<u8>]) -> bool {
        fed::<M>(key, message).is_some_and(|mac| {
            let good = |signature: &Vec<u8>| mac.clone().verify_slice(signature).is_ok();
            all.iter().any(good)
        })
    }
    match hash {
        Hash::Sha1 => check::<Hmac<Sha1>>(key, message, signatures),
        Hash::Sha256 => check::<Hmac<Sha256>>(key, message, signatures),
        Hash::Sha512 => check::<Hmac<Sha512>>(key, message, signatures),
    }
}

/// Returns whether one of the signatures is the hash of the message, which contains the secret.
pub(super) fn hashes(hash: Hash, message: &[Piece<'_>], signatures: &[Vec<u8>]) -> bool {
    let digest = digest(hash, message);
    signatures
        .iter()
        .any(|signature| bool::from(signature.ct_eq(&digest)))
}

/// Returns a mark that identifies a signed message. With the mark, Mitt recognizes another body
/// that has the same signature. The mark is an HMAC with the key, so it does not reveal the
/// message. Because of the label, the mark is never a valid signature of the provider.
pub(super) fn mark(key: &[u8], message: &[Piece<'_>]) -> Sha {
    let label = Piece::Borrowed(b"mitt signed message\0".as_slice());
    let pieces: Vec<Piece<'_>> = std::iter::once(label)
        .chain(message.iter().cloned())
        .collect();
    let bytes = sign(Hash::Sha256, key, &pieces);
    bytes
        .try_into()
        .map_or_else(|bytes: Vec<u8>| Sha::of(&bytes), Sha)
}

/// Returns whether two texts are equal. Takes constant time for texts of any length.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    Sha256::digest(one).ct_eq(&Sha256::digest(other)).into()
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

/// The hash of a message.
pub(crate) fn digest(hash: Hash, message: &[Piece<'_>]) -> Vec<u8> {
    fn make<D: Digest>(message: &[Piece<'_>]) -> Vec<u8> {
        let mut digest = D::new();
        for piece in message {
            digest.update(piece);
        }
        digest.finalize().to_vec()
    }
    match hash {
        Hash::Sha1 => make::<Sha1>(message),
        Hash::Sha256 => make::<Sha256>(message),
        Hash::Sha512 => make::<Sha512>(message),
    }
}

/// Computes the HMAC of a message. Never returns `None`, because HMAC accepts keys of any length.
fn fed<M: Mac + KeyInit>(key: &[u8], message: &[Piece<'_>]) -> Option<M> {
    let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
    for piece in message {
        mac.update(piece);
    }
    Some(mac)
}
