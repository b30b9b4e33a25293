//! Builds the signed message.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::candidates::Group;
use super::{Reason, Rejected, unreadable};
use crate::webhook::envelope::form_fields;
use crate::webhook::preset::{Location, Part, Place, Scheme};

/// The maximum number of signed headers.
const MOST_HEADERS: usize = 64;

/// The inputs of a message.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    pub(crate) place: Place<'c>,
    /// The form of the URL to try.
    pub(crate) url: &'c str,
    pub(crate) ts: Option<&'c str>,
    pub(crate) secret: &'c [u8],
    pub(crate) group: Option<&'c Group>,
}

impl<'c> Context<'c> {
    pub(crate) fn new(place: Place<'c>) -> Self {
        Self {
            place,
            url: &place.envelope.url,
            ts: None,
            secret: &[],
            group: None,
        }
    }

    /// Adds the fields of the signature header.
    pub(crate) fn beside(self, group: &'c Group) -> Self {
        Self {
            group: Some(group),
            ..self
        }
    }
}

/// A part of the signed message. The body is borrowed, not copied.
pub(crate) type Piece<'c> = Cow<'c, [u8]>;

/// Returns the pieces of the signed message, in order.
pub(crate) fn message<'c>(
    scheme: &'c Scheme,
    context: &Context<'c>,
) -> Result<Vec<Piece<'c>>, Rejected> {
    let mut pieces = Vec::new();
    append(&mut pieces, scheme, &scheme.message.0, context)?;
    Ok(pieces)
}

fn append<'c>(
    pieces: &mut Vec<Piece<'c>>,
    scheme: &'c Scheme,
    parts: &'c [Part],
    context: &Context<'c>,
) -> Result<(), Rejected> {
    for part in parts {
        if let Part::Optional(parts) = part {
            let mut group = Vec::new();
            match append(&mut group, scheme, parts, context) {
                Ok(()) => pieces.append(&mut group),
                Err(Rejected(Reason::MissingHeader | Reason::MissingField)) => {}
                Err(rejected) => return Err(rejected),
            }
            continue;
        }
        pieces.push(piece(scheme, part, context)?);
    }
    Ok(())
}

fn piece<'c>(
    scheme: &'c Scheme,
    part: &'c Part,
    context: &Context<'c>,
) -> Result<Piece<'c>, Rejected> {
    let envelope = context.place.envelope;
    let borrowed = |text: &'c str| Cow::Borrowed(text.as_bytes());
    let owned = |text: String| Cow::Owned(text.into_bytes());
    Ok(match part {
        Part::Literal(text) => borrowed(text),
        Part::Body => Cow::Borrowed(&envelope.body),
        Part::BodySha256Hex => owned(hex::encode(Sha256::digest(&envelope.body))),
        Part::BodyCrc32 => owned(crc32fast::hash(&envelope.body).to_string()),
        Part::Timestamp => borrowed(context.ts.unwrap_or_default()),
        Part::Method => borrowed(&envelope.method),
        Part::Url => borrowed(context.url),
        Part::PublicUrl => borrowed(envelope.public_url()),
        Part::Path => borrowed(envelope.path()),
        Part::PathEncoded => owned(encoded(envelope.path())),
        Part::FormSorted => Cow::Owned(form_sorted(&envelope.body)),
        Part::Secret => Cow::Borrowed(context.secret),
        Part::SigRaw(key) => {
            let group = context.group.ok_or(Rejected(Reason::MissingField))?;
            let field = group.field(key)?;
            borrowed(field.ok_or(Rejected(Reason::MissingField))?)
        }
        Part::SignedHeaders(key) => {
            let group = context.group.ok_or(Rejected(Reason::MissingField))?;
            let names = group.field(key)?.ok_or(Rejected(Reason::MissingField))?;
            let names: Vec<&str> = names.split([' ', ',']).filter(|n| !n.is_empty()).collect();
            let values = signed_headers(scheme, &names, context)?;
            let values: Vec<&str> = values.into_iter().map(|(_, value)| value).collect();
            owned(values.join("."))
        }
        Part::SignedHeadersKv(header) => {
            let names = envelope.headers.one(header);
            let names = names.map_err(|_| Rejected(Reason::DuplicateHeader))?;
            let names = names.ok_or(Rejected(Reason::MissingHeader))?;
            let names: Vec<&str> = names.split(',').map(str::trim).collect();
            let headers = signed_headers(scheme, &names, context)?;
            let pairs: Vec<String> = headers
                .into_iter()
                .map(|(n, v)| format!("{n}:{v}"))
                .collect();
            let joined = pairs.join(";");
            // If a value contained the name of the next header, the value could also end at this
            // name.
            let once = |pair: &String| {
                let name = pair.split(':').next().unwrap_or_default();
                joined.matches(&format!(";{name}:")).count() <= 1
            };
            if !pairs.iter().all(once) {
                return Err(Rejected(Reason::MalformedSignature));
            }
            owned(joined)
        }
        Part::At(location) => owned(value(location, context)?),
        Part::Lower(location) => owned(value(location, context)?.to_lowercase()),
        Part::Optional(_) | Part::HmacHex(_) | Part::HmacBase64(_) | Part::Sha256Hex(_) => {
            return Err(Rejected(Reason::MissingField));
        }
    })
}

