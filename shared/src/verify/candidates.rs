//! Reads the signatures out of their header.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{Reason, Rejected, is_list};
use crate::envelope::Headers;
use crate::preset::{Duplicates, Encoding, Format, Location, Scheme};

/// More signatures than this are an attack on our time.
const MOST: usize = 128;

/// Base64 with or without its padding: senders differ, and both decode to the same bytes.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One signature that may match.
#[derive(Debug)]
pub(super) struct Candidate<'h> {
    pub(super) signature: Vec<u8>,
    /// The fields that stood beside it in the header.
    fields: Vec<(&'h str, &'h str)>,
}

impl<'h> Candidate<'h> {
    /// A field beside the signature. Two of one name make it impossible to say which was signed.
    pub(super) fn field(&self, key: &str) -> Result<Option<&'h str>, Rejected> {
        let mut values = self
            .fields
            .iter()
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| *value);
        let first = values.next();
        if values.next().is_some() {
            Err(Rejected(Reason::MalformedSignature))
        } else {
            Ok(first)
        }
    }
}

/// All signatures of a request that are of an accepted version and can be decoded.
pub(super) fn candidates<'h>(
    scheme: &'h Scheme,
    headers: &'h Headers,
) -> Result<Vec<Candidate<'h>>, Rejected> {
    let values = values(scheme, headers)?;
    let mut found = Vec::new();
    let (mut of_accepted_version, mut of_any_version) = (false, false);
    for value in values {
        let mut fields = Vec::new();
        let mut written = Vec::new();
        if is_list(scheme.sig.format) {
            for (tag, text) in entries(scheme, value) {
                of_any_version = true;
                if scheme.sig.take.iter().any(|take| take == tag) {
                    written.push(text);
                } else {
                    fields.push((tag, text));
                }
            }
        } else if let Some(text) = value.strip_prefix(scheme.sig.prefix.as_str()) {
            written.push(text);
        }
        of_accepted_version |= !written.is_empty();
        found.extend(written.into_iter().filter_map(|text| {
            let signature = decode(scheme.sig.enc, text)?;
            Some(Candidate {
                signature,
                fields: fields.clone(),
            })
        }));
        if found.len() > MOST {
            return Err(Rejected(Reason::MalformedSignature));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let only_other_versions = of_any_version && !of_accepted_version;
    Err(Rejected(if only_other_versions {
        Reason::UnknownVersion
    } else {
        Reason::MalformedSignature
    }))
}

fn values<'h>(scheme: &'h Scheme, headers: &'h Headers) -> Result<Vec<&'h str>, Rejected> {
    let Location::Header(names) = &scheme.sig.from else {
        return Err(Rejected(Reason::MissingHeader));
    };
    for name in names {
        let values: Vec<&str> = match scheme.sig.duplicates {
            Duplicates::Reject => match headers.one(name) {
                Ok(value) => value.into_iter().collect(),
                Err(_) => return Err(Rejected(Reason::DuplicateHeader)),
            },
            // API Gateway joins repeated headers with a comma.
            Duplicates::Any => headers
                .all(name)
                .flat_map(|value| value.split(','))
                .map(str::trim)
                .collect(),
        };
        let values: Vec<&str> = values
            .into_iter()
            .filter(|value| !value.is_empty())
            .collect();
        if !values.is_empty() {
            return Ok(values);
        }
    }
    Err(Rejected(Reason::MissingHeader))
}

/// The tagged entries of a list; what has no tag is no entry.
fn entries<'h>(scheme: &'h Scheme, value: &'h str) -> impl Iterator<Item = (&'h str, &'h str)> {
    let separator = match scheme.sig.format {
        Format::TaggedList => scheme.sig.tag_sep.as_str(),
        Format::Plain | Format::KvList => "=",
    };
    value
        .split(scheme.sig.entry.as_str())
        .filter_map(move |entry| entry.trim().split_once(separator))
}

fn decode(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    let bytes = match encoding {
        Encoding::Hex => hex::decode(text).ok()?,
        Encoding::Base64 => BASE64.decode(text).ok()?,
    };
    (!bytes.is_empty()).then_some(bytes)
}
