//! Makes the request of a stored event again, signed for a receiver that verifies the provider's
//! signatures. The processor, `listen --resign` and `send --event` share this code, so that a
//! developer sees what a deployment sends.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use bytes::Bytes;

use super::place::with_pair;
use super::{KeyPair, Means, means, signed, signed_by};
use crate::base::clock::UnixMillis;
use crate::webhook::envelope::{Envelope, Headers};
use crate::webhook::preset::{KeySource, Kind, Location, Locations, Preset, Scheme};
use crate::webhook::secret::Secret;

/// The parts of a stored event from which its request is made.
#[derive(Clone, Debug)]
pub struct Original<'e> {
    /// The provider's id and type of the event. If the headers lack them, because Mitt fetched the
    /// event, they are added.
    pub id: &'e str,
    pub kind: &'e str,
    /// The stored headers, with those that contain the provider's signature.
    pub headers: Headers,
    pub body: Bytes,
}

/// The URL of a receiver, with the query.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'u> {
    pub url: &'u str,
    /// The URL that the receiver verifies. `None` if this is `url`.
    pub signed_url: Option<&'u str>,
}

/// The key of a receiver.
#[derive(Clone, Debug)]
pub enum SigningKey {
    Secret(Secret),
    KeyPair(KeyPair),
    /// No key: the scheme has no signature.
    Nothing,
}

/// A request as the receiver gets it.
#[derive(Clone, Debug)]
pub struct SignedRequest {
    pub url: String,
    pub headers: Headers,
    pub body: Bytes,
}

impl SigningKey {
    /// Reads a stored secret in the form that the scheme needs: the secret itself, or a private key
    /// as PKCS #8 in PEM.
    pub fn parse(scheme: &Scheme, secret: &Secret) -> anyhow::Result<Self> {
        Ok(match means(scheme) {
            Means::Secret => Self::Secret(secret.clone()),
            Means::KeyPair(algorithm) => {
                let needed =
                    || format!("the secret must be an {algorithm} private key, PKCS #8 in PEM");
                let pair = KeyPair::from_pem(secret.expose()).with_context(needed)?;
                ensure!(
                    pair.algorithm() == algorithm,
                    "{}; it is an {} key",
                    needed(),
                    pair.algorithm()
                );
                Self::KeyPair(pair)
            }
            Means::Nothing => Self::Nothing,
            Means::No(why) => anyhow::bail!(why),
        })
    }
}

/// Returns the reason why a receiver of this scheme cannot verify a signature by Mitt. Returns
/// `None` if it can.
pub fn unsignable(scheme: &Scheme) -> Option<&'static str> {
    match means(scheme) {
        Means::No(why) => Some(why),
        Means::Nothing => Some("the provider does not sign its requests"),
        Means::Secret => None,
        Means::KeyPair(_) if scheme.key_set.is_some() => {
            Some("receivers fetch the keys from the provider")
        }
        Means::KeyPair(_) => match scheme.jwt.as_ref().map(|jwt| &jwt.key) {
            Some(KeySource::ByKid) => Some("receivers fetch the keys from the provider"),
            Some(KeySource::Jwks(url)) if !url.is_empty() => {
                Some("receivers fetch the keys from the provider")
            }
            _ => None,
        },
    }
}

/// Returns the reason why Mitt cannot forward the provider's own signature. Returns `None` if it
/// can.
pub fn not_kept(scheme: &Scheme) -> Option<&'static str> {
    match scheme.kind {
        Kind::Token | Kind::Basic | Kind::Jwt => {
            Some("its requests contain a credential, which Mitt does not store")
        }
        Kind::None | Kind::FetchBack => Some("the provider does not sign its requests"),
        _ => None,
    }
}

