//! What a source trusts beside its secrets: public keys, certificates, and its first sender.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, TrustAnchor};
use serde::Deserialize;
use webpki::anchor_from_trusted_cert;

use super::jwks::Jwks;

/// What verification may believe of what it cannot fetch. Verification itself never fetches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// Whether a handshake may set the secret. Unset, it may as long as there is none.
    pub arming: Option<bool>,
    /// The keys that signed tokens name, as the provider publishes them (a JSON Web Key Set).
    pub jwks: Option<Jwks>,
    #[serde(default)]
    pub certificates: Certificates,
}

/// Certificates by the URL they were fetched from, and who must have signed them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Files")]
pub struct Certificates {
    roots: Arc<[TrustAnchor<'static>]>,
    by_url: BTreeMap<String, Arc<[CertificateDer<'static>]>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    /// The trusted roots, in PEM.
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

    /// Whether anything can be trusted at all.
    pub fn has_roots(&self) -> bool {
        !self.roots.is_empty()
    }

    pub(super) fn roots(&self) -> &[TrustAnchor<'static>] {
        &self.roots
    }

    pub(super) fn get(&self, url: &str) -> Option<&[CertificateDer<'static>]> {
        self.by_url.get(url).map(AsRef::as_ref)
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
