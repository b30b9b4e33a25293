//! What a source trusts beside its secrets: public keys, certificates, and its first sender.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use anyhow::{Context as _, ensure};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, TrustAnchor};
use serde::Deserialize;
use webpki::anchor_from_trusted_cert;

use super::jwks::Jwks;

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
    #[serde(default)]
    certificates: Certificates,
    /// A mirror: scheme and host that certificates and key sets are fetched from, in place of the
    /// provider's own. For networks that let nothing out, and for tests.
    pub fetch_from: Option<String>,
    #[serde(skip)]
    published: Published,
}

/// What backup-sync has fetched, by URL. Clones share it.
#[derive(Clone, Debug, Default)]
struct Published(Arc<RwLock<Known>>);

#[derive(Debug, Default)]
struct Known {
    chains: BTreeMap<String, Chain>,
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
}

impl Wanted {
    pub fn url(&self) -> &str {
        match self {
            Self::Certificate(url) | Self::KeySet(url) => url,
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

    /// Takes over documents that were fetched, by URL. What cannot be read is passed over.
    pub fn learn<'d>(&self, documents: impl IntoIterator<Item = (&'d str, &'d str)>) {
        let mut known = Known::default();
        for (url, text) in documents {
            if let Ok(jwks) = Jwks::parse(text) {
                known.key_sets.insert(url.to_owned(), jwks);
            } else if let Ok(chain) = certificates(text)
                && !chain.is_empty()
            {
                known.chains.insert(url.to_owned(), chain.into());
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

    /// Whether the operator gives a key set by hand.
    pub fn has_jwks(&self) -> bool {
        self.jwks.is_some()
    }

    /// The key set that is given, else the one that was fetched from this URL.
    pub(super) fn key_set(&self, url: &str) -> Option<KeySet> {
        if let Some(given) = &self.jwks {
            return Some(KeySet {
                keys: given.clone(),
                fetched: false,
            });
        }
        let known = self.published.0.read();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        Some(KeySet {
            keys: known.key_sets.get(url)?.clone(),
            fetched: true,
        })
    }
}

/// A key set, and whether a newer one may be had.
pub(super) struct KeySet {
    pub(super) keys: Jwks,
    pub(super) fetched: bool,
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
