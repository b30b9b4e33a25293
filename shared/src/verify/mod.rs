//! Proves who sent a request, or says why it cannot be believed.
//!
//! The rules here are not a preset's to change. The operator's configuration chooses the scheme,
//! never the request. All live secrets are tried, newest first. Decoded bytes are compared in
//! constant time. Timestamps are digits only, and the window is judged at the time of receipt.
//! The body is read only where the preset names a field of it, after the signature held.

mod candidates;
mod mac;

use std::collections::BTreeMap;

use crate::clock::Millis;
use crate::envelope::{Envelope, Headers};
use crate::event::{Event, EventKey, Sha, Via, words};
use crate::preset::{
    Format, Location, Part, Preset, Reply, Scheme, Template, Timestamp, Unit, Unreadable,
};
use crate::secrets::Secret;
use candidates::{Candidate, candidates};

/// The longest value of a header that is kept with an event.
const LONGEST_HEADER: usize = 512;

/// What a source is to the verification.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// The source's name.
    pub source: String,
    pub preset: Preset,
    /// The scheme that the operator selected.
    pub variant: String,
    /// Hash of the configuration in force, kept with each event.
    pub config: String,
}

/// A request that was proven.
#[derive(Debug)]
pub enum Arrival {
    Event(Box<Event>),
    /// Only an answer is wanted; nothing is kept.
    Handshake(Reply),
}

/// A request that was not proven, and the one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected(pub Reason);

words! {
    /// Why a request is refused. Operators read these; senders never do.
    Reason {
        MissingHeader = "missing_header",
        MissingField = "missing_field",
        MalformedSignature = "malformed_signature",
        MalformedTimestamp = "malformed_timestamp",
        MalformedBody = "malformed_body",
        UnknownVersion = "unknown_version",
        BadSignature = "bad_signature",
        TimestampTooOld = "timestamp_too_old",
        TimestampInFuture = "timestamp_in_future",
        DuplicateHeader = "duplicate_header",
        /// Our own fault: there is no secret to compare with. The sender is not refused for it.
        NoSecret = "no_secret",
    }
}

impl Verifier {
    /// The answer to a handshake that asks for no signature, if the request is one.
    pub fn greet(&self, envelope: &Envelope) -> Option<Reply> {
        let mut open = self
            .preset
            .handshakes
            .iter()
            .filter(|handshake| !handshake.require_signature);
        open.find(|handshake| handshake.matches(envelope))?
            .reply(envelope)
    }

    /// Proves a request. Nothing else makes an [`Event`] of an [`Envelope`].
    pub fn verify(&self, envelope: &Envelope, secrets: &[Secret]) -> Result<Arrival, Rejected> {
        let scheme = self
            .preset
            .scheme(&self.variant)
            .ok_or(Rejected(Reason::NoSecret))?;
        let matched = prove(scheme, envelope, secrets)?;

        let handshakes = &self.preset.handshakes;
        if let Some(handshake) = handshakes
            .iter()
            .find(|handshake| handshake.matches(envelope))
        {
            let reply = handshake
                .reply(envelope)
                .ok_or(Rejected(Reason::MissingField))?;
            return Ok(Arrival::Handshake(reply));
        }
        Ok(Arrival::Event(Box::new(
            self.event(scheme, envelope, matched),
        )))
    }

    fn event(&self, scheme: &Scheme, envelope: &Envelope, matched: &Secret) -> Event {
        let at = &self.preset.event;
        let sha = Sha::of(&envelope.body);
        let (id, once_per_body) = self.event_id(scheme, envelope, &sha);
        let content_type = envelope.headers.one("content-type").ok().flatten();
        Event {
            key: EventKey::new(&self.source, &id),
            provider: if self.preset.generic {
                self.source.clone()
            } else {
                self.preset.id.clone()
            },
            preset: self.preset.id.clone(),
            kind: cut(&at.kind.first(envelope).unwrap_or_default(), 128).to_owned(),
            delivery: at
                .delivery
                .first(envelope)
                .map(|id| cut(&id, 128).to_owned()),
            content_type: content_type.map(|value| cut(value, 128).to_owned()),
            headers: self.kept_headers(scheme, &envelope.headers),
            body: envelope.body.clone(),
            sha,
            received_at: envelope.received_at,
            via: Via::Webhook,
            proven: scheme.proves,
            secret: Some(matched.label().to_owned()),
            once_per_body,
            config: self.config.clone(),
        }
    }

    /// The provider's event id, and whether it stands outside the signature.
    ///
    /// Where there is none, the hash of the body names the event: a constant would collapse all
    /// events into one.
    fn event_id(&self, scheme: &Scheme, envelope: &Envelope, sha: &Sha) -> (String, bool) {
        let at = &self.preset.event;
        for location in &at.id.0 {
            if let Some(id) = location
                .find(envelope)
                .ok()
                .flatten()
                .filter(|id| !id.is_empty())
            {
                return (id, !signed(location, &scheme.message));
            }
        }
        let parts: Option<Vec<String>> = at
            .composite
            .iter()
            .map(|location| location.find(envelope).ok().flatten())
            .collect();
        match parts {
            Some(parts) if !parts.is_empty() => {
                let unsigned = at
                    .composite
                    .iter()
                    .any(|location| !signed(location, &scheme.message));
                (parts.join("/"), unsigned)
            }
            _ => (format!("sha256:{}", sha.hex()), false),
        }
    }

