//! Verifies requests that contain the secret itself.

use base64::Engine as _;

use super::decode::BASE64;
use super::mac::same;
use super::prove::Key;
use super::{Reason, Rejected, unreadable};
use crate::webhook::envelope::Envelope;
use crate::webhook::preset::{Location, Scheme};
use crate::webhook::secret::Secret;

/// Returns the secrets that the sender sent. If the preset sets `sig.all`, every item must contain
/// a secret.
pub(super) fn token<'s>(
    scheme: &Scheme,
    envelope: &Envelope,
    keys: &[Key<'s>],
) -> Result<Vec<&'s Secret>, Rejected> {
    let sig = &scheme.sig;
    let missing = match sig.from {
        Location::Header(_) => Reason::MissingHeader,
        _ => Reason::MissingField,
    };
    let values = if sig.all {
        sig.from.find_all(envelope)
    } else {
        sig.from.find(envelope).map(|value| vec![value])
    };
    let values = values.map_err(unreadable)?;
    if values.is_empty() {
        return Err(Rejected(missing));
    }
    let owners = values.into_iter().map(|value| {
        let value = value.filter(|value| !value.is_empty());
        let value = value.ok_or(Rejected(missing))?;
        let sent = after_prefix(&value, &sig.prefix);
        let sent = sent.ok_or(Rejected(Reason::BadCredentials))?;
        owner(sent.as_bytes(), keys)
    });
    owners.collect()
}

/// Verifies `Authorization: Basic`. The secret has the form `user:password`.
pub(super) fn basic<'s>(envelope: &Envelope, keys: &[Key<'s>]) -> Result<&'s Secret, Rejected> {
    let value = envelope.headers.one("authorization");
    let value = value.map_err(|_| Rejected(Reason::DuplicateHeader))?;
    let value = value.filter(|value| !value.is_empty());
    let value = value.ok_or(Rejected(Reason::MissingHeader))?;
    let sent = after_prefix(value, "Basic ").and_then(|text| BASE64.decode(text).ok());
    owner(&sent.ok_or(Rejected(Reason::MalformedSignature))?, keys)
}

/// Removes a prefix. The case of an authentication scheme, such as `Bearer `, does not matter.
pub(super) fn after_prefix<'v>(value: &'v str, prefix: &str) -> Option<&'v str> {
    let (before, after) = value.split_at_checked(prefix.len())?;
    let same = if prefix.ends_with(' ') {
        before.eq_ignore_ascii_case(prefix)
    } else {
        before == prefix
    };
    same.then_some(after)
}

fn owner<'s>(sent: &[u8], keys: &[Key<'s>]) -> Result<&'s Secret, Rejected> {
    let mut owners = keys.iter().filter(|(_, key)| same(key, sent));
    let (secret, _) = owners.next().ok_or(Rejected(Reason::BadCredentials))?;
    Ok(secret)
}
