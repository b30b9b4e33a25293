//! The stored form of a rejected request.

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;

use super::{KEEP, NewRejection, day, headers};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Encoding, Item, MissingBody, Packed, RouteAnswer, SCHEMA, item};
use crate::sources::policy::{LARGEST_REFUSED, LARGEST_REFUSED_BODY};
use crate::webhook::envelope::{Envelope, Headers};
use crate::webhook::event::{EventId, Sha};

/// The number of partitions for one day of a source.
pub(super) const SHARDS: u8 = 4;

/// A rejected request. Its body stays compressed until a caller reads it.
#[derive(Clone, Debug)]
pub struct RejectedRequest {
    pub id: EventId,
    pub source: String,
    /// The text of a [`Reason`](crate::webhook::verify::Reason). Newer code can store other
    /// reasons.
    pub reason: String,
    /// How the route of a trial answered the request. `None` outside a trial.
    pub route: Option<RouteAnswer>,
    pub method: String,
    pub url: String,
    pub headers: Headers,
    pub received_at: UnixMillis,
    /// The hash of the configuration at the time of receipt.
    pub config: String,
    pub sha: Sha,
    pub body_len: u64,
    /// The size of the item in bytes.
    pub stored: u64,
    pub released: Option<Released>,
    pub(super) pk: String,
    pub(super) sk: String,
    packed: Vec<u8>,
    encoding: Encoding,
}

/// The time when a request was released, and its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    pub at: UnixMillis,
    /// The event as `source:event-id`. `None` if the request contained no event.
    pub key: Option<String>,
}

impl RejectedRequest {
    /// Returns the request as it arrived, for a second verification.
    pub fn envelope(&self) -> Result<Envelope, MissingBody> {
        Ok(Envelope {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: self.body()?,
            received_at: self.received_at,
        })
    }

    /// Returns the exact bytes of the body, checked against their hash.
    pub fn body(&self) -> Result<Bytes, MissingBody> {
        crate::inbox::ledger::unpack(self.packed.clone(), self.encoding, self.body_len, &self.sha)
            .map(|body| body.0)
    }

    /// Returns the address that API Gateway appended. The client controls the earlier entries.
    pub fn address(&self) -> Option<&str> {
        super::documents::address(&self.headers)
    }

    /// Reads an item. Returns `None` if the item is invalid, so that a list can skip it.
    pub(super) fn read(stored: &Item) -> Option<Self> {
        let (pk, sk) = (item::text(stored, "pk")?, item::text(stored, "sk")?);
        let source = pk.strip_prefix("Q#")?.split('#').next()?;
        let received_at = UnixMillis(sk.split_once('#')?.0.parse().ok()?);
        let text = |name| item::text(stored, name).unwrap_or_default().to_owned();
        let released = item::time(stored, "rel").map(|at| Released {
            at,
            key: item::text(stored, "relk").map(str::to_owned),
        });
        Some(Self {
            id: EventId::named(received_at, &format!("{pk}#{sk}")),
            source: source.to_owned(),
            reason: text("why"),
            route: item::text(stored, "rt").and_then(RouteAnswer::read),
            method: text("mth"),
            url: text("url"),
            headers: read_headers(stored),
            received_at,
            config: text("cfg"),
            sha: Sha(item::bytes(stored, "sha")?.try_into().ok()?),
            body_len: item::number(stored, "len")?,
            stored: item::size(stored) as u64,
            released,
            pk: pk.to_owned(),
            sk: sk.to_owned(),
            packed: item::bytes(stored, "b")?.to_vec(),
            encoding: Encoding::of(stored).unwrap_or(Encoding::Raw),
        })
    }
}

/// The key of a stored request.
pub(super) struct Place {
    at: UnixMillis,
    pk: String,
    sk: String,
}

impl Place {
    pub(super) fn new(source: &str, at: UnixMillis) -> anyhow::Result<Self> {
        let mut random = [0; 8];
        crate::base::random::fill(&mut random)?;
        Ok(Self {
            at,
            pk: partition(source, at, random[0] % SHARDS),
            sk: format!("{:013}#{}", at.0.max(0), hex::encode(random)),
        })
    }

    pub(super) fn id(&self) -> EventId {
        EventId::named(self.at, &format!("{}#{}", self.pk, self.sk))
    }
}

pub(super) fn partition(source: &str, at: UnixMillis, shard: u8) -> String {
    format!("Q#{source}#{}#{shard}", day(at))
}