    /// What of the headers is kept: what the preset names, so that a request can be verified
    /// again, and who the sender says it is.
    fn kept_headers(&self, scheme: &Scheme, headers: &Headers) -> BTreeMap<String, String> {
        let at = &self.preset.event;
        let in_message = scheme.message.0.iter().filter_map(|part| match part {
            Part::At(location) => Some(location),
            _ => None,
        });
        let named = [&scheme.sig.from]
            .into_iter()
            .chain(scheme.ts.as_ref().map(|ts| &ts.from))
            .chain(in_message)
            .chain(
                at.id
                    .0
                    .iter()
                    .chain(&at.composite)
                    .chain(&at.kind.0)
                    .chain(&at.delivery.0),
            );
        let mut kept = BTreeMap::new();
        for location in named {
            let Location::Header(names) = location else {
                continue;
            };
            for name in names {
                let values: Vec<&str> = headers.all(name).collect();
                if !values.is_empty() {
                    kept.insert(
                        name.clone(),
                        cut(&values.join(","), LONGEST_HEADER).to_owned(),
                    );
                }
            }
        }
        if let Ok(Some(agent)) = headers.one("user-agent") {
            kept.insert("user-agent".to_owned(), cut(agent, 64).to_owned());
        }
        kept
    }
}

/// The secret that matches.
fn prove<'s>(
    scheme: &Scheme,
    envelope: &Envelope,
    secrets: &'s [Secret],
) -> Result<&'s Secret, Rejected> {
    let keys: Vec<(&Secret, Vec<u8>)> = secrets
        .iter()
        .filter_map(|secret| key(scheme.key, secret.expose()).map(|key| (secret, key)))
        .collect();
    if keys.is_empty() {
        return Err(Rejected(Reason::NoSecret));
    }
    let candidates = candidates(scheme, &envelope.headers)?;
    let mut verdict = Rejected(Reason::BadSignature);
    for candidate in &candidates {
        let timestamp = timestamp(scheme, envelope, candidate)?;
        let message = message(scheme, envelope, timestamp.as_deref())?;
        let Some((secret, _)) = keys
            .iter()
            .find(|(_, key)| mac::matches(scheme.hash, key, &message, &candidate.signature))
        else {
            continue;
        };
        // The window is checked on the entry that matched.
        match in_window(
            scheme.ts.as_ref(),
            timestamp.as_deref(),
            envelope.received_at,
        ) {
            Ok(()) => return Ok(secret),
            Err(rejected) => verdict = rejected,
        }
    }
    Err(verdict)
}

/// The text of the signed time.
fn timestamp(
    scheme: &Scheme,
    envelope: &Envelope,
    candidate: &Candidate<'_>,
) -> Result<Option<String>, Rejected> {
    let Some(ts) = &scheme.ts else {
        return Ok(None);
    };
    let text = match &ts.from {
        Location::Sig(key) => candidate.field(key)?.map(str::to_owned),
        location => find(location, envelope)?,
    };
    let text = text
        .filter(|text| !text.is_empty())
        .ok_or(Rejected(Reason::MissingHeader))?;
    // 15 digits are the year 33658 in milliseconds: what is longer is no time.
    if text.len() > 15 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Rejected(Reason::MalformedTimestamp));
    }
    Ok(Some(text))
}

fn in_window(ts: Option<&Timestamp>, text: Option<&str>, now: Millis) -> Result<(), Rejected> {
    let (Some(ts), Some(text)) = (ts, text) else {
        return Ok(());
    };
    let signed: i64 = text
        .parse()
        .map_err(|_| Rejected(Reason::MalformedTimestamp))?;
    let signed = match ts.unit {
        Unit::S => signed,
        Unit::Ms => signed / 1000,
    };
    let age = now.secs() - signed;
    if age > ts.past {
        Err(Rejected(Reason::TimestampTooOld))
    } else if -age > ts.future {
        Err(Rejected(Reason::TimestampInFuture))
    } else {
        Ok(())
    }
}

/// The pieces of the signed message, in order; the body is one of them, not a copy.
pub(crate) fn message<'e>(
    scheme: &Scheme,
    envelope: &'e Envelope,
    ts: Option<&str>,
) -> Result<Vec<Piece<'e>>, Rejected> {
    scheme
        .message
        .0
        .iter()
        .map(|part| {
            Ok(match part {
                Part::Literal(text) => Piece::Text(text.clone()),
                Part::Body => Piece::Bytes(&envelope.body),
                Part::Timestamp => Piece::Text(ts.unwrap_or_default().to_owned()),
                Part::Method => Piece::Text(envelope.method.clone()),
                Part::Url => Piece::Text(envelope.url.clone()),
                Part::At(location) => {
                    let missing = match location {
                        Location::Header(_) => Reason::MissingHeader,
                        _ => Reason::MissingField,
                    };
                    let text = find(location, envelope)?.filter(|text| !text.is_empty());
                    Piece::Text(text.ok_or(Rejected(missing))?)
                }
            })
        })
        .collect()
}

/// A stretch of the signed message.
#[derive(Debug)]
pub(crate) enum Piece<'e> {
    Text(String),
    Bytes(&'e [u8]),
}

impl Piece<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

fn find(location: &Location, envelope: &Envelope) -> Result<Option<String>, Rejected> {
    location.find(envelope).map_err(|error| {
        Rejected(match error {
            Unreadable::RepeatedHeader => Reason::DuplicateHeader,
            Unreadable::NoJson => Reason::MalformedBody,
            Unreadable::NoScalar => Reason::MissingField,
        })
    })
}

/// Whether a signature over this message covers what stands at this location.
fn signed(location: &Location, message: &Template) -> bool {
    message.0.iter().any(|part| match (part, location) {
        (Part::Body, Location::Json(_) | Location::Form(_)) | (Part::Url, Location::Query(_)) => {
            true
        }
        (Part::At(named), location) => named == location,
        _ => false,
    })
}

fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Whether a header holds a list of tagged signatures.
fn is_list(format: Format) -> bool {
    format != Format::Plain
}

pub(crate) use mac::{key, sign as mac_sign};
