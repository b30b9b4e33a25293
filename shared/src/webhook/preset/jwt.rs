//! A signed token in a header, and what it has to claim.

use anyhow::{bail, ensure};
use serde::Deserialize;

use super::Location;

/// The `jwt` of a `[[verify]]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    pub from: Location,
    #[serde(default)]
    pub prefix: String,
    /// What the token may say that it is signed with. It never chooses beyond these.
    pub algs: Vec<Alg>,
    pub key: KeySource,
    /// The issuer, exactly.
    pub iss: Option<String>,
    /// One of the audiences; `{public_url}` stands for the URL of the source.
    pub aud: Option<String>,
    /// The e-mail address, which the issuer must say it has verified.
    pub email: Option<String>,
    /// Whether it must expire, and not have expired.
    #[serde(default)]
    pub exp: bool,
    /// Whether it must say from when on it is valid.
    #[serde(default)]
    pub nbf: bool,
    /// The longest time since it was issued, in seconds.
    pub iat_max_age: Option<i64>,
    /// The claim that holds the SHA-256 of the body in hex.
    pub body_sha256_claim: Option<String>,
    /// The claim that holds the SHA-256 of the URL in hex.
    pub url_sha256_claim: Option<String>,
    /// The claim that holds the SHA-256 of method, path and query in Atlassian's canonical form.
    pub qsh_claim: Option<String>,
    /// How the path begins that is no part of that form: the path of the app's base URL.
    #[serde(default)]
    pub base_path: String,
    /// How far the clocks may be apart, in seconds.
    #[serde(default)]
    pub leeway: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Alg {
    HS256,
    RS256,
    ES256,
}

/// Where the keys of a token come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum KeySource {
    /// The secrets, as they are.
    Secret,
    /// A set of public keys: the one that the source is given, else the one that backup-sync
    /// fetches from this URL. Without a URL it has to be given.
    Jwks(String),
    /// Such a set too, but the provider gives out one key at a time, by its `kid`, and asks for
    /// credentials.
    ByKid,
}

impl Jwt {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.algs.is_empty(), "jwt.algs is empty");
        let shared = self.key == KeySource::Secret;
        ensure!(
            self.algs.iter().all(|alg| (*alg == Alg::HS256) == shared),
            "jwt.algs and jwt.key do not go together"
        );
        ensure!(self.leeway >= 0, "jwt.leeway cannot be negative");
        Ok(())
    }
}

impl TryFrom<String> for KeySource {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        match text.as_str() {
            "utf8" => Ok(Self::Secret),
            "jwks:param" => Ok(Self::Jwks(String::new())),
            "code:plaid" => Ok(Self::ByKid),
            _ => match text.strip_prefix("jwks:") {
                Some(url) if url.starts_with("https://") => Ok(Self::Jwks(url.to_owned())),
                _ => bail!("{text:?} is no source of keys"),
            },
        }
    }
}
