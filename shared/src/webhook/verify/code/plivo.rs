//! Plivo's signature version 3 covers the URL with its sorted query, the sorted fields of the form,
//! and a nonce. <https://www.plivo.com/docs/voice/concepts/signature-validation>

use std::collections::BTreeMap;

use crate::webhook::envelope::{Envelope, form_fields};
use crate::webhook::preset::{Hash, Place, Scheme};
use crate::webhook::verify::candidates::candidates;
use crate::webhook::verify::prove::{Key, Owner};
use crate::webhook::verify::{Reason, Rejected, mac};

/// Finds the token that signed the request. It is the token of the account or of its main account.
pub(in crate::webhook::verify) fn prove<'s>(
    scheme: &Scheme,
    envelope: &Envelope,
    keys: &[Key<'s>],
) -> Result<Owner<'s>, Rejected> {
    let groups = candidates(scheme, Place::from(envelope))?;
    let nonce = envelope.headers.one("x-plivo-signature-v3-nonce");
    let nonce = nonce.map_err(|_| Rejected(Reason::DuplicateHeader))?;
    let nonce = nonce.filter(|nonce| !nonce.is_empty());
    let nonce = nonce.ok_or(Rejected(Reason::MissingHeader))?;
    let message = [message(envelope, nonce).into()];
    let signatures: Vec<Vec<u8>> = groups.into_iter().flat_map(|g| g.signatures).collect();
    let mut owners = keys
        .iter()
        .filter(|(_, key)| mac::matches(Hash::Sha256, key, &message, &signatures));
    let owner = owners.next().ok_or(Rejected(Reason::BadSignature))?;
    Ok(Owner::new(scheme, owner, &message))
}

/// The signed message.
pub(crate) fn message(envelope: &Envelope, nonce: &str) -> Vec<u8> {
    let (url, query) = envelope.url.split_once('?').unwrap_or((&envelope.url, ""));
    let query = query.split('#').next().unwrap_or_default();
    let query = sorted(form_fields(query.as_bytes()));
    let form = sorted(form_fields(&envelope.body));
    let mut message = url.as_bytes().to_vec();
    if !(query.is_empty() && form.is_empty()) {
        message.push(b'?');
    }
    let pairs = query
        .iter()
        .map(|(name, value)| [&name[..], value].join(&b'='));
    message.extend(pairs.collect::<Vec<_>>().join(&b'&'));
    if !(query.is_empty() || form.is_empty()) {
        message.push(b'.');
    }
    for (name, value) in form {
        message.extend(name);
        message.extend(value);
    }
    message.push(b'.');
    message.extend(nonce.as_bytes());
    message
}

/// Sorts fields by name, and fields with the same name by value.
fn sorted(fields: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut by_name: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, value) in fields {
        by_name.entry(name).or_default().push(value);
    }
    let mut sorted = Vec::new();
    for (name, mut values) in by_name {
        values.sort_unstable();
        sorted.extend(values.into_iter().map(|value| (name.clone(), value)));
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::UnixMillis;

    #[test]
    fn url_query_and_form_are_glued_as_plivo_glues_them() {
        let of = |url: &str, body: &'static str| {
            let envelope = Envelope {
                method: "POST".into(),
                url: url.into(),
                headers: crate::webhook::envelope::Headers::default(),
                body: body.into(),
                received_at: UnixMillis(0),
            };
            String::from_utf8(message(&envelope, "12345")).unwrap()
        };
        let url = "https://a.test/in/p";
        assert_eq!(of(url, ""), "https://a.test/in/p.12345");
        assert_eq!(
            of(url, "To=2&From=%2B1"),
            "https://a.test/in/p?From+1To2.12345"
        );
        let queried = "https://a.test/in/p?b=2&a=%20&b=1";
        assert_eq!(of(queried, ""), "https://a.test/in/p?a= &b=1&b=2.12345");
        assert_eq!(
            of(queried, "x=2&x=1&e="),
            "https://a.test/in/p?a= &b=1&b=2.ex1x2.12345"
        );
    }
}
