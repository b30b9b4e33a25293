//! Reads the signatures from a request.

use super::decode::decode;
use super::{Reason, Rejected, unreadable};
use crate::webhook::envelope::Headers;
use crate::webhook::preset::{Duplicates, Format, Kind, Location, Place, Scheme, Signature};

/// The maximum number of signatures in a request. It limits the work that an attacker can cause
/// with one request.
const MOST: usize = 128;

/// The maximum number of groups. Each group needs its own hash of the message.
const MOST_GROUPS: usize = 16;

/// Signatures that have the same fields in the signature header, with these fields.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(super) signatures: Vec<Vec<u8>>,
    fields: Vec<(String, String)>,
}

impl Group {
    pub(crate) fn new(fields: Vec<(String, String)>) -> Self {
        Self {
            signatures: Vec::new(),
            fields,
        }
    }

    /// Returns a field of the signature header. Fails if the field is repeated, because Mitt cannot
    /// know which value was signed.
    pub(super) fn field(&self, key: &str) -> Result<Option<&str>, Rejected> {
        let mut values = self
            .fields
            .iter()
            .filter(|(name, _)| name == key)
            .map(|(_, value)| value.as_str());
        let first = values.next();
        if values.next().is_some() {
            Err(Rejected(Reason::MalformedSignature))
        } else {
            Ok(first)
        }
    }
}

/// Returns all signatures of a request or of one of its items. Each signature has an accepted
/// version and can be decoded.
pub(super) fn candidates(scheme: &Scheme, place: Place<'_>) -> Result<Vec<Group>, Rejected> {
    let sig = &scheme.sig;
    let mut seen = Seen::default();
    let mut groups = Vec::new();
    let mut missing = None;
    for from in std::iter::once(&sig.from).chain(&sig.also) {
        match values(sig, from, place) {
            Ok(values) => {
                for value in values {
                    for text in parts(sig, &value) {
                        join(&mut groups, group(scheme, text, &mut seen)?);
                        if groups.len() > MOST_GROUPS {
                            return Err(Rejected(Reason::MalformedSignature));
                        }
                    }
                }
            }
            Err(Rejected(reason @ (Reason::MissingHeader | Reason::MissingField))) => {
                missing.get_or_insert(reason);
            }
            Err(rejected) => return Err(rejected),
        }
    }
    let signatures: usize = groups.iter().map(|group| group.signatures.len()).sum();
    if signatures > MOST {
        return Err(Rejected(Reason::MalformedSignature));
    }
    if signatures > 0 {
        groups.retain(|group| !group.signatures.is_empty());
        return Ok(groups);
    }
    Err(Rejected(match missing {
        Some(reason) if groups.is_empty() => reason,
        _ if seen.other_version && !seen.accepted_version => match sig.format {
            Format::Pairs => Reason::NoMatchingKey,
            _ => Reason::UnknownVersion,
        },
        _ => Reason::MalformedSignature,
    }))
}

/// Adds a group. Merges groups with equal fields, because they have the same message. Mitt then
/// hashes the message only once.
fn join(groups: &mut Vec<Group>, group: Group) {
    match groups.iter_mut().find(|known| known.fields == group.fields) {
        Some(known) => known.signatures.extend(group.signatures),
        None => groups.push(group),
    }
}

impl Signature {
    fn is_grouped(&self) -> bool {
        self.format == Format::KvGroups
    }

    /// Returns whether repeated headers are the same list as one header with commas.
    fn is_joined_by_commas(&self) -> bool {
        !matches!(self.format, Format::Plain | Format::KvGroups) && self.entry == ","
    }
}

#[derive(Default)]
struct Seen {
    accepted_version: bool,
    other_version: bool,
}

/// Returns the values at a location. There is at least one value, and no value is empty.
fn values(sig: &Signature, from: &Location, place: Place<'_>) -> Result<Vec<String>, Rejected> {
    let headers = &place.envelope.headers;
    let (values, missing) = match from {
        Location::Header(names) => {
            let mut found = Vec::new();
            for name in names {
                found = of_header(sig, headers, name)?;
                if !found.is_empty() {
                    break;
                }
            }
            (found, Reason::MissingHeader)
        }
        Location::HeaderNumbered(prefix) => {
            let mut found = Vec::new();
            for number in 1..=sig.max {
                found.extend(of_header(sig, headers, &format!("{prefix}{number}"))?);
            }
            (found, Reason::MissingHeader)
        }
        _ => {
            let value = from.find(place).map_err(unreadable)?;
            let value = value.filter(|value| !value.is_empty());
            (value.into_iter().collect(), Reason::MissingField)
        }
    };
    if values.is_empty() {
        return Err(Rejected(missing));
    }
    Ok(values)
}

