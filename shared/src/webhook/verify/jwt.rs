//! Compact signed tokens, and their required claims. <https://www.rfc-editor.org/rfc/rfc7515>

use base64::Engine as _;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::code::qsh;
use super::decode::{BASE64_URL, decode};
use super::key::signed_by;
use super::prove::{Key, Proof};
use super::{Reason, Rejected, Trust, Wanted, mac, token, unreadable};
use crate::base::clock::UnixMillis;
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Alg, Hash, Jwt, KeySource, Kind, Location, Scheme};

/// The longest accepted token in a header, in bytes. A token that is the body has the limit of
/// bodies.
const LONGEST: usize = 16 * 1024;

/// The header of a token. Only `alg` is required. `kid` is the id of the key. Verification ignores
/// a key in the header.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// The longest key id, in bytes.
const LONGEST_KID: usize = 128;

/// Returns the document to fetch, unless the source configures a key set.
pub(super) fn wanted(jwt: &Jwt, trust: &Trust, envelope: &Envelope) -> Option<Wanted> {
    match &jwt.key {
        KeySource::ByKid if !trust.has_jwks() => kid(jwt, envelope).map(Wanted::Key),
        _ => wanted_always(jwt, trust),
    }
}

/// Returns the document to fetch, if it does not depend on the request.
pub(super) fn wanted_always(jwt: &Jwt, trust: &Trust) -> Option<Wanted> {
    match &jwt.key {
        KeySource::Jwks(url) if !trust.has_jwks() && !url.is_empty() => {
            Some(Wanted::KeySet(url.clone()))
        }
        _ => None,
    }
}

/// Returns whether a key id is safe to send to the provider. The id is text from the sender.
pub(super) fn is_kid(kid: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    !kid.is_empty() && kid.len() <= LONGEST_KID && kid.bytes().all(plain)
}

/// Returns the key id in an unverified token, if the preset accepts the algorithm of the token.
fn kid(jwt: &Jwt, envelope: &Envelope) -> Option<String> {
    let value = jwt.from.find(envelope).ok().flatten()?;
    let text = token::after_prefix(&value, &jwt.prefix)?;
    let (header, _) = text.split_once('.')?;
    if text.len() > LONGEST {
        return None;
    }
    let header: Header = serde_json::from_slice(&BASE64_URL.decode(header).ok()?).ok()?;
    let allowed = jwt.algs.iter().any(|alg| format!("{alg:?}") == header.alg);
    header.kid.filter(|kid| allowed && is_kid(kid))
}

