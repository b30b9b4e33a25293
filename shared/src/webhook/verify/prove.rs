//! Finds the secret that proves a request.

use regex_lite::Regex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

use super::candidates::{Group, candidates};
use super::decode::decode;
use super::key::{key, signed_by};
use super::message::{Context, Piece, message};
use super::{Reason, Rejected, Trust, code, joined, jwt, mac, token, unreadable, url, window};
use crate::base::clock::UnixMillis;
use crate::webhook::envelope::Envelope;
use crate::webhook::event::Sha;
use crate::webhook::preset::{Code, Kind, Place, Scheme};
use crate::webhook::secret::Secret;

/// The maximum number of items in a request.
const MOST_ITEMS: usize = 10_000;

/// The result of a verification.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// The label of the secret that matched. If each item has its own signature, this is the label
    /// for the first item.
    pub(super) secret: Option<String>,
    /// The labels for all items, if each item has its own signature.
    pub(super) items: Vec<String>,
    /// The marks that identify the signed messages, one for each item with its own signature. Empty
    /// if the signature covers the whole body, or if the scheme has no signature.
    pub(super) marks: Vec<Sha>,
    /// The signed time of the delivery, if the signature covers a time outside of the body.
    pub(super) signed_at: Option<UnixMillis>,
    /// The claims of the token that proved the request.
    pub(super) claims: Option<serde_json::Map<String, serde_json::Value>>,
}

/// A secret that proved a request, or an item of it.
pub(super) struct Owner<'s> {
    pub(super) secret: &'s Secret,
    mark: Option<Sha>,
    signed_at: Option<UnixMillis>,
}

impl<'s> Owner<'s> {
    /// Creates the owner for a signature over these pieces.
    pub(super) fn new(scheme: &Scheme, (secret, key): &Key<'s>, message: &[Piece<'_>]) -> Self {
        let many = scheme.is_signature() && !scheme.covers_body();
        Self {
            secret,
            mark: many.then(|| mac::mark(key, message)),
            signed_at: None,
        }
    }

    /// Creates the owner for a secret that the sender sent, or for a signature that covers the
    /// whole body.
    fn plain(secret: &'s Secret) -> Self {
        Self {
            secret,
            mark: None,
            signed_at: None,
        }
    }
}

/// A secret and its decoded key.
pub(super) type Key<'s> = (&'s Secret, Vec<u8>);

pub(super) fn prove(
    scheme: &Scheme,
    trust: &Trust,
    envelope: &Envelope,
    secrets: &[Secret],
) -> Result<Proof, Rejected> {
    let published = published(scheme, trust, envelope)?;
    let keys = match &published {
        Some(published) => published.keys(),
        None => keys(scheme, secrets),
    };
    if keys.is_empty() && scheme.needs_secret() {
        return Err(Rejected(Reason::NoSecret));
    }
    require_headers(scheme, envelope)?;
    joined::check(scheme, Place::from(envelope))?;
    let owners = match &scheme.kind {
        Kind::Hmac | Kind::Hash | Kind::Ed25519 | Kind::EcdsaP256 | Kind::RsaSha256 => {
            signature(scheme, envelope, &keys)?
        }
        Kind::Token => {
            let owners = token::token(scheme, envelope, &keys)?;
            owners.into_iter().map(Owner::plain).collect()
        }
        Kind::Basic => vec![Owner::plain(token::basic(envelope, &keys)?)],
        Kind::Jwt => {
            let proof = jwt::token(scheme, trust, envelope, &keys)?;
            let claims = proof.claims.as_ref();
            let place = Place::from(envelope);
            require_values(scheme, Place { claims, ..place })?;
            return Ok(proof);
        }
        // A notice proves nothing. Mitt must fetch the object that the notice names. This object
        // becomes the event.
        Kind::FetchBack => {
            object(scheme, envelope)?;
            return Err(Rejected(Reason::NotFetched));
        }
        Kind::None => return Ok(Proof::default()),
        Kind::Code(Code::PayPal) => vec![code::paypal::prove(scheme, trust, envelope, &keys)?],
        Kind::Code(Code::Sns) => vec![code::sns::prove(scheme, trust, envelope, &keys)?],
        Kind::Code(Code::Ebay) => return code::ebay::prove(trust, envelope),
        Kind::Code(Code::Adobe) => {
            let proof = code::adobe::prove(trust, envelope)?;
            require_values(scheme, Place::from(envelope))?;
            return Ok(proof);
        }
        Kind::Code(Code::Plivo) => vec![code::plivo::prove(scheme, envelope, &keys)?],
        Kind::Code(Code::Keygen(kind)) => {
            vec![Owner::plain(code::keygen::prove(kind, envelope, &keys)?)]
        }
        // The configuration check rejects a source that selects this kind.
        Kind::Code(Code::Missing(_)) => return Err(Rejected(Reason::NoSecret)),
    };
    body_hash(scheme, envelope)?;
    require_values(scheme, Place::from(envelope))?;
    let labels = owners.iter().map(|owner| owner.secret.label().to_owned());
    let mut proof = Proof {
        secret: owners.first().map(|owner| owner.secret.label().to_owned()),
        marks: owners.iter().filter_map(|owner| owner.mark).collect(),
        signed_at: owners.first().and_then(|owner| owner.signed_at),
        ..Proof::default()
    };
    if owners.len() > 1 {
        proof.items = labels.collect();
    }
    Ok(proof)
}

