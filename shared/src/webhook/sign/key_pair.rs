//! The operator's key pairs, for schemes in which the provider publishes a public key.

use std::fmt;

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::webhook::preset::{Alg, KeyForm};

/// The bytes before the 32 bytes of an Ed25519 key in its `SubjectPublicKeyInfo`.
/// <https://www.rfc-editor.org/rfc/rfc8410>
const ED25519_SPKI: &str = "302a300506032b6570032100";

/// The bytes before the uncompressed point of a P-256 key in its `SubjectPublicKeyInfo`.
/// <https://www.rfc-editor.org/rfc/rfc5480>
const P256_SPKI: &str = "3059301306072a8648ce3d020106082a8648ce3d030107034200";

/// The algorithm identifier of an RSA key in its `SubjectPublicKeyInfo`.
/// <https://www.rfc-editor.org/rfc/rfc3279>
const RSA_ALGORITHM: &str = "300d06092a864886f70d0101010500";

/// The signature algorithm of a key pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Ed25519,
    EcdsaP256,
    RsaSha256,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ed25519 => "Ed25519",
            Self::EcdsaP256 => "ECDSA P-256",
            Self::RsaSha256 => "RSA",
        })
    }
}

/// A private key and its public key. `Debug` prints only the algorithm.
#[derive(Clone)]
pub struct KeyPair {
    algorithm: Algorithm,
    pkcs8: Vec<u8>,
    /// The format depends on the algorithm: 32 bytes, an uncompressed point, or PKCS #1 DER.
    public: Vec<u8>,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.algorithm)
    }
}

impl KeyPair {
    /// Generates a key pair. The library cannot generate RSA keys.
    pub fn generate(algorithm: Algorithm) -> anyhow::Result<Self> {
        let random = SystemRandom::new();
        let pkcs8 = match algorithm {
            Algorithm::Ed25519 => Ed25519KeyPair::generate_pkcs8(&random),
            Algorithm::EcdsaP256 => {
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
            }
            Algorithm::RsaSha256 => {
                bail!("RSA keys cannot be generated; use an existing private key in PEM")
            }
        };
        let pkcs8 = pkcs8.map_err(|_| anyhow!("the random number generator failed"))?;
        Self::from_pkcs8(pkcs8.as_ref().to_vec())
    }

