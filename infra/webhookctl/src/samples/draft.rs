//! A webhook before and after signing.

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::Envelope;
use shared::webhook::preset::{KeyForm, Kind, Preset, Scheme};
use shared::webhook::sign::{KeyPair, Means, SignedRequest, SigningKey, means, signed, signed_by};
use shared::webhook::verify::{Certificates, Jwks, Trust};

use super::fill::{random, random_hex};

/// A webhook before signing.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// The id of a preset.
    pub preset: String,
    /// The provider's event type, or an empty text if events have no type.
    pub kind: String,
    /// The provider's event id. The preset defines where the request contains it.
    pub id: String,
    pub headers: Vec<(String, String)>,
    /// The query that the provider adds to the URL.
    pub query: Vec<(String, String)>,
    pub body: Bytes,
}

/// A webhook as the provider would send it.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    /// The URL with its query. If the scheme signs the URL, the signature covers this URL.
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// The secret or key that signs a webhook.
#[derive(Clone, Debug)]
pub(crate) enum Signer {
    Secret(Secret),
    KeyPair(KeyPair),
    /// The scheme has no signature.
    Unsigned,
}

impl Draft {
    /// Signs the draft as the provider would sign it at the given time.
    pub(crate) fn sign(
        &self,
        preset: &Preset,
        variant: &str,
        signer: &Signer,
        url: &str,
        at: UnixMillis,
    ) -> anyhow::Result<Signed> {
        let scheme = preset
            .scheme(variant)
            .with_context(|| format!("the preset has no variant {variant:?}"))?;
        let unsigned = Signed {
            url: self.url(url),
            headers: self.headers.clone(),
            body: self.body.clone(),
        };
        let envelope = unsigned.envelope(at);
        let envelope = match signer {
            Signer::Secret(secret) => signed(scheme, secret, envelope, at)?,
            Signer::KeyPair(pair) => signed_by(scheme, pair, envelope, at)?,
            Signer::Unsigned => envelope,
        };
        let headers = envelope.headers.iter();
        Ok(Signed {
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            url: envelope.url,
            body: envelope.body,
        })
    }

    /// Returns the URL with the query that the provider adds.
    pub(crate) fn url(&self, url: &str) -> String {
        let mut url = url.to_owned();
        for (name, value) in &self.query {
            let mark = if url.contains('?') { '&' } else { '?' };
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            url = format!("{url}{mark}{name}={value}");
        }
        url
    }
}

impl From<SignedRequest> for Signed {
    fn from(request: SignedRequest) -> Self {
        let headers = request.headers.iter();
        Self {
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            url: request.url,
            body: request.body,
        }
    }
}

impl Signed {
    /// Returns the request in the form in which the receiver gets it.
    pub(crate) fn envelope(&self, at: UnixMillis) -> Envelope {
        Envelope {
            method: "POST".to_owned(),
            url: self.url.clone(),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name, value.as_str()))
                .collect(),
            body: self.body.clone(),
            received_at: at,
        }
    }
}

impl Signer {
    /// Creates a random secret in the format of the scheme, or a new key pair.
    pub(crate) fn random(scheme: &Scheme) -> anyhow::Result<Self> {
        Ok(match means(scheme) {
            Means::Secret => Self::Secret(Secret::new("random", random_secret(scheme)?)),
            Means::KeyPair(algorithm) => Self::KeyPair(KeyPair::generate(algorithm)?),
            Means::Nothing => Self::Unsigned,
            Means::No(why) => anyhow::bail!(why),
        })
    }

    /// Returns the key in the form in which stored events are signed again.
    pub(crate) fn key(&self) -> SigningKey {
        match self {
            Self::Secret(secret) => SigningKey::Secret(secret.clone()),
            Self::KeyPair(pair) => SigningKey::KeyPair(pair.clone()),
            Self::Unsigned => SigningKey::Nothing,
        }
    }

    /// Returns the secret that the receiver stores, if there is one.
    pub(crate) fn stored(&self, scheme: &Scheme) -> anyhow::Result<Vec<Secret>> {
        Ok(match self {
            Self::Secret(secret) => vec![secret.clone()],
            Self::KeyPair(pair) if scheme.needs_secret() => {
                vec![Secret::new("public key", pair.public(scheme.key)?)]
            }
            Self::KeyPair(_) | Self::Unsigned => Vec::new(),
        })
    }

    /// Returns the keys that the receiver trusts in addition to the secret.
    pub(crate) fn trusted(&self, scheme: &Scheme) -> anyhow::Result<Trust> {
        let jwks = match self {
            Self::KeyPair(pair) if !scheme.needs_secret() => Some(Jwks::parse(&pair.jwks()?)?),
            _ => None,
        };
        Ok(Trust::given(None, jwks, Certificates::default()))
    }
}

fn random_secret(scheme: &Scheme) -> anyhow::Result<String> {
    let base64 = || Ok::<_, anyhow::Error>(STANDARD.encode(random(24)?));
    Ok(match scheme.key {
        _ if scheme.kind == Kind::Basic => format!("user:{}", random_hex(16)?),
        KeyForm::Hex => random_hex(32)?,
        KeyForm::Base64 => base64()?,
        KeyForm::Whsec | KeyForm::WhsecOrUtf8 => format!("whsec_{}", base64()?),
        _ => random_hex(20)?,
    })
}