/// Public keys of the provider. The value of each secret is only a placeholder.
pub(super) struct Published(Vec<(Secret, Vec<u8>)>);

impl Published {
    fn keys(&self) -> Vec<Key<'_>> {
        let keys = self.0.iter().map(|(secret, key)| (secret, key.clone()));
        keys.collect()
    }
}

/// Returns the public keys for a request, if the provider publishes its keys in a set.
fn published(
    scheme: &Scheme,
    trust: &Trust,
    envelope: &Envelope,
) -> Result<Option<Published>, Rejected> {
    let Some(at) = &scheme.key_set else {
        return Ok(None);
    };
    let kid = match &at.kid {
        None => None,
        Some(place) => {
            let kid = place.find(envelope).map_err(unreadable)?;
            let kid = kid.filter(|kid| !kid.is_empty());
            Some(kid.ok_or(Rejected(Reason::MissingHeader))?)
        }
    };
    let set = trust.key_set(&at.url).ok_or(Rejected(Reason::NotFetched))?;
    let keys = set.keys.keys(&scheme.kind, kid.as_deref());
    if keys.is_empty() {
        // The provider may have published a new key since the last fetch.
        return Err(Rejected(if set.fetched {
            Reason::NotFetched
        } else {
            Reason::UnknownKey
        }));
    }
    let keys = keys.into_iter();
    let keys = keys.map(|(name, key)| (Secret::new(name, "public key"), key));
    Ok(Some(Published(keys.collect())))
}

/// Decodes the secrets to keys. Skips secrets that cannot be decoded.
pub(super) fn keys<'s>(scheme: &Scheme, secrets: &'s [Secret]) -> Vec<Key<'s>> {
    let key = |secret: &'s Secret| Some((secret, key(scheme.key, secret.expose())?));
    secrets.iter().filter_map(key).collect()
}

/// Returns the secret that made the signature. If items have their own signatures, returns one
/// secret for each item.
fn signature<'s>(
    scheme: &Scheme,
    envelope: &Envelope,
    keys: &[Key<'s>],
) -> Result<Vec<Owner<'s>>, Rejected> {
    let place = Place::from(envelope);
    let Some(path) = &scheme.for_each else {
        return Ok(vec![one(scheme, place, keys)?]);
    };
    let items = path.all(&envelope.body);
    let items = items.map_err(|error| unreadable(error.into()))?;
    if items.len() > MOST_ITEMS {
        return Err(Rejected(Reason::MalformedBody));
    }
    if items.is_empty() {
        return Err(Rejected(Reason::MissingField));
    }
    let signed = items.into_iter().map(|item| {
        let item = Some(item.ok_or(Rejected(Reason::MissingField))?);
        let place = Place { item, ..place };
        joined::check(scheme, place)?;
        one(scheme, place, keys)
    });
    signed.collect()
}

/// Returns the secret that signed a request or one item of it.
pub(super) fn one<'s>(
    scheme: &Scheme,
    place: Place<'_>,
    keys: &[Key<'s>],
) -> Result<Owner<'s>, Rejected> {
    let now = place.envelope.received_at;
    let mut verdict = Rejected(Reason::BadSignature);
    for group in &candidates(scheme, place)? {
        let judged = judge(scheme, place, group, keys);
        let rejected = match judged {
            Ok((owner, ts)) => match (&scheme.ts, ts) {
                (Some(ts), Some(text)) => match window::check(ts, &text, now) {
                    Ok(()) => {
                        let signed_at = scheme
                            .signs_time_of_delivery()
                            .then(|| window::millis(ts.unit, &text).map(UnixMillis))
                            .flatten();
                        return Ok(Owner { signed_at, ..owner });
                    }
                    Err(rejected) => rejected,
                },
                _ => return Ok(owner),
            },
            Err(rejected) => rejected,
        };
        // For the operator, a wrong timestamp with a valid signature is a more useful reason than
        // an invalid signature.
        if verdict.0 == Reason::BadSignature {
            verdict = rejected;
        }
    }
    Err(verdict)
}

