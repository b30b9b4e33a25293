//! Decodes secrets to keys.

use base64::Engine as _;
use ring::signature::{ED25519, UnparsedPublicKey};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use sha1::{Digest as _, Sha1};
use webpki::RawPublicKeyEntity;
use webpki::ring::{ECDSA_P256_SHA256, ED25519 as ED25519_SPKI, RSA_PKCS1_2048_8192_SHA256};

use super::decode::{BASE64, BASE64_SECRET};
use crate::webhook::preset::{KeyForm, Kind};

/// Decodes a secret to a key. Returns `None` if the secret is empty or cannot be decoded. Any
/// sender could sign with an empty key.
pub(crate) fn key(form: KeyForm, secret: &str) -> Option<Vec<u8>> {
    let secret = secret.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return None;
    }
    let key = match form {
        KeyForm::Utf8 => secret.as_bytes().to_vec(),
        KeyForm::Base64 => BASE64.decode(secret).ok()?,
        KeyForm::Hex => hex::decode(secret).ok()?,
        KeyForm::Whsec => {
            let secret = secret.strip_prefix("v1,").unwrap_or(secret);
            let encoded = secret.strip_prefix("whsec_").unwrap_or(secret);
            BASE64_SECRET.decode(encoded).ok()?
        }
        KeyForm::WhsecOrUtf8 => match secret.strip_prefix("whsec_") {
            Some(encoded) => BASE64_SECRET.decode(encoded).ok()?,
            None => secret.as_bytes().to_vec(),
        },
        KeyForm::Sha1OfUtf8 => Sha1::digest(secret).to_vec(),
        KeyForm::Whpk => {
            let encoded = secret.strip_prefix("whpk_").unwrap_or(secret);
            BASE64.decode(encoded).ok()?
        }
        KeyForm::Pem => {
            let spki = SubjectPublicKeyInfoDer::from_pem_slice(secret.as_bytes()).ok()?;
            return parsed(spki.as_ref());
        }
        KeyForm::SpkiBase64 => return parsed(&BASE64.decode(secret).ok()?),
    };
    (!key.is_empty()).then_some(key)
}

fn parsed(spki: &[u8]) -> Option<Vec<u8>> {
    let der = SubjectPublicKeyInfoDer::from(spki);
    RawPublicKeyEntity::try_from(&der).ok()?;
    Some(spki.to_vec())
}

/// Returns whether the owner of a public key has signed the message. `key` is 32 bytes for Ed25519,
/// or a `SubjectPublicKeyInfo`.
pub(super) fn signed_by(kind: &Kind, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let alg = match kind {
        Kind::Ed25519 if key.len() == 32 => {
            let key = UnparsedPublicKey::new(&ED25519, key);
            return key.verify(message, signature).is_ok();
        }
        Kind::Ed25519 => ED25519_SPKI,
        Kind::EcdsaP256 => ECDSA_P256_SHA256,
        Kind::RsaSha256 => RSA_PKCS1_2048_8192_SHA256,
        _ => return false,
    };
    let der = SubjectPublicKeyInfoDer::from(key);
    RawPublicKeyEntity::try_from(&der)
        .is_ok_and(|key| key.verify_signature(alg, message, signature).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_decoded_as_official_libraries_decode_it() {
        let full = key(KeyForm::Whsec, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBg==");
        assert_eq!(full.as_ref().map(Vec::len), Some(25));
        for lenient in [
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBg",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr",
            "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr==",
        ] {
            assert_eq!(key(KeyForm::Whsec, lenient), full, "{lenient}");
            if !lenient.starts_with("v1,") {
                assert_eq!(key(KeyForm::WhsecOrUtf8, lenient), full, "{lenient}");
            }
        }
        assert_eq!(key(KeyForm::Whsec, "whsec_not base64"), None);
    }
}
