//! The format of a spill queue message. A message contains events with all data for their rows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Spilled;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{
    BodyLocation, Encoding, InRow, Packed, StoredBody, pack_as_text, unpack, unpack_request,
};
use crate::webhook::context::Account;
use crate::webhook::event::{Batch, DeliveredBy, Event, EventKey, Proven, Sha, Via};

/// The version of a message whose events Mitt delivers.
const VERSION: u32 = 1;

/// The version of a message with events that a trial only records. A release that does not know
/// trials would deliver these events, so it must not read the message.
const TRIAL_VERSION: u32 = 2;

/// The reason why a message cannot be read. The error text never contains content of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    NoJson,
    /// Newer code wrote the message.
    UnknownVersion(u32),
    /// This part of an event is missing or invalid.
    Part(&'static str),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJson => {
                f.write_str("the message is not JSON, or a field of an event is missing")
            }
            Self::UnknownVersion(version) => {
                write!(
                    f,
                    "message version {version} requires a newer release of Mitt"
                )
            }
            Self::Part(part) => write!(f, "the message contains an event with an invalid {part}"),
        }
    }
}

/// The field that every message version has.
#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

#[derive(Deserialize)]
struct Envelope {
    events: Vec<Wire>,
}

/// An event. Its field names are the attribute names of a row.
#[derive(Serialize, Deserialize)]
struct Wire {
    key: String,
    rcv: i64,
    pvd: String,
    pre: String,
    ty: String,
    via: String,
    prv: String,
    cfg: String,
    sha: String,
    /// The hash of the content that is the same in every delivery of the event.
    same: String,
    /// Whether the signed content is accepted only once, regardless of its id.
    once: bool,
    /// The hash that identifies the signed content. If it is missing, the hash in `same` identifies
    /// the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
    len: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    bat: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dlv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ct: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    hdr: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acc: Option<String>,
    /// When the sender signed the delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sgt: Option<i64>,
    /// The request in base64, in the encoding of a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rq: Option<String>,
    /// Whether the route of a trial delivers the event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tee: bool,
    body: WireBody,
}

/// The body in base64, or its location.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WireBody {
    Zstd(String),
    Raw(String),
    /// The key of an object in the bucket for bodies.
    Bucket(String),
}