/// Returns the value at a location. An absent field of an item is empty. All other values are
/// required.
fn value(location: &Location, context: &Context<'_>) -> Result<String, Rejected> {
    let missing = match location {
        Location::Header(_) => Reason::MissingHeader,
        _ => Reason::MissingField,
    };
    let found = location.find(context.place).map_err(unreadable)?;
    match location {
        Location::Item(_) => Ok(found.unwrap_or_default()),
        _ => found
            .filter(|text| !text.is_empty())
            .ok_or(Rejected(missing)),
    }
}

/// Returns the headers that the sender lists as signed. The names are in lower case.
fn signed_headers<'c>(
    scheme: &Scheme,
    names: &[&str],
    context: &Context<'c>,
) -> Result<Vec<(String, &'c str)>, Rejected> {
    let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let covered = scheme
        .require_signed
        .iter()
        .all(|name| names.contains(name));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_name = |name: &String| !name.is_empty() && name.bytes().all(plain);
    if !covered || names.len() > MOST_HEADERS || !names.iter().all(is_name) {
        return Err(Rejected(Reason::MalformedSignature));
    }
    let headers = &context.place.envelope.headers;
    let with_value = |name: String| {
        let value = headers.one(&name);
        let value = value.map_err(|_| Rejected(Reason::DuplicateHeader))?;
        Ok((name, value.ok_or(Rejected(Reason::MissingHeader))?))
    };
    names.into_iter().map(with_value).collect()
}

/// Encodes a path as Contentful signs it. The escapes of the path are escaped once more, and the
/// escapes of the query twice more. <https://github.com/contentful/node-apps-toolkit>
fn encoded(path: &str) -> String {
    /// The characters that `encodeURIComponent` escapes. `encodeURI` escapes fewer characters.
    /// <https://tc39.es/ecma262/#sec-uri-handling-functions>
    const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'!')
        .remove(b'~')
        .remove(b'*')
        .remove(b'\'')
        .remove(b'(')
        .remove(b')');
    const URI: &AsciiSet = &COMPONENT
        .remove(b';')
        .remove(b',')
        .remove(b'/')
        .remove(b'?')
        .remove(b':')
        .remove(b'@')
        .remove(b'&')
        .remove(b'=')
        .remove(b'+')
        .remove(b'$')
        .remove(b'#');
    let once = match path.split_once('?') {
        Some((path, query)) if !query.is_empty() => {
            format!("{path}?{}", utf8_percent_encode(query, COMPONENT))
        }
        Some((path, _)) => path.to_owned(),
        None => path.to_owned(),
    };
    utf8_percent_encode(&once, URI).to_string()
}

fn form_sorted(body: &[u8]) -> Vec<u8> {
    let mut fields: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for (key, value) in form_fields(body) {
        fields.entry(key).or_default().insert(value);
    }
    let mut sorted = Vec::with_capacity(body.len());
    for (key, values) in fields {
        for value in values {
            sorted.extend_from_slice(&key);
            sorted.extend_from_slice(&value);
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_encoded_once_and_its_query_twice() {
        assert_eq!(encoded("/in/contentful"), "/in/contentful");
        assert_eq!(encoded("/in/a%20b;c"), "/in/a%2520b;c");
        assert_eq!(
            encoded("/in/a?b=1&c=d%2Fe"),
            "/in/a?b%253D1%2526c%253Dd%25252Fe"
        );
        assert_eq!(encoded("/in/a?"), "/in/a");
        // The signature also covers the text after a second question mark.
        assert_ne!(encoded("/in/a?b=1?evil"), encoded("/in/a?b=1"));
    }
}