/// Signs the request of an event as the provider would sign it now. Only the signature, and the
/// values that belong to it, differ from the original; every other header and byte is the same.
pub fn outgoing(
    preset: &Preset,
    scheme: &Scheme,
    original: &Original<'_>,
    key: &SigningKey,
    receiver: Receiver<'_>,
    at: UnixMillis,
) -> anyhow::Result<SignedRequest> {
    let sent: BTreeSet<&str> = original.headers.iter().map(|(name, _)| name).collect();
    let kept = original.headers.iter();
    let kept = kept.filter(|(name, _)| !preset.is_signature_header(name));
    let mut unsigned = Envelope {
        method: "POST".to_owned(),
        url: receiver.signed_url.unwrap_or(receiver.url).to_owned(),
        headers: kept.collect(),
        body: original.body.clone(),
        received_at: at,
    };
    add_missing(&mut unsigned, &preset.event.id, original.id);
    add_missing(&mut unsigned, &preset.event.kind, original.kind);
    let mut request = match key {
        SigningKey::Secret(secret) => signed(scheme, secret, unsigned.clone(), at)?,
        SigningKey::KeyPair(pair) => signed_by(scheme, pair, unsigned.clone(), at)?,
        SigningKey::Nothing => unsigned.clone(),
    };
    let ts = scheme.ts.iter().map(|ts| &ts.from);
    let hash = scheme.body_hash.iter().map(|hash| &hash.from);
    let beside: Vec<&Location> = ts.chain(hash).collect();
    for at in scheme.proof().collect::<Vec<_>>().iter().chain(beside) {
        name_as_received(&mut request.headers, at, &sent);
    }
    for other in &scheme.sig.also {
        copy_signature(&mut request.headers, scheme, other, &sent);
    }
    let url = match receiver.signed_url {
        None => request.url,
        Some(before) => with_changes(receiver.url, before, &request.url),
    };
    Ok(SignedRequest {
        url,
        headers: request.headers,
        body: request.body,
    })
}

/// Sets the header of an id or a type that the request lacks. An id that Mitt has computed from the
/// content is not set, because the provider does not know it.
fn add_missing(envelope: &mut Envelope, at: &Locations, value: &str) {
    let is_computed = ["sha256:", "at:", "h:"]
        .iter()
        .any(|p| value.starts_with(p));
    if value.is_empty() || is_computed || at.first(&*envelope).is_some() {
        return;
    }
    let names = at.0.iter().find_map(|at| match at {
        Location::Header(names) => names.first(),
        _ => None,
    });
    if let Some(name) = names {
        envelope.headers.set(name, value);
    }
}

/// Moves a new value from the first name of a header to the names that the provider has used,
/// because a receiver can read any of these names.
fn name_as_received(headers: &mut Headers, at: &Location, sent: &BTreeSet<&str>) {
    let Location::Header(names) = at else { return };
    let Some((first, others)) = names.split_first() else {
        return;
    };
    let used: Vec<&String> = others
        .iter()
        .filter(|name| sent.contains(name.as_str()))
        .collect();
    let Some(value) = headers.all(first).next().map(str::to_owned) else {
        return;
    };
    for name in &used {
        headers.set(name, &value);
    }
    if !used.is_empty() && !sent.contains(first.as_str()) {
        headers.remove(first);
    }
}

/// Sets the new signature at another location of signatures, if the provider sent one there.
fn copy_signature(headers: &mut Headers, scheme: &Scheme, to: &Location, sent: &BTreeSet<&str>) {
    if let (Location::Header(from), Location::Header(to)) = (&scheme.sig.from, to) {
        let value = from.iter().find_map(|name| headers.all(name).next());
        if let Some(value) = value.map(str::to_owned) {
            for name in to.iter().filter(|name| sent.contains(name.as_str())) {
                headers.set(name, &value);
            }
        }
    }
}

/// Returns the URL with the query parameters that signing has added or changed. `before` and `after`
/// are the signed URL before and after that.
fn with_changes(url: &str, before: &str, after: &str) -> String {
    let pairs = |url: &str| -> Vec<String> {
        let (_, query) = url.split_once('?').unwrap_or_default();
        query.split('&').map(str::to_owned).collect()
    };
    let known = pairs(before);
    let mut url = url.to_owned();
    for pair in pairs(after).iter().filter(|pair| !known.contains(pair)) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        let value = crate::webhook::envelope::form_decode(value);
        url = format!("{path}?{}", with_pair(query, name, &value));
    }
    url
}

#[cfg(test)]
mod tests;