/// Serializes events into as few messages as possible. Each message has at most `limit` bytes.
pub(super) fn write(events: &[Spilled], limit: usize) -> anyhow::Result<Vec<String>> {
    // All events of a request have the same value.
    let is_trial = |spilled: &Spilled| spilled.event.delivered_by == DeliveredBy::Route;
    let version = if events.iter().any(is_trial) {
        TRIAL_VERSION
    } else {
        VERSION
    };
    let (begin, end) = (format!(r#"{{"v":{version},"events":["#), "]}");
    let mut messages = Vec::new();
    let mut message = begin.clone();
    for spilled in events {
        let mut wire = Wire::of(spilled);
        let mut text = ascii(&serde_json::to_string(&wire)?);
        let is_too_large = |text: &str| begin.len() + text.len() + end.len() > limit;
        // An event without its request is better than no event.
        if is_too_large(&text) && wire.rq.take().is_some() {
            text = ascii(&serde_json::to_string(&wire)?);
        }
        if is_too_large(&text) {
            bail!("the event is too large for the spill queue");
        }
        if message.len() + 1 + text.len() + end.len() > limit {
            messages.push(std::mem::replace(&mut message, begin.clone()) + end);
        }
        if message.len() > begin.len() {
            message.push(',');
        }
        message.push_str(&text);
    }
    messages.push(message + end);
    Ok(messages)
}

/// Parses a message. Any principal that may send to the queue can write a message, so the content
/// of a message is not trusted.
pub(super) fn read(text: &str) -> Result<Vec<Spilled>, Unreadable> {
    let Versioned { v } = serde_json::from_str(text).map_err(|_| Unreadable::NoJson)?;
    if v != VERSION && v != TRIAL_VERSION {
        return Err(Unreadable::UnknownVersion(v));
    }
    let envelope: Envelope = serde_json::from_str(text).map_err(|_| Unreadable::NoJson)?;
    envelope.events.into_iter().map(Wire::spilled).collect()
}

impl Wire {
    fn of(spilled: &Spilled) -> Self {
        let event = &spilled.event;
        let packed = |packed: &Packed| {
            let text = STANDARD.encode(&packed.bytes);
            if packed.encoding == Encoding::Zstd {
                WireBody::Zstd(text)
            } else {
                WireBody::Raw(text)
            }
        };
        let body = match spilled.placed.as_ref().map(|placed| &placed.at) {
            Some(BodyLocation::Bucket(key)) => WireBody::Bucket(key.clone()),
            // The body is compressed again without a dictionary. A body in a row can need a
            // dictionary, and another release may read the message.
            Some(BodyLocation::Table(_)) | None => packed(&Packed::new(&event.body)),
        };
        let len = spilled.placed.as_ref().map(|placed| placed.len);
        Self {
            key: event.key.pk(),
            rcv: event.received_at.0,
            pvd: event.provider.clone(),
            pre: event.preset.clone(),
            ty: event.kind.clone(),
            via: event.via.as_str().to_owned(),
            prv: event.proven.as_str().to_owned(),
            cfg: event.config.clone(),
            sha: event.sha.hex(),
            same: event.content.hex(),
            once: event.once.is_some(),
            mark: event
                .once
                .filter(|mark| *mark != event.content)
                .map(|mark| mark.hex()),
            len: len.unwrap_or(event.body.len()),
            bat: event.of.as_ref().map(Batch::written),
            dlv: event.delivery.clone(),
            ct: event.content_type.clone(),
            kid: event.secret.clone(),
            hdr: event.headers.clone(),
            acc: event.account.as_ref().map(Account::written),
            sgt: event.signed_at.map(|signed_at| signed_at.0),
            rq: event
                .request
                .as_ref()
                .map(|request| STANDARD.encode(pack_as_text(request, in_row(event)))),
            tee: event.delivered_by == DeliveredBy::Route,
            body,
        }
    }

    fn spilled(self) -> Result<Spilled, Unreadable> {
        let sha = hash(&self.sha).ok_or(Unreadable::Part("hash"))?;
        let (body, placed) = match self.body {
            WireBody::Zstd(text) => (unpacked(&text, Encoding::Zstd, self.len, &sha)?, None),
            WireBody::Raw(text) => (unpacked(&text, Encoding::Raw, self.len, &sha)?, None),
            WireBody::Bucket(key) => {
                let at = BodyLocation::Bucket(key);
                let len = self.len;
                (Bytes::new(), Some(StoredBody { len, at }))
            }
        };
        let of = match &self.bat {
            Some(text) => Some(Batch::read(text).ok_or(Unreadable::Part("batch"))?),
            None => None,
        };
        let content = hash(&self.same).ok_or(Unreadable::Part("hash"))?;
        let once = match &self.mark {
            Some(mark) => Some(hash(mark).ok_or(Unreadable::Part("`mark` value"))?),
            None => self.once.then_some(content),
        };
        let mut event = Event {
            key: EventKey::from_pk(&self.key).ok_or(Unreadable::Part("key"))?,
            provider: self.pvd,
            preset: self.pre,
            kind: self.ty,
            // Rows do not store these fields.
            items: Vec::new(),
            parts: Vec::new(),
            of,
            delivery: self.dlv,
            content_type: self.ct,
            headers: self.hdr,
            account: self.acc.as_deref().and_then(Account::parse),
            request: None,
            body,
            sha,
            content,
            received_at: UnixMillis(self.rcv),
            via: Via::parse(&self.via).ok_or(Unreadable::Part("`via` value"))?,
            proven: Proven::parse(&self.prv).ok_or(Unreadable::Part("`proven` value"))?,
            secret: self.kid,
            once,
            config: self.cfg,
            signed_at: self.sgt.map(UnixMillis),
            drained_at: None,
            delivered_by: if self.tee {
                DeliveredBy::Route
            } else {
                DeliveredBy::Mitt
            },
            missing: Vec::new(),
        };
        if let Some(text) = &self.rq {
            let packed = STANDARD.decode(text).ok();
            let request = packed.and_then(|packed| unpack_request(&packed, in_row(&event)).ok());
            event.request = Some(Arc::new(request.ok_or(Unreadable::Part("request"))?));
        }
        Ok(Spilled { event, placed })
    }
}

fn in_row(event: &Event) -> InRow<'_> {
    InRow {
        headers: &event.headers,
        content_type: event.content_type.as_deref(),
    }
}

fn hash(text: &str) -> Option<Sha> {
    Some(Sha(hex::decode(text).ok()?.try_into().ok()?))
}

fn unpacked(text: &str, encoding: Encoding, len: usize, sha: &Sha) -> Result<Bytes, Unreadable> {
    let wrong = Unreadable::Part("body");
    let packed = STANDARD.decode(text).map_err(|_| wrong)?;
    let len = u64::try_from(len).map_err(|_| wrong)?;
    let body = unpack(packed, encoding, len, sha).map_err(|_| wrong)?;
    Ok(body.0)
}

/// Escapes the non-ASCII characters of a JSON text, because SQS rejects some of them. Non-ASCII
/// characters occur only in strings.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
fn ascii(json: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` never fails.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
