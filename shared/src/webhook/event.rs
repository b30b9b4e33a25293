//! A verified event and its identifiers.

mod batch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;
use crate::webhook::context::{Account, KeptRequest};
use crate::webhook::missing::MissingPath;
pub use batch::Batch;
pub(crate) use batch::Part;

/// The largest body of an event, in bytes. The sync reads at most this number of bytes of a
/// provider's response. The body of a webhook is smaller, because Lambda accepts at most 6 MB per
/// request.
pub const LARGEST_BODY: usize = 16 * 1024 * 1024;

/// The longest event id that is stored unchanged, in bytes. Mitt replaces a longer id with its
/// hash.
const LONGEST_ID: usize = 200;

/// An event that a provider has signed, or that Mitt fetched from the provider.
///
/// Other crates can create an event in two ways: with
/// [`Verifier::verify`](crate::webhook::verify::Verifier::verify) and with [`Event::fetched`].
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) key: EventKey,
    pub(crate) provider: String,
    pub(crate) preset: String,
    pub(crate) kind: String,
    pub(crate) items: Vec<Item>,
    pub(crate) parts: Vec<Part>,
    pub(crate) of: Option<Batch>,
    pub(crate) delivery: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) account: Option<Account>,
    /// What is stored of the request. All events of a batch share it.
    pub(crate) request: Option<Arc<KeptRequest>>,
    pub(crate) body: Bytes,
    pub(crate) sha: Sha,
    /// The hash of the bytes that are the same in every delivery of the event.
    pub(crate) content: Sha,
    pub(crate) received_at: UnixMillis,
    pub(crate) via: Via,
    pub(crate) proven: Proven,
    pub(crate) secret: Option<String>,
    /// A mark that identifies the signed message. It is set for an event whose key contains
    /// unsigned values. Mitt processes only the first event of a source with this mark.
    pub(crate) once: Option<Sha>,
    pub(crate) config: String,
    /// When the sender signed this delivery, if the signature covers a time outside of the body.
    pub(crate) signed_at: Option<UnixMillis>,
    /// When the drain read the event from the spill queue. `None` if the event was never in this
    /// queue.
    pub(crate) drained_at: Option<UnixMillis>,
    pub(crate) delivered_by: DeliveredBy,
    /// The locations of the id and the type that should have a value. Empty for an event that was
    /// not just verified.
    pub(crate) missing: Vec<MissingPath>,
}

/// Who delivers an event to its destination. The catcher decides this once per request, so that a trial that begins or
/// ends between the receipt and the write changes nothing for the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveredBy {
    /// The processor delivers the event.
    Mitt,
    /// The event arrived during a trial: the previous route has it, and Mitt only records it.
    Route,
    /// The processor, unless the source has a trial when the event is stored. Mitt fetched the event, so no
    /// request says whether the route has it.
    WhenStored,
}

/// One event of a request. A batch has several items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The provider's id. It can be the id of an entity, and an entity can have several events.
    pub id: Option<String>,
    pub kind: String,
}

/// The attributes of an event that Mitt fetched from the provider's API.
#[derive(Clone, Debug)]
pub struct Fetched<'a> {
    pub source: &'a str,
    pub provider: &'a str,
    pub preset: &'a str,
    /// The provider's event id.
    pub id: &'a str,
    pub kind: &'a str,
    /// The event as the provider's API returned it, byte for byte.
    pub body: Bytes,
    pub now: UnixMillis,
    pub via: Via,
    /// The hash of the current configuration.
    pub config: &'a str,
}