    /// Reads a private key from PKCS #8 in PEM, `-----BEGIN PRIVATE KEY-----`.
    pub fn from_pem(pem: &str) -> anyhow::Result<Self> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            anyhow!(
                "the text is not a PKCS #8 private key in PEM; convert the key with `openssl pkcs8 \
                 -topk8 -nocrypt`"
            )
        })?;
        Self::from_pkcs8(key.secret_pkcs8_der().to_vec())
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> anyhow::Result<Self> {
        let random = SystemRandom::new();
        let asn1 = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let (algorithm, public) =
            if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8) {
                (Algorithm::Ed25519, pair.public_key().as_ref().to_vec())
            } else if let Ok(pair) = EcdsaKeyPair::from_pkcs8(asn1, &pkcs8, &random) {
                (Algorithm::EcdsaP256, pair.public_key().as_ref().to_vec())
            } else {
                let pair = RsaKeyPair::from_pkcs8(&pkcs8).map_err(|_| {
                    anyhow!("the key must be Ed25519, ECDSA P-256, or RSA with 2048 to 4096 bits")
                })?;
                (Algorithm::RsaSha256, pair.public_key().as_ref().to_vec())
            };
        Ok(Self {
            algorithm,
            pkcs8,
            public,
        })
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The private key in the format that [`from_pem`](Self::from_pem) reads. Write it only to a
    /// file or to the secret store.
    pub fn expose_pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8)
    }

    /// The public key in the format that a source's secret uses.
    pub fn public(&self, form: KeyForm) -> anyhow::Result<String> {
        Ok(match form {
            KeyForm::Hex => hex::encode(self.raw()),
            KeyForm::Base64 => STANDARD.encode(self.raw()),
            KeyForm::Whpk => format!("whpk_{}", STANDARD.encode(self.raw())),
            KeyForm::Pem => pem("PUBLIC KEY", &self.spki()),
            KeyForm::SpkiBase64 => STANDARD.encode(self.spki()),
            _ => bail!("{form:?} is not a public key format"),
        })
    }

    /// The public key as a JSON Web Key Set. <https://www.rfc-editor.org/rfc/rfc7517>
    pub fn jwks(&self) -> anyhow::Result<String> {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut key = match self.algorithm {
            Algorithm::EcdsaP256 => {
                let point = self.public.get(1..).and_then(|p| p.split_at_checked(32));
                let (x, y) = point.context("the public key is not a P-256 point")?;
                json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "x": text(x), "y": text(y) })
            }
            Algorithm::RsaSha256 => {
                let pair = self.rsa()?;
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                let (n, e) = (text(&public.n), text(&public.e));
                json!({ "kty": "RSA", "alg": "RS256", "n": n, "e": e })
            }
            Algorithm::Ed25519 => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": text(&self.public) })
            }
        };
        key["kid"] = json!(self.kid());
        key["use"] = json!("sig");
        Ok(json!({ "keys": [key] }).to_string())
    }

    /// The key id: the first 16 hex digits of the SHA-256 of the public key.
    pub(super) fn kid(&self) -> String {
        hex::encode(Sha256::digest(self.spki()))
            .chars()
            .take(16)
            .collect()
    }

    /// The JWT algorithm of this key.
    pub(super) fn alg(&self) -> anyhow::Result<Alg> {
        match self.algorithm {
            Algorithm::EcdsaP256 => Ok(Alg::ES256),
            Algorithm::RsaSha256 => Ok(Alg::RS256),
            Algorithm::Ed25519 => bail!("signed tokens need an ECDSA P-256 or RSA key"),
        }
    }

    /// Signs a message. An ECDSA signature is DER-encoded.
    pub(crate) fn sign(&self, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        match self.algorithm {
            Algorithm::Ed25519 => {
                let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&self.pkcs8)
                    .map_err(|_| anyhow!("the stored key is invalid"))?;
                Ok(pair.sign(message).as_ref().to_vec())
            }
            Algorithm::EcdsaP256 => self.ecdsa(message, false),
            Algorithm::RsaSha256 => {
                let pair = self.rsa()?;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(
                    &RSA_PKCS1_SHA256,
                    &SystemRandom::new(),
                    message,
                    &mut signature,
                )
                .map_err(|_| anyhow!("cannot sign with the RSA key"))?;
                Ok(signature)
            }
        }
    }

    /// Signs a token. An ECDSA signature consists of its two numbers, concatenated, as JWS
    /// requires.
    pub(super) fn sign_token(&self, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        match self.algorithm {
            Algorithm::EcdsaP256 => self.ecdsa(message, true),
            _ => self.sign(message),
        }
    }

    fn ecdsa(&self, message: &[u8], side_by_side: bool) -> anyhow::Result<Vec<u8>> {
        let random = SystemRandom::new();
        let form = if side_by_side {
            &ECDSA_P256_SHA256_FIXED_SIGNING
        } else {
            &ECDSA_P256_SHA256_ASN1_SIGNING
        };
        let pair = EcdsaKeyPair::from_pkcs8(form, &self.pkcs8, &random)
            .map_err(|_| anyhow!("the stored key is invalid"))?;
        let signature = pair.sign(&random, message);
        let signature = signature.map_err(|_| anyhow!("cannot sign with the ECDSA key"))?;
        Ok(signature.as_ref().to_vec())
    }

    fn rsa(&self) -> anyhow::Result<RsaKeyPair> {
        RsaKeyPair::from_pkcs8(&self.pkcs8).map_err(|_| anyhow!("the stored key is invalid"))
    }

    /// The bytes that providers publish in hex or base64. For Ed25519, these are the 32 bytes of
    /// the key. For other algorithms, they are the `SubjectPublicKeyInfo`.
    fn raw(&self) -> Vec<u8> {
        match self.algorithm {
            Algorithm::Ed25519 => self.public.clone(),
            _ => self.spki(),
        }
    }

    fn spki(&self) -> Vec<u8> {
        let head = |hex: &str| hex::decode(hex).unwrap_or_default();
        match self.algorithm {
            Algorithm::Ed25519 => [head(ED25519_SPKI), self.public.clone()].concat(),
            Algorithm::EcdsaP256 => [head(P256_SPKI), self.public.clone()].concat(),
            Algorithm::RsaSha256 => {
                let bits = der(0x03, &[&[0], self.public.as_slice()].concat());
                der(0x30, &[head(RSA_ALGORITHM), bits].concat())
            }
        }
    }
}

