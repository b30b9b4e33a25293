//! What a source trusts beside its secrets: public keys, certificates, and its first sender.

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
use crate::webhook::preset::{Code, Jwt, KeySource, Kind, Scheme};

/// What verification may believe beside secrets. Verification itself never fetches: what is not
/// given here is fetched by backup-sync and [learnt](Trust::learn).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// Whether a handshake may set the secret. Unset, it may as long as there is none. It never
    /// takes the place of one that a handshake has set before.
    pub arming: Option<bool>,
    /// The keys that signed tokens name, as the provider publishes them (a JSON Web Key Set).
    jwks: Option<Jwks>,
    /// The public keys that signatures name, where the provider gives out one at a time.
    #[serde(default)]
    pub(crate) keys: Keys,
    /// The name of the credentials, below the path of backup-sync, with which public keys are
    /// fetched where the provider asks for them: `client-id:secret`. Or of the API key with which
    /// the objects that unsigned notices name are fetched.
    pub api_secret: Option<String>,
    #[serde(default)]
    certificates: Certificates,
    /// A mirror: scheme and host that certificates and key sets are fetched from, in place of the
    /// provider's own. For networks that let nothing out, and for tests.
    pub fetch_from: Option<String>,
    /// The URL that the provider posts to, without its query, where that is not the one that the
    /// catcher sees: `public_url` of the source.
    #[serde(skip)]
    pub public_url: Option<String>,
    #[serde(skip)]
    published: Published,
}

/// What backup-sync has fetched, by name. Clones share it.
#[derive(Clone, Debug, Default)]
struct Published(Arc<RwLock<Known>>);

#[derive(Debug, Default)]
struct Known {
    chains: BTreeMap<String, Chain>,
    keys: BTreeMap<String, Arc<[u8]>>,
    key_sets: BTreeMap<String, Jwks>,
}

/// A certificate and those between it and a root.
pub(super) type Chain = Arc<[CertificateDer<'static>]>;

/// A document that a provider publishes and that a request cannot be judged without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// A certificate in PEM, at this URL.
    Certificate(String),
    /// A JSON Web Key Set, at this URL.
    KeySet(String),
    /// The key with this `kid`, which consists of letters, digits, `-` and `_`: as a set of one
    /// where tokens name it, in PEM where signatures do.
    Key(String),
}

impl Wanted {
    /// What the document is called where it is kept.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Certificate(url) | Self::KeySet(url) => url.into(),
            Self::Key(kid) => format!("kid:{kid}").into(),
        }
    }

    /// Refuses what is not what was wanted.
    pub fn check(&self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Certificate(_) => {
                let chain = certificates(text)?;
                ensure!(!chain.is_empty(), "there is no certificate in it");
            }
            Self::KeySet(_) => {
                ensure!(
                    !Jwks::parse(text)?.is_empty(),
                    "there is no usable key in it"
                );
            }
            Self::Key(_) => {
                let usable = Jwks::parse(text).is_ok_and(|set| !set.is_empty());
                ensure!(usable || spki(text).is_some(), "it is no public key");
            }
        }
        Ok(())
    }
}

impl Trust {
    /// What the operator gives by hand.
    pub fn given(arming: Option<bool>, jwks: Option<Jwks>, certificates: Certificates) -> Self {
        Self {
            arming,
            jwks,
            certificates,
            ..Self::default()
        }
    }

    /// The same, and public keys by their `kid`.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    /// Takes over documents that were fetched, by name. What cannot be read is passed over.
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

    /// The URL to really fetch from.
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

    /// Who must have signed a certificate: the roots that are given, else those of the system.
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