/// Returns the secret that made one of the signatures of a group, and the text of the timestamp to
/// check.
pub(super) fn judge<'s>(
    scheme: &Scheme,
    place: Place<'_>,
    group: &Group,
    keys: &[Key<'s>],
) -> Result<(Owner<'s>, Option<String>), Rejected> {
    let time = || {
        let ts = scheme.ts.as_ref();
        ts.map(|ts| window::text(ts, place, Some(group)))
            .transpose()
    };
    // If the message does not contain the timestamp, verification reads it only after the signature
    // was valid.
    let signed_time = scheme.message.needs_timestamp();
    let mut ts = if signed_time { time()? } else { None };
    for url in url::forms(scheme, &place.envelope.url) {
        for owner @ (_, key) in keys {
            let context = Context {
                url: &url,
                ts: ts.as_deref(),
                secret: key,
                ..Context::new(place).beside(group)
            };
            let message = message(scheme, &context)?;
            if let Some(regex) = &scheme.reject_message_regex {
                refuse(regex, &message)?;
            }
            if holds(scheme, key, &message, &group.signatures) {
                let owner = Owner::new(scheme, owner, &message);
                let enforced = scheme.ts.as_ref().is_some_and(|ts| ts.enforce);
                if !signed_time && enforced {
                    ts = time()?;
                }
                return Ok((owner, ts));
            }
        }
    }
    Err(Rejected(Reason::BadSignature))
}

pub(super) fn holds(
    scheme: &Scheme,
    key: &[u8],
    message: &[Piece<'_>],
    signatures: &[Vec<u8>],
) -> bool {
    match &scheme.kind {
        Kind::Hmac => mac::matches(scheme.hash, key, message, signatures),
        Kind::Hash => mac::hashes(scheme.hash, message, signatures),
        kind => {
            let message = message.concat();
            let good = |signature: &Vec<u8>| signed_by(kind, key, &message, signature);
            signatures.iter().any(good)
        }
    }
}

pub(super) fn refuse(regex: &Regex, message: &[Piece<'_>]) -> Result<(), Rejected> {
    let message = message.concat();
    if regex.is_match(&String::from_utf8_lossy(&message)) {
        return Err(Rejected(Reason::MalformedBody));
    }
    Ok(())
}

/// Checks the required headers. A header can contain other values, separated by commas.
fn require_headers(scheme: &Scheme, envelope: &Envelope) -> Result<(), Rejected> {
    for (name, expected) in &scheme.require_header {
        let value = envelope.headers.one(name);
        let value = value.map_err(|_| Rejected(Reason::DuplicateHeader))?;
        let value = value.ok_or(Rejected(Reason::MissingHeader))?;
        if expected.is_empty()
            || value != expected && !value.split(',').any(|part| part.trim() == expected)
        {
            return Err(Rejected(Reason::AlgNotAllowed));
        }
    }
    Ok(())
}

/// Checks the values that must equal settings of the source. An empty setting matches nothing.
fn require_values(scheme: &Scheme, place: Place<'_>) -> Result<(), Rejected> {
    for required in &scheme.require_value {
        let value = required.from.find(place).map_err(unreadable)?;
        if required.is.is_empty() || value.as_deref() != Some(required.is.as_str()) {
            return Err(Rejected(Reason::ClaimMismatch));
        }
    }
    Ok(())
}

fn body_hash(scheme: &Scheme, envelope: &Envelope) -> Result<(), Rejected> {
    let Some(at) = &scheme.body_hash else {
        return Ok(());
    };
    let text = at.from.find(envelope).map_err(unreadable)?;
    let text = text.ok_or(Rejected(Reason::MissingField))?;
    let digest = decode(at.enc, &text).ok_or(Rejected(Reason::BadBodyHash))?;
    if digest.ct_eq(&Sha256::digest(&envelope.body)).into() {
        Ok(())
    } else {
        Err(Rejected(Reason::BadBodyHash))
    }
}

/// Returns the id of the object that an unsigned notice names. Fails if the id is not safe to use
/// in a URL.
pub(super) fn object(scheme: &Scheme, envelope: &Envelope) -> Result<String, Rejected> {
    let fetch = scheme.fetch.as_ref().ok_or(Rejected(Reason::NoSecret))?;
    let place = fetch.place().ok_or(Rejected(Reason::NoSecret))?;
    let name = place.find(envelope).map_err(unreadable)?;
    let name = name.ok_or(Rejected(Reason::MissingField))?;
    if fetch.allows(&name) {
        Ok(name)
    } else {
        Err(Rejected(Reason::MalformedBody))
    }
}
