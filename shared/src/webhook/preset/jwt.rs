//! A signed token in a header or the body, and its required claims.

use anyhow::{bail, ensure};
use serde::Deserialize;

use super::{Encoding, Location};

/// The `jwt` of a `[[verify]]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// The location of the token. If this is `body`, the whole body is the token, and the event is
    /// in its claims.
    pub from: Location,
    #[serde(default)]
    pub prefix: String,
    /// The accepted algorithms. The token's header cannot select another algorithm.
    pub algs: Vec<Alg>,
    pub key: KeySource,
    /// The required issuer. An empty value matches no token.
    pub iss: Option<String>,
    /// The audience that the token must include. `{public_url}` is the URL of the source.
    pub aud: Option<String>,
    /// The required e-mail address. The token must also claim that the issuer has verified the
    /// address.
    pub email: Option<String>,
    /// Whether the token must have an expiry time.
    #[serde(default)]
    pub exp: bool,
    /// Whether the token must have a time before which it is not valid.
    #[serde(default)]
    pub nbf: bool,
    /// The maximum age of the token, in seconds.
    pub iat_max_age: Option<i64>,
    /// The claim that contains the SHA-256 of the body.
    pub body_sha256_claim: Option<String>,
    /// The encoding of this claim.
    #[serde(default)]
    pub body_sha256_enc: Encoding,
    /// Whether the sender omits this claim if the body is empty. Without this setting, a token
    /// without the claim proves nothing.
    #[serde(default)]
    pub empty_body_unhashed: bool,
    /// The claim that contains the SHA-256 of the URL, in hex.
    pub url_sha256_claim: Option<String>,
    /// The claim that contains the SHA-256 of method, path and query in Atlassian's canonical form.
    pub qsh_claim: Option<String>,
    /// The path of the app's base URL. The canonical form does not include this prefix of the path.
    #[serde(default)]
    pub base_path: String,
    /// The accepted clock difference, in seconds.
    #[serde(default)]
    pub leeway: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Alg {
    HS256,
    RS256,
    ES256,
}

/// The source of the keys for a token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum KeySource {
    /// The secrets of the source, unchanged.
    Secret,
    /// The secrets of the source, which are public keys in PEM.
    Pem,
    /// A set of public keys. If the source does not configure a set, backup-sync fetches the set
    /// from this URL. If the URL is empty, the source must configure a set.
    Jwks(String),
    /// Public keys that the provider returns one at a time, by `kid`. The provider requires
    /// credentials.
    ByKid,
}

impl Jwt {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.algs.is_empty(), "jwt.algs must not be empty");
        ensure!(
            matches!(
                self.from,
                Location::Header(_) | Location::Body | Location::Query(_)
            ),
            "jwt.from must be a header, a parameter of the query, or body"
        );
        let shared = self.key == KeySource::Secret;
        let is_rsa = |alg: &Alg| *alg == Alg::RS256;
        ensure!(
            self.key != KeySource::Pem || self.algs.iter().all(is_rsa),
            "jwt.key = \"pem\" supports only RS256"
        );
        ensure!(
            self.body_sha256_claim.is_some() || !self.empty_body_unhashed,
            "jwt.empty_body_unhashed needs jwt.body_sha256_claim"
        );
        ensure!(
            self.algs.iter().all(|alg| (*alg == Alg::HS256) == shared),
            "jwt.algs does not match jwt.key: HS256 needs key = \"utf8\", but RS256 and ES256 need \
             public keys"
        );
        ensure!(self.leeway >= 0, "jwt.leeway cannot be negative");
        Ok(())
    }
}

impl KeySource {
    /// Returns whether the keys are the secrets of the source.
    pub fn is_stored(&self) -> bool {
        matches!(self, Self::Secret | Self::Pem)
    }
}

impl TryFrom<String> for KeySource {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        match text.as_str() {
            "utf8" => Ok(Self::Secret),
            "pem" => Ok(Self::Pem),
            "jwks:param" => Ok(Self::Jwks(String::new())),
            "code:plaid" => Ok(Self::ByKid),
            _ => match text.strip_prefix("jwks:") {
                Some(url) if url.starts_with("https://") => Ok(Self::Jwks(url.to_owned())),
                _ => bail!(
                    "invalid key source {text:?}; use utf8, pem, jwks:https://…, jwks:param \
                     or code:plaid"
                ),
            },
        }
    }
}