/// Encodes a DER element. <https://www.itu.int/rec/T-REC-X.690>
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut length: Vec<u8> = content.len().to_be_bytes().to_vec();
    length.drain(..length.iter().take_while(|b| **b == 0).count());
    let short = content.len() < 0x80;
    let mut element = vec![tag];
    if !short {
        element.push(0x80 | u8::try_from(length.len()).unwrap_or(0));
    }
    element.extend(length);
    element.extend_from_slice(content);
    element
}

fn pem(what: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {what}-----\n");
    let encoded = STANDARD.encode(der);
    for (index, c) in encoded.chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            text.push('\n');
        }
        text.push(c);
    }
    text + &format!("\n-----END {what}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::verify::{Jwks, key};

    /// A key that was generated for this test with `openssl genpkey -algorithm RSA -pkeyopt
    /// rsa_keygen_bits:2048`.
    const RSA: &str = include_str!("../../../tests/data/rsa-test-key.pem");

    #[test]
    fn a_pair_is_read_back_from_its_pem() {
        for algorithm in [Algorithm::Ed25519, Algorithm::EcdsaP256] {
            let pair = KeyPair::generate(algorithm).unwrap();
            let again = KeyPair::from_pem(&pair.expose_pem()).unwrap();
            assert_eq!(
                (again.algorithm(), &again.public),
                (algorithm, &pair.public)
            );
            assert_eq!(format!("{pair:?}"), format!("KeyPair({algorithm})"));
        }
        assert_eq!(
            KeyPair::from_pem(RSA).unwrap().algorithm(),
            Algorithm::RsaSha256
        );
        assert!(KeyPair::generate(Algorithm::RsaSha256).is_err());
        let public = KeyPair::from_pem(RSA).unwrap().public(KeyForm::Pem);
        assert!(KeyPair::from_pem(&public.unwrap()).is_err());
    }

    #[test]
    fn a_public_key_is_written_as_the_verification_reads_it() {
        let ed25519 = KeyPair::generate(Algorithm::Ed25519).unwrap();
        for form in [KeyForm::Hex, KeyForm::Base64, KeyForm::Whpk] {
            let text = ed25519.public(form).unwrap();
            assert_eq!(key(form, &text).unwrap(), ed25519.public);
        }
        let p256 = KeyPair::generate(Algorithm::EcdsaP256).unwrap();
        for pair in [&ed25519, &p256, &KeyPair::from_pem(RSA).unwrap()] {
            for form in [KeyForm::Pem, KeyForm::SpkiBase64] {
                let text = pair.public(form).unwrap();
                assert_eq!(key(form, &text).unwrap(), pair.spki(), "{pair:?}");
            }
        }
        assert!(ed25519.public(KeyForm::Utf8).is_err());
        assert!(Jwks::parse(&p256.jwks().unwrap()).is_ok());
    }
}
