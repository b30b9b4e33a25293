//! The public keys, certificates and settings with which a source verifies requests, in addition to
//! its secrets.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, TrustAnchor};
use serde::Deserialize;
use webpki::anchor_from_trusted_cert;

use super::decode::BASE64;
use super::jwks::Jwks;
use crate::webhook::preset::{Code, Jwt, KeySource, Kind, RequiredValue, Scheme};

/// The public keys, certificates and settings that verification uses in addition to secrets.
/// Verification never fetches a document. backup-sync fetches missing documents, and
/// [`learn`](Trust::learn) adds them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// Whether a handshake can set the secret. `None` means that a handshake can set the secret
    /// while the source has no secret. A handshake never replaces a secret that another handshake
    /// has set.
    pub arming: Option<bool>,
    /// The keys of signed tokens, in the provider's format (a JSON Web Key Set).
    jwks: Option<Jwks>,
    /// The public keys of signatures, for providers that return one key per request.
    #[serde(default)]
    pub(crate) keys: Keys,
    /// The name of a secret below the path of backup-sync. The secret contains the credentials for
    /// fetching public keys, in the form `client-id:secret`. For unsigned notices, it contains the
    /// API key for fetching the objects that the notices name.
    pub api_secret: Option<String>,
    #[serde(default)]
    certificates: Certificates,
    /// The scheme and host of a mirror. Mitt fetches certificates and key sets from the mirror
    /// instead of the provider. A mirror is for networks without internet access, and for tests.
    pub fetch_from: Option<String>,
    /// The `public_url` of the source, which is the URL that the provider calls, without its query.
    /// It is set if the catcher sees another URL.
    #[serde(skip)]
    pub public_url: Option<String>,
    #[serde(skip)]
    published: Published,
}

/// The documents that backup-sync has fetched, by name. Clones share the documents.
#[derive(Clone, Debug, Default)]
struct Published(Arc<RwLock<Known>>);

#[derive(Debug, Default)]
struct Known {
    chains: BTreeMap<String, Chain>,
    keys: BTreeMap<String, Arc<[u8]>>,
    key_sets: BTreeMap<String, Jwks>,
}

/// A certificate and its intermediate certificates.
pub(super) type Chain = Arc<[CertificateDer<'static>]>;

/// A document that a provider publishes and that verification needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// A certificate in PEM, at this URL.
    Certificate(String),
    /// A JSON Web Key Set, at this URL.
    KeySet(String),
    /// A public key in PEM, at this URL.
    PublicKey(String),
    /// The key with this `kid`. A `kid` consists of letters, digits, `-` and `_`. For tokens, the
    /// document is a key set with one key. For signatures, the document is a key in PEM.
    Key(String),
}

impl Wanted {
    /// The name under which the document is stored.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Certificate(url) | Self::KeySet(url) | Self::PublicKey(url) => url.into(),
            Self::Key(kid) => format!("kid:{kid}").into(),
        }
    }

    /// Fails if the text is not the wanted document.
    pub fn check(&self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Certificate(_) => {
                let chain = certificates(text)?;
                ensure!(!chain.is_empty(), "the document contains no certificate");
            }
            Self::KeySet(_) => {
                ensure!(
                    !Jwks::parse(text)?.is_empty(),
                    "the document contains no usable key"
                );
            }
            Self::PublicKey(_) => {
                ensure!(
                    spki(text).is_some(),
                    "the document is not a public key in PEM"
                );
            }
            Self::Key(_) => {
                let usable = Jwks::parse(text).is_ok_and(|set| !set.is_empty());
                ensure!(
                    usable || spki(text).is_some(),
                    "the document is not a public key"
                );
            }
        }
        Ok(())
    }
}

impl Trust {
    /// Creates the settings that an operator configures.
    pub fn given(arming: Option<bool>, jwks: Option<Jwks>, certificates: Certificates) -> Self {
        Self {
            arming,
            jwks,
            certificates,
            ..Self::default()
        }
    }