fn of_header(sig: &Signature, headers: &Headers, name: &str) -> Result<Vec<String>, Rejected> {
    let values: Vec<String> = match sig.duplicates {
        // API Gateway joins repeated headers with a comma.
        Duplicates::Any => headers
            .all(name)
            .flat_map(|value| value.split(','))
            .map(|value| value.trim().to_owned())
            .collect(),
        Duplicates::Reject if sig.is_joined_by_commas() => {
            let all: Vec<&str> = headers.all(name).collect();
            vec![all.join(",")]
        }
        Duplicates::Reject => match headers.one(name) {
            Ok(value) => value.into_iter().map(str::to_owned).collect(),
            Err(_) => return Err(Rejected(Reason::DuplicateHeader)),
        },
    };
    let full = values.into_iter().filter(|value| !value.is_empty());
    Ok(full.collect())
}

fn parts<'v>(sig: &Signature, value: &'v str) -> Vec<&'v str> {
    if sig.is_grouped() {
        let groups = value.split(sig.group.as_str()).map(str::trim);
        groups.filter(|group| !group.is_empty()).collect()
    } else {
        vec![value]
    }
}

fn group(scheme: &Scheme, value: &str, seen: &mut Seen) -> Result<Group, Rejected> {
    let sig = &scheme.sig;
    let mut group = Group::default();
    let mut written = Vec::new();
    match sig.format {
        Format::Plain => written.extend(value.strip_prefix(sig.prefix.as_str())),
        Format::Positional => {
            for (index, text) in value.split(sig.entry.as_str()).map(str::trim).enumerate() {
                if index == sig.ts_index {
                    group.fields.push((index.to_string(), text.to_owned()));
                } else {
                    written.push(text);
                }
            }
            // A positional list has no tags. Therefore an entry that is not a signature is an
            // error.
            let good = |text: &&str| signature(scheme, text).is_some();
            if !written.iter().all(good) {
                return Err(Rejected(Reason::MalformedSignature));
            }
        }
        Format::KvList | Format::KvGroups | Format::TaggedList | Format::Pairs => {
            let separator = match sig.format {
                Format::TaggedList => sig.tag_sep.as_str(),
                Format::Pairs => sig.kv.as_str(),
                _ => "=",
            };
            let entries = value.split(sig.entry.as_str());
            // Text without a tag is not an entry.
            for (tag, text) in entries.filter_map(|entry| entry.trim().split_once(separator)) {
                // A comma means that API Gateway joined two headers.
                if sig.entry != "," && text.contains(',') {
                    return Err(Rejected(Reason::MalformedSignature));
                }
                if sig.take.iter().any(|take| take == tag) {
                    seen.accepted_version = true;
                    written.push(text);
                } else {
                    seen.other_version = true;
                    group.fields.push((tag.to_owned(), text.to_owned()));
                }
            }
        }
    }
    if let Some(Location::Sig(time)) = scheme.ts.as_ref().map(|ts| &ts.from) {
        group.field(time)?;
    }
    if written.len() > MOST {
        return Err(Rejected(Reason::MalformedSignature));
    }
    let signatures = written
        .into_iter()
        .filter_map(|text| signature(scheme, text));
    group.signatures = signatures.collect();
    Ok(group)
}

/// Decodes a signature. Returns `None` if its length is not valid for the scheme.
fn signature(scheme: &Scheme, text: &str) -> Option<Vec<u8>> {
    let bytes = decode(scheme.sig.enc, text)?;
    let long_enough = match scheme.kind {
        Kind::Hmac | Kind::Hash => bytes.len() == scheme.hash.size(),
        Kind::Ed25519 => bytes.len() == 64,
        // 0x30 is the tag of a DER sequence. A signature of two concatenated numbers is not DER.
        Kind::EcdsaP256 => bytes.first() == Some(&0x30),
        _ => bytes.len() <= 1024,
    };
    long_enough.then_some(bytes)
}