impl Event {
    /// Creates an event from a response of the provider's API. TLS proves the origin.
    ///
    /// Truncates the type, as for a webhook. The type is part of the sort key of the `time` index,
    /// and DynamoDB limits a sort key to 1,024 bytes.
    pub fn fetched(event: Fetched<'_>) -> Self {
        let kind = cut(event.kind, LONGEST_NAME);
        Self {
            key: EventKey::new(event.source, event.id),
            provider: event.provider.to_owned(),
            preset: event.preset.to_owned(),
            kind: kind.to_owned(),
            items: vec![Item {
                id: Some(event.id.to_owned()),
                kind: kind.to_owned(),
            }],
            parts: Vec::new(),
            of: None,
            delivery: None,
            content_type: Some("application/json".to_owned()),
            headers: BTreeMap::new(),
            account: None,
            request: None,
            sha: Sha::of(&event.body),
            content: Sha::of(&event.body),
            body: event.body,
            received_at: event.now,
            via: event.via,
            proven: Proven::Origin,
            secret: None,
            once: None,
            config: event.config.to_owned(),
            signed_at: None,
            drained_at: None,
            delivered_by: DeliveredBy::WhenStored,
            missing: Vec::new(),
        }
    }

    /// The same event with the account that it belongs to.
    #[must_use]
    pub fn of_account(self, account: Option<Account>) -> Self {
        Self { account, ..self }
    }

    /// The same event, delivered by the route of a trial and only recorded by Mitt.
    #[must_use]
    pub fn delivered_by_route(self) -> Self {
        let delivered_by = DeliveredBy::Route;
        Self {
            delivered_by,
            ..self
        }
    }

    /// The account that the event belongs to, if the source names one.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// What is stored of the request. `None` for a fetched event.
    pub fn request(&self) -> Option<&KeptRequest> {
        self.request.as_deref()
    }

    pub fn key(&self) -> &EventKey {
        &self.key
    }

    pub fn received_at(&self) -> UnixMillis {
        self.received_at
    }

    /// The short id. See [`EventId`].
    pub fn id(&self) -> EventId {
        EventId::new(self.received_at, &self.key)
    }

    /// The provider's name for the kind of event, such as `invoice.paid`. Empty if the event has no
    /// type.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The events of the request. A request that is not a batch has one event.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The provider's id of this delivery, if there is one.
    pub fn delivery(&self) -> Option<&str> {
        self.delivery.as_deref()
    }

    /// The locations of the id and the type that should have a value in this request, but have no
    /// usable value.
    pub fn missing(&self) -> &[MissingPath] {
        &self.missing
    }

    pub fn body(&self) -> &Bytes {
        &self.body
    }

    pub fn proven(&self) -> Proven {
        self.proven
    }

    /// The mark that identifies the signed message. It is set for an event whose key contains
    /// unsigned values. Mitt processes only the first event of a source with this mark.
    pub fn once(&self) -> Option<Sha> {
        self.once
    }

    /// The label of the secret that matched. The label never contains the secret.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }
}

/// The maximum length of a type or a delivery id, in bytes.
pub const LONGEST_NAME: usize = 128;

/// The longest value of a header that a row stores, in bytes. Mitt truncates a longer value.
pub const LONGEST_STORED_HEADER: usize = 512;

/// Truncates a text to at most `longest` bytes, at a character boundary.
pub fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The identity of an event: the source and the provider's event id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey {
    source: String,
    id: String,
}

impl EventKey {
    /// Replaces the id with its hash if the id is empty, has more than 200 bytes, or has characters
    /// other than `[A-Za-z0-9._:=+/-]`. This way, a provider's id cannot form the key of another
    /// row.
    pub fn new(source: &str, id: &str) -> Self {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:=+/-".contains(&b);
        let id = if !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(plain) {
            id.to_owned()
        } else {
            format!("h:{}", hex::encode(Sha256::digest(id)))
        };
        Self {
            source: source.to_owned(),
            id,
        }
    }

    /// The key of an event with the same id but different content. No other key contains `~`,
    /// because [`new`](Self::new) hashes every id with this character.
    #[must_use]
    pub fn conflicting(&self, content: &Sha) -> Self {
        Self {
            source: self.source.clone(),
            id: format!("{}~{}", self.id, &content.hex()[..8]),
        }
    }