    /// Adds public keys by their `kid`.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    /// Replaces the fetched documents, by name. Ignores documents that cannot be read.
    pub fn learn<'d>(&self, documents: impl IntoIterator<Item = (&'d str, &'d str)>) {
        let mut known = Known::default();
        for (name, text) in documents {
            if let Ok(jwks) = Jwks::parse(text) {
                known.key_sets.insert(name.to_owned(), jwks);
            } else if let Some(spki) = spki(text) {
                known.keys.insert(name.to_owned(), spki.into());
            } else if let Ok(chain) = certificates(text)
                && !chain.is_empty()
            {
                known.chains.insert(name.to_owned(), chain.into());
            }
        }
        let published = self.published.0.write();
        *published.unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Returns the URL to fetch from. If a mirror is set, returns the URL of the mirror.
    pub fn fetch_url(&self, url: &str) -> String {
        let after = url.split_once("://").map_or(url, |(_, after)| after);
        let path = after.find('/').map_or("", |at| &after[at..]);
        match &self.fetch_from {
            Some(mirror) => format!("{}{path}", mirror.trim_end_matches('/')),
            None => url.to_owned(),
        }
    }

    pub(super) fn chain(&self, url: &str) -> Option<Chain> {
        let given = self.certificates.by_url.get(url);
        given.cloned().or_else(|| {
            let known = self.published.0.read();
            let known = known.unwrap_or_else(PoisonError::into_inner);
            known.chains.get(url).cloned()
        })
    }