    /// Why a source with this trust cannot use the scheme, as a sentence.
    pub fn unusable(&self, scheme: &Scheme) -> Option<String> {
        match &scheme.kind {
            Kind::Code(Code::Missing(name)) => Some(format!(
                "its signature needs code ({name}) that is not written yet"
            )),
            Kind::Code(Code::Ebay) if self.keys.is_empty() && self.api_secret.is_none() => Some(
                "it needs trust.api_secret, the name of the credentials to fetch public keys \
                 with, or trust.keys, the public key of each kid"
                    .to_owned(),
            ),
            Kind::FetchBack if self.api_secret.is_none() => Some(
                "it needs trust.api_secret, the name of the API key with which the objects that a \
                 notice names are fetched; store the key with `aws ssm put-parameter --type \
                 SecureString --name /<stack>/provider-api/NAME/current --value file://api-key`"
                    .to_owned(),
            ),
            Kind::Jwt => {
                let jwt = scheme.jwt.as_ref()?;
                let empty = |claim: &Option<String>| claim.as_deref() == Some("");
                if empty(&jwt.aud) || empty(&jwt.email) {
                    return Some("a parameter that its token has to claim is not set".to_owned());
                }
                if self.has_jwks() {
                    return None;
                }
                match &jwt.key {
                    KeySource::Jwks(url) if url.is_empty() => {
                        Some("it needs trust.jwks, the key set of the provider".to_owned())
                    }
                    KeySource::ByKid if self.api_secret.is_none() => Some(
                        "it needs trust.api_secret, the name of the credentials to fetch public \
                         keys with, or trust.jwks, the keys themselves"
                            .to_owned(),
                    ),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether the scheme needs documents that backup-sync fetches, because they are not given.
    pub(crate) fn fetches(&self, scheme: &Scheme) -> bool {
        match &scheme.kind {
            Kind::Code(Code::PayPal | Code::Sns) => true,
            Kind::Code(Code::Ebay) => self.keys.is_empty(),
            Kind::Jwt => {
                let public = |jwt: &Jwt| jwt.key != KeySource::Secret;
                !self.has_jwks() && scheme.jwt.as_ref().is_some_and(public)
            }
            _ => false,
        }
    }

    /// Whether the operator gives a key set by hand.
    pub fn has_jwks(&self) -> bool {
        self.jwks.is_some()
    }

    /// The `SubjectPublicKeyInfo` of the key with this `kid`, given or fetched.
    pub(super) fn key(&self, kid: &str) -> Option<Arc<[u8]>> {
        let given = self.keys.0.get(kid).cloned();
        given.or_else(|| {
            let known = self.published.0.read();
            let known = known.unwrap_or_else(PoisonError::into_inner);
            let name = Wanted::Key(kid.to_owned());
            known.keys.get(name.name().as_ref()).cloned()
        })
    }

    /// The key set that is given, else the one that was fetched under this name.
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

/// A key set, and whether a newer one may be had.
pub(super) struct KeySet {
    pub(super) keys: Jwks,
    pub(super) fetched: bool,
}

/// Public keys by their `kid`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Keys(BTreeMap<String, Arc<[u8]>>);

impl Keys {
    /// Reads the keys, each in PEM. Its line breaks may be missing: some providers give it so.
    pub fn new(by_kid: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let keys = by_kid.iter().map(|(kid, pem)| {
            let spki =
                spki(pem).with_context(|| format!("the key {kid} is no public key in PEM"))?;
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

/// Certificates by the URL they were fetched from, and who must have signed them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Files")]
pub struct Certificates {
    roots: Arc<[TrustAnchor<'static>]>,
    by_url: BTreeMap<String, Chain>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    /// The trusted roots, in PEM; those of the system if there are none.
    #[serde(default)]
    roots: String,
    /// URL to PEM: the certificate and those between it and a root.
    #[serde(default)]
    by_url: BTreeMap<String, String>,
}

impl Certificates {
    /// Reads roots, and the certificates that are known already.
    pub fn new(roots: &str, by_url: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let roots = certificates(roots).context("the roots")?;
        let roots = roots.iter().map(|root| {
            let anchor = anchor_from_trusted_cert(root)?;
            Ok(anchor.to_owned())
        });
        let roots: Result<Vec<_>, webpki::Error> = roots.collect();
        let known = by_url.iter().map(|(url, pem)| {
            let chain = certificates(pem).with_context(|| format!("the certificate of {url}"))?;
            ensure!(!chain.is_empty(), "{url} has no certificate");
            Ok((url.clone(), chain.into()))
        });
        Ok(Self {
            roots: roots.context("a root is no certificate")?.into(),
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
        .map(|certificate| certificate.map_err(|error| anyhow::anyhow!("is no PEM: {error}")))
        .collect()
}