    /// Like [`conflicting`](Self::conflicting), but with the whole hash. Mitt uses this key if
    /// another event already has the key with the same first eight digits.
    pub(crate) fn conflicting_whole(&self, content: &Sha) -> Self {
        Self {
            source: self.source.clone(),
            id: format!("{}~{}", self.id, content.hex()),
        }
    }

    /// Returns whether this is the key of an event that Mitt quarantined on arrival.
    pub fn is_conflicting(&self) -> bool {
        self.id.contains('~')
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The partition key of the event's rows in the table.
    pub fn pk(&self) -> String {
        format!("E#{}#{}", self.source, self.id)
    }

    /// Parses the output of [`pk`](Self::pk).
    pub fn from_pk(pk: &str) -> Option<Self> {
        let (source, id) = pk.strip_prefix("E#")?.split_once('#')?;
        (!source.is_empty() && !id.is_empty() && !id.contains('#')).then(|| Self {
            source: source.to_owned(),
            id: id.to_owned(),
        })
    }
}

/// Formats the key as `source:event-id`.
impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.id)
    }
}

/// The short id of an event: `evt_` and a ULID. The ULID consists of the time of receipt and a hash
/// of the key.
///
/// Mitt computes the id and does not store it. The `time` index contains the time of receipt and
/// the key, so a lookup by prefix queries one hour of the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(String);

impl EventId {
    pub fn new(received_at: UnixMillis, key: &EventKey) -> Self {
        Self::named(received_at, &key.pk())
    }

    /// The id of an item of the table, such as an event or a rejected request. `place` is the key
    /// of the item in the table.
    pub(crate) fn named(received_at: UnixMillis, place: &str) -> Self {
        let digest = Sha256::digest(place);
        let random = digest
            .iter()
            .take(10)
            .fold(0_u128, |acc, b| (acc << 8) | u128::from(*b));
        let ulid = ulid::Ulid::from_parts(u64::try_from(received_at.0).unwrap_or(0), random);
        Self(format!("evt_{ulid}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the inclusive range of receipt times that ids with this prefix can have. Returns
    /// `None` if the text is not a prefix of an id, or has no characters after `evt_`.
    pub fn times(prefix: &str) -> Option<(UnixMillis, UnixMillis)> {
        let text = prefix
            .strip_prefix("evt_")
            .unwrap_or(prefix)
            .to_ascii_uppercase();
        if text.is_empty() || text.len() > 26 || !text.is_ascii() {
            return None;
        }
        let from = ulid::Ulid::from_string(&format!("{text:0<26}")).ok()?;
        let to = ulid::Ulid::from_string(&format!("{text:Z<26}")).ok()?;
        let ms =
            |ulid: ulid::Ulid| UnixMillis(i64::try_from(ulid.timestamp_ms()).unwrap_or(i64::MAX));
        Some((ms(from), ms(to)))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The SHA-256 of some bytes, usually of the exact body.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha(pub [u8; 32]);

impl Sha {
    pub fn of(body: &[u8]) -> Self {
        Self(Sha256::digest(body).into())
    }

    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex()[..16])
    }
}

string_enum! {
    /// How an event arrived.
    Via {
        Webhook = "webhook",
        BackupSync = "backup_sync",
        Spill = "spill",
        Recon = "recon",
    }
}

impl<'de> serde::Deserialize<'de> for Proven {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::parse(&word).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "invalid value {word:?} for proves; use body, fields, origin, token or nothing"
            ))
        })
    }
}

string_enum! {
    /// The part of an event that the signature proves.
    Proven {
        /// The signature covers the body.
        Body = "body",
        /// The signature covers some fields of the body.
        Fields = "fields",
        /// The sender is authenticated, but the signature does not cover the body.
        Origin = "origin",
        /// The sender knows a shared token.
        Token = "token",
        Nothing = "nothing",
    }
}

#[cfg(test)]
mod tests;
