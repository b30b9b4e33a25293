//! Public keys as JSON Web Keys. <https://www.rfc-editor.org/rfc/rfc7517>

use base64::Engine as _;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use super::decode::BASE64_URL;
use crate::webhook::preset::Alg;

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
        };
        Some(good(first) || named.any(good))
    }
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
        _ => return None,
    };
    Some(Key {
        kid: text("kid").map(str::to_owned),
        public,
    })
}