/// Returns the item and its size, or `None` if the item is too large.
pub(super) fn item(
    place: &Place,
    refused: &NewRejection<'_>,
    packed: Packed,
) -> Option<(Item, u64)> {
    let envelope = refused.envelope;
    if packed.bytes.len() > LARGEST_REFUSED_BODY {
        return None;
    }
    // The headers are a flat list of names and values, because their order and repeated headers can
    // affect the verification.
    let headers = headers::kept(refused).into_iter();
    let headers = headers.flat_map(|(name, value)| [item::s(name), item::s(value)]);
    let mut item = Item::from([
        ("pk".to_owned(), item::s(&place.pk)),
        ("sk".to_owned(), item::s(&place.sk)),
        ("sv".to_owned(), item::n(SCHEMA)),
        ("why".to_owned(), item::s(refused.reason.as_str())),
        ("mth".to_owned(), item::s(&envelope.method)),
        ("url".to_owned(), item::s(&envelope.url)),
        ("hdr".to_owned(), AttributeValue::L(headers.collect())),
        ("b".to_owned(), item::b(packed.bytes)),
        ("enc".to_owned(), item::s(packed.encoding.word())),
        ("len".to_owned(), item::n(envelope.body.len())),
        ("sha".to_owned(), item::b(Sha::of(&envelope.body).0)),
        ("cfg".to_owned(), item::s(&refused.source.verifier.config)),
        ("ttl".to_owned(), item::n((place.at + KEEP).secs())),
    ]);
    if let Some(answer) = refused.route {
        item.insert("rt".to_owned(), item::s(answer.to_string()));
    }
    let size = item::size(&item);
    (size <= LARGEST_REFUSED).then_some((item, size as u64))
}

fn read_headers(stored: &Item) -> Headers {
    let list = stored.get("hdr").and_then(|list| list.as_l().ok());
    let texts: Vec<&str> = list
        .into_iter()
        .flatten()
        .map(|text| text.as_s().map_or("", String::as_str))
        .collect();
    let pairs = texts.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Config;
    use crate::webhook::verify::Reason;

    const AT: UnixMillis = UnixMillis(1_795_169_681_118);

    fn envelope(body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Envelope {
        Envelope {
            method: "POST".into(),
            url: "https://hooks.example.test/in/github-main?a=1".into(),
            headers: headers.iter().copied().collect(),
            body: body.into(),
            received_at: AT,
        }
    }

    fn stored(envelope: &Envelope) -> Option<(Place, Item, u64)> {
        let config = Config::parse(crate::sources::EMBEDDED).unwrap();
        let refused = NewRejection {
            source: config.source("github-main").unwrap(),
            envelope,
            reason: Reason::BadSignature,
            route: None,
            secrets: &[],
        };
        let place = Place::new("github-main", AT).unwrap();
        let (item, size) = item(&place, &refused, Packed::new(&envelope.body))?;
        Some((place, item, size))
    }

    #[test]
    fn a_request_comes_back_as_it_arrived() {
        for body in [b"".to_vec(), vec![0xff; 100_000], (0..=255).collect()] {
            let headers = [("x-a", " 1"), ("x-b", ""), ("x-a", "2: ä\u{1b}")];
            let sent = envelope(body, &headers);
            let (place, item, size) = stored(&sent).unwrap();
            let held = RejectedRequest::read(&item).unwrap();
            let back = held.envelope().unwrap();
            assert_eq!((&back.method, &back.url), (&sent.method, &sent.url));
            assert_eq!((back.body, back.received_at), (sent.body, AT));
            assert_eq!(back.headers.iter().collect::<Vec<_>>(), headers);
            assert_eq!((held.id, held.stored), (place.id(), size));
            assert_eq!((held.source.as_str(), held.released), ("github-main", None));
        }
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let mut noise = vec![0; 64 * 1024 + 1];
        getrandom::fill(&mut noise).unwrap();
        assert!(stored(&envelope(noise[1..].to_vec(), &[])).is_some());
        assert!(stored(&envelope(noise, &[])).is_none());
        let long = "x".repeat(100_000);
        assert!(stored(&envelope("", &[("x-long", &long)])).is_none());
    }

    #[test]
    fn the_address_is_the_one_that_no_sender_chose() {
        let chain = [("x-forwarded-for", "198.51.100.1, 203.0.113.9")];
        let (_, item, _) = stored(&envelope("", &chain)).unwrap();
        assert_eq!(
            RejectedRequest::read(&item).unwrap().address(),
            Some("203.0.113.9")
        );
    }

    #[test]
    fn an_item_that_is_none_is_passed_over() {
        let (_, item, _) = stored(&envelope("x", &[])).unwrap();
        for name in ["pk", "sk", "sha", "len", "b"] {
            let mut broken = item.clone();
            broken.remove(name);
            assert!(RejectedRequest::read(&broken).is_none(), "{name}");
        }
    }
}
