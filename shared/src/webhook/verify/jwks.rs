//! Public keys as JSON Web Keys. <https://www.rfc-editor.org/rfc/rfc7517>

use base64::Engine as _;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use super::decode::BASE64_URL;
use crate::webhook::preset::{Alg, Kind};

/// The maximum number of keys to read from a set.
const MOST: usize = 64;

/// A set of public keys, each with its `kid`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Jwks(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    kid: Option<String>,
    public: Public,
}

#[derive(Clone, Debug)]
enum Public {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// The uncompressed point.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Jwks {
    /// Parses a set. Ignores keys of other types.
    pub fn parse(json: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<serde_json::Value>,
        }
        let Set { keys } = serde_json::from_str(json)?;
        Ok(Self(keys.iter().take(MOST).filter_map(key).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a key with this `kid` made the signature. Returns `None` if the set has no
    /// such key.
    pub(super) fn verifies(
        &self,
        alg: Alg,
        kid: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let mut named = self.0.iter().filter(|key| {
            let fits = matches!(
                (alg, &key.public),
                (Alg::RS256, Public::Rsa { .. }) | (Alg::ES256, Public::P256(_))
            );
            fits && (kid.is_none() || kid == key.kid.as_deref())
        });
        let first = named.next()?;
        let good = |key: &Key| match &key.public {
            Public::Rsa { n, e } => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
                .is_ok(),
            Public::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(signed, signature)
                .is_ok(),
            Public::Ed25519(_) => false,
        };
        Some(good(first) || named.any(good))
    }

    /// Returns the keys for signatures of this kind, each with its name, in the form that
    /// [`signed_by`](super::key::signed_by) reads. With a `kid`, returns only the key of this id.
    pub(super) fn keys(&self, kind: &Kind, kid: Option<&str>) -> Vec<(String, Vec<u8>)> {
        let named = self.0.iter().enumerate();
        let named = named.filter(|(_, key)| kid.is_none() || kid == key.kid.as_deref());
        let keys = named.filter_map(|(index, key)| {
            let bytes = match (kind, &key.public) {
                (Kind::Ed25519, Public::Ed25519(raw)) => raw.clone(),
                (Kind::EcdsaP256, Public::P256(point)) => spki(&P256, point),
                (Kind::RsaSha256, Public::Rsa { n, e }) => {
                    spki(&RSA, &der(0x30, &[integer(n), integer(e)].concat()))
                }
                _ => return None,
            };
            Some((key.kid.clone().unwrap_or_else(|| index.to_string()), bytes))
        });
        keys.collect()
    }
}

/// The algorithm identifiers in a `SubjectPublicKeyInfo`.
/// <https://www.rfc-editor.org/rfc/rfc3279>, <https://www.rfc-editor.org/rfc/rfc5480>
const RSA: [u8; 15] = [
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
const P256: [u8; 21] = [
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];

fn spki(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let bits = der(0x03, &[&[0], key].concat());
    der(0x30, &[algorithm, &bits].concat())
}

/// Encodes a positive number, which must not begin with a set bit.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let bytes = bytes.get(zeros..).unwrap_or_default();
    der(
        0x02,
        &[&[0][..], bytes]
            .concat()
            .split_off(usize::from(bytes.first().is_some_and(|b| b & 0x80 == 0))),
    )
}

/// Encodes a DER element. <https://www.itu.int/rec/T-REC-X.690>
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let zeros = length.iter().take_while(|b| **b == 0).count();
    let length = length.get(zeros..).unwrap_or_default();
    let mut element = vec![tag];
    if content.len() >= 0x80 {
        element.push(0x80 | u8::try_from(length.len()).unwrap_or(0));
    }
    element.extend(if content.is_empty() { &[0] } else { length });
    element.extend_from_slice(content);
    element
}

impl TryFrom<String> for Jwks {
    type Error = String;

    fn try_from(json: String) -> Result<Self, String> {
        Self::parse(&json).map_err(|error| format!("invalid key set: {error}"))
    }
}

fn key(jwk: &serde_json::Value) -> Option<Key> {
    let text = |name: &str| jwk[name].as_str();
    let bytes = |name: &str| BASE64_URL.decode(text(name)?).ok();
    let public = match text("kty")? {
        "RSA" => Public::Rsa {
            n: bytes("n")?,
            e: bytes("e")?,
        },
        "EC" if text("crv") == Some("P-256") => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            Public::P256([&[4][..], &x, &y].concat())
        }
        "OKP" if text("crv") == Some("Ed25519") => Public::Ed25519(bytes("x")?),
        _ => return None,
    };
    Some(Key {
        kid: text("kid").map(str::to_owned),
        public,
    })
}

#[cfg(test)]
mod tests {
    use super::super::key::signed_by;
    use super::*;
    use crate::webhook::sign::{Algorithm, KeyPair};

    const PEM: &str = include_str!("../../../tests/data/rsa-test-key.pem");

    #[test]
    fn a_published_key_verifies_a_signature() {
        let rsa = KeyPair::from_pem(PEM).unwrap();
        for (kind, pair) in [
            (
                Kind::Ed25519,
                KeyPair::generate(Algorithm::Ed25519).unwrap(),
            ),
            (
                Kind::EcdsaP256,
                KeyPair::generate(Algorithm::EcdsaP256).unwrap(),
            ),
            (Kind::RsaSha256, rsa),
        ] {
            let set = Jwks::parse(&pair.jwks().unwrap()).unwrap();
            let keys = set.keys(&kind, None);
            let [(kid, key)] = keys.as_slice() else {
                panic!("{kind:?}: {keys:?}");
            };
            let signature = pair.sign(b"message").unwrap();
            assert!(signed_by(&kind, key, b"message", &signature), "{kind:?}");
            assert!(!signed_by(&kind, key, b"massage", &signature), "{kind:?}");
            assert_eq!(set.keys(&kind, Some(kid)).len(), 1);
            assert_eq!(set.keys(&kind, Some("other")).len(), 0);
        }
    }

    #[test]
    fn a_key_of_another_form_is_ignored() {
        for key in [
            r#"{"kty":"OKP","crv":"X25519","x":"AAAA"}"#,
            r#"{"kty":"OKP","crv":"Ed25519"}"#,
            r#"{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}"#,
            r#"{"kty":"RSA","n":"!","e":"AQAB"}"#,
            "{}",
            "7",
        ] {
            let set = Jwks::parse(&format!(r#"{{"keys":[{key}]}}"#)).unwrap();
            assert!(set.is_empty(), "{key}");
        }
        // Such keys have a wrong length, and verify nothing.
        let odd = r#"{"keys":[{"kty":"RSA","n":"","e":""},{"kty":"OKP","crv":"Ed25519","x":""}]}"#;
        let set = Jwks::parse(odd).unwrap();
        for kind in [Kind::RsaSha256, Kind::Ed25519] {
            for (_, key) in set.keys(&kind, None) {
                assert!(!signed_by(&kind, &key, b"", b""));
            }
        }
    }
}