    /// Returns the trusted roots. If no roots are configured, returns the roots of the operating
    /// system.
    pub(super) fn roots(&self) -> Arc<[TrustAnchor<'static>]> {
        static SYSTEM: LazyLock<Arc<[TrustAnchor<'static>]>> = LazyLock::new(|| {
            let found = rustls_native_certs::load_native_certs();
            let anchors = found.certs.iter();
            let anchors =
                anchors.filter_map(|root| Some(anchor_from_trusted_cert(root).ok()?.to_owned()));
            anchors.collect()
        });
        if self.certificates.roots.is_empty() {
            SYSTEM.clone()
        } else {
            self.certificates.roots.clone()
        }
    }

    /// Returns the reason why a source with these settings cannot use the scheme, or `None` if it
    /// can.
    pub fn unusable(&self, scheme: &Scheme) -> Option<String> {
        let unset = |required: &RequiredValue| required.is.is_empty();
        if scheme.require_value.iter().any(unset) {
            return Some(
                "the parameter for a required value is not set; set it in params".to_owned(),
            );
        }
        match &scheme.kind {
            Kind::Code(Code::Missing(name)) => Some(format!(
                "the signature needs code ({name}) that is not implemented"
            )),
            Kind::Code(Code::Ebay) if self.keys.is_empty() && self.api_secret.is_none() => Some(
                "set trust.api_secret to the name of the credentials for fetching public keys, or \
                 trust.keys to the public key of each kid"
                    .to_owned(),
            ),
            Kind::FetchBack if self.api_secret.is_none() => Some(
                "set trust.api_secret to the name of the API key for fetching the objects that \
                 notices name; store the key with `aws ssm put-parameter --type SecureString \
                 --name /<stack>/provider-api/NAME/current --value file://api-key`"
                    .to_owned(),
            ),
            Kind::Jwt => {
                let jwt = scheme.jwt.as_ref()?;
                let empty = |claim: &Option<String>| claim.as_deref() == Some("");
                if empty(&jwt.aud) || empty(&jwt.email) || empty(&jwt.iss) {
                    return Some(
                        "the parameter for a required claim of the token is not set; set it in \
                         params"
                            .to_owned(),
                    );
                }
                if self.has_jwks() {
                    return None;
                }
                match &jwt.key {
                    KeySource::Jwks(url) if url.is_empty() => {
                        Some("set trust.jwks to the key set of the provider".to_owned())
                    }
                    KeySource::ByKid if self.api_secret.is_none() => Some(
                        "set trust.api_secret to the name of the credentials for fetching public \
                         keys, or trust.jwks to the keys themselves"
                            .to_owned(),
                    ),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns whether the scheme needs documents that the source does not configure, so that
    /// backup-sync must fetch them.
    pub(crate) fn fetches(&self, scheme: &Scheme) -> bool {
        match &scheme.kind {
            Kind::Code(Code::Adobe | Code::PayPal | Code::Sns) => true,
            Kind::Code(Code::Ebay) => self.keys.is_empty(),
            Kind::Jwt => {
                let public = |jwt: &Jwt| !jwt.key.is_stored();
                !self.has_jwks() && scheme.jwt.as_ref().is_some_and(public)
            }
            _ => scheme.key_set.is_some() && !self.has_jwks(),
        }
    }

    /// Returns whether the operator configures a key set.
    pub fn has_jwks(&self) -> bool {
        self.jwks.is_some()
    }

    /// Returns the `SubjectPublicKeyInfo` of the configured or fetched key with this `kid`.
    pub(super) fn key(&self, kid: &str) -> Option<Arc<[u8]>> {
        let given = self.keys.0.get(kid).cloned();
        given.or_else(|| {
            let known = self.published.0.read();
            let known = known.unwrap_or_else(PoisonError::into_inner);
            let name = Wanted::Key(kid.to_owned());
            known.keys.get(name.name().as_ref()).cloned()
        })
    }

    /// Returns the `SubjectPublicKeyInfo` of the key that was fetched from this URL.
    pub(super) fn public_key(&self, url: &str) -> Option<Arc<[u8]>> {
        let known = self.published.0.read();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        known.keys.get(url).cloned()
    }

    /// Returns the configured key set. If no key set is configured, returns the key set that was
    /// fetched under this name.
    pub(super) fn key_set(&self, name: &str) -> Option<KeySet> {
        if let Some(given) = &self.jwks {
            return Some(KeySet {
                keys: given.clone(),
                fetched: false,
            });
        }
        let known = self.published.0.read();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        Some(KeySet {
            keys: known.key_sets.get(name)?.clone(),
            fetched: true,
        })
    }
}

/// A key set, and whether Mitt fetched it. The provider may have a newer version of a fetched set.
pub(super) struct KeySet {
    pub(super) keys: Jwks,
    pub(super) fetched: bool,
}

/// Public keys by their `kid`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Keys(BTreeMap<String, Arc<[u8]>>);

impl Keys {
    /// Parses the keys, each in PEM. Line breaks may be missing, because some providers omit them.
    pub fn new(by_kid: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let keys = by_kid.iter().map(|(kid, pem)| {
            let spki =
                spki(pem).with_context(|| format!("key {kid} is not a public key in PEM"))?;
            Ok((kid.clone(), spki.into()))
        });
        Ok(Self(keys.collect::<anyhow::Result<_>>()?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for Keys {
    type Error = String;

    fn try_from(by_kid: BTreeMap<String, String>) -> Result<Self, String> {
        Self::new(&by_kid).map_err(|error| format!("{error:#}"))
    }
}

fn spki(pem: &str) -> Option<Vec<u8>> {
    let text = pem.trim().strip_prefix("-----BEGIN PUBLIC KEY-----")?;
    let text = text.strip_suffix("-----END PUBLIC KEY-----")?;
    let packed: String = text.split_ascii_whitespace().collect();
    BASE64.decode(packed).ok().filter(|spki| !spki.is_empty())
}

/// Certificates by the URL from which they were fetched, and the trusted roots.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Files")]
pub struct Certificates {
    roots: Arc<[TrustAnchor<'static>]>,
    by_url: BTreeMap<String, Chain>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    /// The trusted roots, in PEM. If empty, Mitt uses the roots of the operating system.
    #[serde(default)]
    roots: String,
    /// The PEM text for each URL: the certificate and its intermediate certificates.
    #[serde(default)]
    by_url: BTreeMap<String, String>,
}

impl Certificates {
    /// Parses roots and known certificates.
    pub fn new(roots: &str, by_url: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let roots = certificates(roots).context("parse the root certificates")?;
        let roots = roots.iter().map(|root| {
            let anchor = anchor_from_trusted_cert(root)?;
            Ok(anchor.to_owned())
        });
        let roots: Result<Vec<_>, webpki::Error> = roots.collect();
        let known = by_url.iter().map(|(url, pem)| {
            let chain =
                certificates(pem).with_context(|| format!("parse the certificate of {url}"))?;
            ensure!(
                !chain.is_empty(),
                "the PEM for {url} contains no certificate"
            );
            Ok((url.clone(), chain.into()))
        });
        Ok(Self {
            roots: roots.context("invalid root certificate")?.into(),
            by_url: known.collect::<anyhow::Result<_>>()?,
        })
    }
}

impl TryFrom<Files> for Certificates {
    type Error = String;

    fn try_from(files: Files) -> Result<Self, String> {
        Self::new(&files.roots, &files.by_url).map_err(|error| format!("{error:#}"))
    }
}

fn certificates(pem: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(|certificate| certificate.map_err(|error| anyhow::anyhow!("invalid PEM: {error}")))
        .collect()
}