pub(super) fn token(
    scheme: &Scheme,
    trust: &Trust,
    envelope: &Envelope,
    keys: &[Key<'_>],
) -> Result<Proof, Rejected> {
    let jwt = scheme.jwt.as_ref().ok_or(Rejected(Reason::NoSecret))?;
    let value = jwt.from.find(envelope).map_err(unreadable)?;
    let value = value.filter(|value| !value.is_empty());
    let in_body = jwt.from == Location::Body;
    let missing = match jwt.from {
        Location::Header(_) => Reason::MissingHeader,
        _ => Reason::MissingField,
    };
    let value = value.ok_or(Rejected(missing))?;
    let malformed = Rejected(Reason::MalformedSignature);
    let text = token::after_prefix(&value, &jwt.prefix).ok_or(malformed)?;
    let parts: Vec<&str> = text.splitn(4, '.').collect();
    let ([header, claims, signature], true) = (parts.as_slice(), in_body || text.len() <= LONGEST)
    else {
        return Err(malformed);
    };
    let decoded = |text: &str| BASE64_URL.decode(text).map_err(|_| malformed);
    let named: Header = serde_json::from_slice(&decoded(header)?).map_err(|_| malformed)?;
    let allowed = jwt.algs.iter().find(|alg| format!("{alg:?}") == named.alg);
    let alg = *allowed.ok_or(Rejected(Reason::AlgNotAllowed))?;
    if named.crit.is_some() {
        return Err(malformed);
    }
    let signed = &text[..header.len() + 1 + claims.len()];
    let secret = signer(
        jwt,
        trust,
        keys,
        (alg, named.kid),
        signed,
        decoded(signature)?,
    )?;
    let claims: Map<String, Value> =
        serde_json::from_slice(&decoded(claims)?).map_err(|_| malformed)?;
    check(jwt, &claims, envelope)?;
    let many = scheme.is_signature() && !scheme.covers_body();
    Ok(Proof {
        secret,
        signed_at: signed_at(jwt, &claims),
        claims: Some(claims),
        marks: many
            .then(|| mac::mark(&[], &[signed.as_bytes().into()]))
            .into_iter()
            .collect(),
        ..Proof::default()
    })
}

/// Returns when the token was made, if it is made for one delivery. A token that does not cover the
/// body can be used for several events, and a token in the body is the same in each delivery.
fn signed_at(jwt: &Jwt, claims: &Map<String, Value>) -> Option<UnixMillis> {
    let of_delivery = jwt.body_sha256_claim.is_some()
        && matches!(jwt.from, Location::Header(_) | Location::Query(_));
    let made = claims.get("iat").filter(|_| of_delivery)?;
    Some(UnixMillis::from_secs(made.as_i64()?))
}

/// Returns the label of the secret, or the id of the published key, that signed the token.
fn signer(
    jwt: &Jwt,
    trust: &Trust,
    keys: &[Key<'_>],
    (alg, named): (Alg, Option<String>),
    signed: &str,
    signature: Vec<u8>,
) -> Result<Option<String>, Rejected> {
    Ok(match &jwt.key {
        KeySource::Secret => {
            let message = [signed.as_bytes().into()];
            let all = [signature];
            let mut owners = keys.iter().filter(|(_, key)| {
                alg == Alg::HS256 && mac::matches(Hash::Sha256, key, &message, &all)
            });
            let (secret, _) = owners.next().ok_or(Rejected(Reason::BadSignature))?;
            Some(secret.label().to_owned())
        }
        KeySource::Pem => {
            let message = signed.as_bytes();
            let mut owners = keys
                .iter()
                .filter(|(_, key)| signed_by(&Kind::RsaSha256, key, message, &signature));
            let (secret, _) = owners.next().ok_or(Rejected(Reason::BadSignature))?;
            Some(secret.label().to_owned())
        }
        source @ (KeySource::Jwks(_) | KeySource::ByKid) => {
            let kid = named.as_deref();
            let name = match source {
                KeySource::Jwks(url) => url.clone(),
                // The provider has no key with an invalid id.
                _ => match kid.filter(|kid| is_kid(kid)) {
                    Some(kid) => Wanted::Key(kid.to_owned()).name().into_owned(),
                    None => return Err(Rejected(Reason::UnknownKey)),
                },
            };
            let set = trust.key_set(&name).ok_or(Rejected(Reason::NotFetched))?;
            match set.keys.verifies(alg, kid, signed.as_bytes(), &signature) {
                Some(true) => named,
                Some(false) => return Err(Rejected(Reason::BadSignature)),
                // The provider may have published a new key since the last fetch.
                None if set.fetched => return Err(Rejected(Reason::NotFetched)),
                None => return Err(Rejected(Reason::UnknownKey)),
            }
        }
    })
}

fn check(jwt: &Jwt, claims: &Map<String, Value>, envelope: &Envelope) -> Result<(), Rejected> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let mismatch = Err(Rejected(Reason::ClaimMismatch));
    if let Some(iss) = &jwt.iss
        && (iss.is_empty() || text("iss") != Some(iss))
    {
        return mismatch;
    }
    if let Some(aud) = &jwt.aud {
        let aud = match aud.as_str() {
            "{public_url}" => envelope.public_url(),
            aud => aud,
        };
        let named = match claims.get("aud") {
            Some(Value::String(one)) => one == aud,
            Some(Value::Array(many)) => many.iter().any(|one| one == aud),
            _ => false,
        };
        if !named || aud.is_empty() {
            return mismatch;
        }
    }
    if let Some(email) = &jwt.email {
        let verified = claims.get("email_verified") == Some(&Value::Bool(true));
        if email.is_empty() || text("email") != Some(email) || !verified {
            return mismatch;
        }
    }
    times(jwt, claims, envelope.received_at.secs())?;
    if let Some(name) = &jwt.body_sha256_claim {
        let digest = Sha256::digest(&envelope.body);
        match text(name) {
            Some(hash) if decode(jwt.body_sha256_enc, hash).is_some_and(|h| h == *digest) => {}
            None if jwt.empty_body_unhashed && envelope.body.is_empty() => {}
            _ => return Err(Rejected(Reason::BadBodyHash)),
        }
    }
    if let Some(name) = &jwt.url_sha256_claim {
        let digest = hex::encode(Sha256::digest(&envelope.url));
        match text(name) {
            Some(hash) if hash.eq_ignore_ascii_case(&digest) => {}
            _ => return Err(Rejected(Reason::BadUrlHash)),
        }
    }
    let Some(name) = &jwt.qsh_claim else {
        return Ok(());
    };
    let hash = text(name).ok_or(Rejected(Reason::MissingField))?;
    let request = qsh::canonical(envelope, &jwt.base_path);
    let request = request.ok_or(Rejected(Reason::BadUrlHash))?;
    if hash == hex::encode(Sha256::digest(request)) {
        Ok(())
    } else {
        Err(Rejected(Reason::BadUrlHash))
    }
}

fn times(jwt: &Jwt, claims: &Map<String, Value>, now: i64) -> Result<(), Rejected> {
    let time = |name: &str| {
        let Some(value) = claims.get(name) else {
            return Err(Rejected(Reason::MissingField));
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fractions of a second are dropped"
        )]
        let seconds = value.as_i64().or_else(|| value.as_f64().map(|s| s as i64));
        seconds.ok_or(Rejected(Reason::MalformedTimestamp))
    };
    let age = |at: i64| now.saturating_sub(at);
    if jwt.exp && age(time("exp")?) > jwt.leeway {
        return Err(Rejected(Reason::TimestampTooOld));
    }
    if jwt.nbf && age(time("nbf")?) < -jwt.leeway {
        return Err(Rejected(Reason::TimestampInFuture));
    }
    if let Some(most) = jwt.iat_max_age {
        let age = age(time("iat")?);
        if age > most.saturating_add(jwt.leeway) {
            return Err(Rejected(Reason::TimestampTooOld));
        }
        if age < -most {
            return Err(Rejected(Reason::TimestampInFuture));
        }
    }
    Ok(())
}
