//! Documents that requests name: certificates and keys without which the requests cannot be
//! verified.
//!
//! Any sender can name a document that does not exist, so the number of recorded documents is
//! limited for each sender. Each sender has its own slot, so a sender with many documents does not
//! affect other senders. A sender is identified by the client address that API Gateway reports, or
//! by the /64 network for IPv6. Behind a content delivery network, this is an address of that
//! network. The provider then shares its address with other clients of the network.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | a sender's slot in an hour | `Q#{source}#{yyyymmdd}#W` | `{hh}#{slot, 0..63}`: `own` the sender, `n` documents |
//! | a document of a sender | same | `{hh}#{sender}#{hash of the name}`: `k` and `v` the document, `at` and `last` the time of its first and last request, `r` stored requests, `n` failed fetches, `tat` the time of the last fetch |

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::{RejectedRequests, day};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};
use crate::inbox::table::{Change, Returns, Write};
use crate::webhook::envelope::Headers;
use crate::webhook::verify::Wanted;

/// The maximum number of senders that can name documents of one source in an hour.
pub const SENDERS: u64 = 64;

/// The number of slots that a sender can try in an hour.
const PLACES: u64 = 4;

/// The maximum number of documents that one sender can name in an hour.
pub const DOCUMENTS: u32 = 32;

/// The maximum number of documents of a sender in an hour for which requests are stored.
const WITH_REQUESTS: u32 = 4;

/// The maximum number of requests that are stored for one document and sender in an hour.
const REQUESTS: u32 = 3;

/// The maximum age of the documents that [`RejectedRequests::named`] reads.
pub const NAMED: Duration = Duration::from_secs(24 * 3600);

/// How long the recorded documents are kept.
const KEEP_NAMED: Duration = Duration::from_secs(2 * 24 * 3600);

/// The minimum interval between two updates of `last` of a document.
const SAY_AGAIN: Duration = Duration::from_secs(60);

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The result of recording a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// The document is recorded, and the request may be stored.
    WithRequest,
    /// The document is recorded. Enough requests that name it are already stored.
    Only,
    /// The document is not recorded. The sender has reached its limit for this hour, or other
    /// senders use all of its slots.
    Full,
}

/// A document that a sender named in one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub document: Wanted,
    pub sender: String,
    /// The times when a request first and last named the document.
    pub at: UnixMillis,
    pub last: UnixMillis,
    /// The number of failed fetches, and the time of the last one.
    pub tries: u32,
    pub tried_at: Option<UnixMillis>,
    pk: String,
    sk: String,
}

/// Returns the sender of a request, which is a hash of the client address, as 16 hex digits.
pub fn sender(headers: &Headers) -> String {
    let address = address(headers).and_then(|address| address.parse().ok());
    let digest = match address {
        Some(IpAddr::V4(v4)) => Sha256::digest(v4.octets()),
        Some(IpAddr::V6(v6)) => match v6.to_ipv4_mapped() {
            Some(v4) => Sha256::digest(v4.octets()),
            None => Sha256::digest(&v6.octets()[..8]),
        },
        // All requests without a valid address share one sender.
        None => Sha256::digest("unknown"),
    };
    hex::encode(&digest[..8])
}

/// Returns the address that API Gateway appended. The client controls the earlier entries.
pub(super) fn address(headers: &Headers) -> Option<&str> {
    let chain = headers.all("x-forwarded-for").last()?;
    let last = chain.rsplit(',').next()?.trim();
    (!last.is_empty()).then_some(last)
}

impl RejectedRequests {
    /// Records that a sender named a document.
    pub(super) async fn note(
        &self,
        source: &str,
        sender: &str,
        document: &Wanted,
        at: UnixMillis,
    ) -> anyhow::Result<Noted> {
        let (pk, hour) = (partition(source, at), hour(at));
        let (kind, name) = written(document);
        let digest = hex::encode(&Sha256::digest(document.name().as_bytes())[..8]);
        let sk = format!("{hour}#{sender}#{digest}");
        let again = Item::from([
            (":at".to_owned(), item::ms(at)),
            (":most".to_owned(), item::n(REQUESTS)),
            (":one".to_owned(), item::n(1)),
        ]);
        let noted = self
            .update(
                (&pk, &sk),
                ("r < :most", "SET #last = :at ADD r :one"),
                again,
            )
            .await?;
        match noted {
            Ok(_) => return Ok(Noted::WithRequest),
            Err(Some(known)) => {
                let last = item::time(&known, "last").unwrap_or_default();
                if at.since(last) >= SAY_AGAIN {
                    let again = Item::from([(":at".to_owned(), item::ms(at))]);
                    let change = ("attribute_exists(v)", "SET #last = :at");
                    self.update((&pk, &sk), change, again).await?.ok();
                }
                return Ok(Noted::Only);
            }
            Err(None) => {}
        }
        let Some(count) = self.take_share(&pk, hour, sender, at).await? else {
            return Ok(Noted::Full);
        };
        let with_request = count <= WITH_REQUESTS;
        // No requests are stored for later documents of a sender, so their count starts at the
        // limit.
        let requests = if with_request { 1 } else { REQUESTS };
        let new = Item::from([
            (":sv".to_owned(), item::n(SCHEMA)),
            (":k".to_owned(), item::s(kind)),
            (":v".to_owned(), item::s(name)),
            (":at".to_owned(), item::ms(at)),
            (":r".to_owned(), item::n(requests)),
            (":zero".to_owned(), item::n(0)),
            (":ttl".to_owned(), item::n((at + KEEP_NAMED).secs())),
        ]);
        let change = (
            "attribute_not_exists(v)",
            "SET sv = :sv, k = :k, v = :v, #at = :at, #last = :at, r = :r, n = :zero, #ttl = :ttl",
        );
        let new = self.update((&pk, &sk), change, new).await?;
        Ok(if with_request && new.is_ok() {
            Noted::WithRequest
        } else {
            Noted::Only
        })
    }

    /// Counts one more document of a sender. Returns `None` if the sender has reached its limit, or
    /// if other senders use all of its slots.
    async fn take_share(
        &self,
        pk: &str,
        hour: &str,
        sender: &str,
        at: UnixMillis,
    ) -> anyhow::Result<Option<u32>> {
        for place in places(hour, sender) {
            let values = Item::from([
                (":sv".to_owned(), item::n(SCHEMA)),
                (":own".to_owned(), item::s(sender)),
                (":most".to_owned(), item::n(DOCUMENTS)),
                (":one".to_owned(), item::n(1)),
                (":ttl".to_owned(), item::n((at + KEEP_NAMED).secs())),
            ]);
            let change = (
                "attribute_not_exists(pk) OR (own = :own AND n < :most)",
                "SET sv = :sv, own = :own, #ttl = :ttl ADD n :one",
            );
            let sk = format!("{hour}#{place:02}");
            match self.update((pk, &sk), change, values).await? {
                Ok(share) => return Ok(Some(item::number(&share, "n").unwrap_or(u32::MAX))),
                Err(taken) => {
                    let own = taken.as_ref().and_then(|taken| item::text(taken, "own"));
                    if own == Some(sender) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the documents that requests have named since `from`, oldest first.
    pub async fn named(
        &self,
        source: &str,
        from: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<Vec<Named>> {
        let from = from.max(now - NAMED);
        let mut found = Vec::new();
        let mut at = from;
        while at.0.div_euclid(DAY_MS) <= now.0.div_euclid(DAY_MS) {
            self.named_on(&partition(source, at), hour(at), &mut found)
                .await?;
            at = UnixMillis((at.0.div_euclid(DAY_MS) + 1) * DAY_MS);
        }
        found.retain(|named| named.last >= from);
        found.sort_by(|a, b| (a.at, &a.sk).cmp(&(b.at, &b.sk)));
        Ok(found)
    }

    async fn named_on(&self, pk: &str, from: &str, found: &mut Vec<Named>) -> anyhow::Result<()> {
        let mut start: Option<Item> = None;
        loop {
            let answer = self
                .table
                .query()
                .key_condition_expression("pk = :pk AND sk >= :from")
                .expression_attribute_values(":pk", item::s(pk))
                .expression_attribute_values(":from", item::s(from))
                .set_exclusive_start_key(start)
                .send()
                .await
                .context("list the documents that requests name")?;
            found.extend(answer.items().iter().filter_map(Named::read));
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(());
            }
        }
    }

    /// Records a failed fetch of a document.
    pub async fn note_try(&self, named: &Named, now: UnixMillis) -> anyhow::Result<()> {
        let values = Item::from([
            (":now".to_owned(), item::ms(now)),
            (":one".to_owned(), item::n(1)),
        ]);
        let change = ("attribute_exists(v)", "SET tat = :now ADD n :one");
        let noted = self.update((&named.pk, &named.sk), change, values).await?;
        noted.ok();
        Ok(())
    }

    /// Returns the item after the change. If the condition is false, returns `Err` with the current
    /// item.
    async fn update(
        &self,
        (pk, sk): (&str, &str),
        (condition, update): (&str, &str),
        values: Item,
    ) -> anyhow::Result<Result<Item, Option<Item>>> {
        let mut change = Change::new("store a document that a request names", condition, update);
        change.values = values;
        for (short, name) in [("#last", "last"), ("#ttl", "ttl"), ("#at", "at")] {
            if update.contains(short) {
                change = change.named(short, name);
            }
        }
        let written = self.table.update((pk, sk), change, Returns::All);
        Ok(match written.await? {
            Write::Applied(item) => Ok(item.unwrap_or_default()),
            Write::Refused(item) => Err(item),
        })
    }
}

impl Named {
    /// Reads a document. Returns `None` for the item of a sender's slot.
    fn read(stored: &Item) -> Option<Self> {
        let (pk, sk) = (item::text(stored, "pk")?, item::text(stored, "sk")?);
        let mut parts = sk.split('#');
        let sender = parts.nth(1)?;
        parts.next()?;
        let at = item::time(stored, "at")?;
        Some(Self {
            document: document(item::text(stored, "k")?, item::text(stored, "v")?)?,
            sender: sender.to_owned(),
            at,
            last: item::time(stored, "last").unwrap_or(at),
            tries: item::number(stored, "n").unwrap_or(0),
            tried_at: item::time(stored, "tat"),
            pk: pk.to_owned(),
            sk: sk.to_owned(),
        })
    }
}

fn written(document: &Wanted) -> (&'static str, &str) {
    match document {
        Wanted::Certificate(url) => ("certificate", url),
        Wanted::KeySet(url) => ("key_set", url),
        Wanted::PublicKey(url) => ("public_key", url),
        Wanted::Key(kid) => ("key", kid),
    }
}

/// Returns `None` for a kind that this code does not support.
fn document(kind: &str, name: &str) -> Option<Wanted> {
    let name = name.to_owned();
    match kind {
        "certificate" => Some(Wanted::Certificate(name)),
        "key_set" => Some(Wanted::KeySet(name)),
        "public_key" => Some(Wanted::PublicKey(name)),
        "key" => Some(Wanted::Key(name)),
        _ => None,
    }
}

fn partition(source: &str, at: UnixMillis) -> String {
    format!("Q#{source}#{}#W", day(at))
}

fn hour(at: UnixMillis) -> &'static str {
    const HOURS: [&str; 24] = [
        "00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14",
        "15", "16", "17", "18", "19", "20", "21", "22", "23",
    ];
    let hour = at.0.rem_euclid(DAY_MS) / HOUR_MS;
    usize::try_from(hour)
        .ok()
        .and_then(|hour| HOURS.get(hour))
        .copied()
        .unwrap_or("00")
}

/// Returns the slots that a sender can try in an hour. The slots change every hour, so two senders
/// with the same slots do not compete again in the next hour.
fn places(hour: &str, sender: &str) -> impl Iterator<Item = u64> {
    let digest = Sha256::digest(format!("{hour}#{sender}"));
    let places: Vec<u64> = digest
        .iter()
        .map(|byte| u64::from(*byte) % SENDERS)
        .collect();
    (0..PLACES).filter_map(move |n| places.get(usize::try_from(n).ok()?).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(chain: &str) -> String {
        let headers = [("x-forwarded-for", chain)];
        sender(&headers.into_iter().collect())
    }

    #[test]
    fn a_sender_is_the_address_that_it_did_not_choose() {
        assert_eq!(of("198.51.100.1, 203.0.113.9"), of("203.0.113.9"));
        assert_ne!(of("203.0.113.9, 198.51.100.1"), of("203.0.113.9"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:203.0.113.9"), of("203.0.113.9"));
        assert_eq!(of("nobody"), sender(&Headers::default()));
    }

    #[test]
    fn a_document_is_read_back_and_a_share_is_none() {
        for wanted in [
            Wanted::Certificate("https://api.paypal.com/v1/notifications/certs/1".into()),
            Wanted::KeySet("https://a.test/keys".into()),
            Wanted::PublicKey("https://static.adobeioevents.com/a.pem".into()),
            Wanted::Key("kid".into()),
        ] {
            let (kind, name) = written(&wanted);
            assert_eq!(document(kind, name), Some(wanted));
        }
        assert_eq!(document("of newer code", "x"), None);
        let share = Item::from([
            ("pk".to_owned(), item::s("Q#s#20261123#W")),
            ("sk".to_owned(), item::s("17#09")),
            ("own".to_owned(), item::s("0123456789abcdef")),
            ("n".to_owned(), item::n(3)),
        ]);
        assert_eq!(Named::read(&share), None);
    }

    #[test]
    fn places_are_few_and_change_with_the_hour() {
        let all = |hour| places(hour, "0123456789abcdef").collect::<Vec<_>>();
        assert_eq!(all("17").len(), 4);
        assert!(all("17").iter().all(|place| *place < SENDERS));
        assert_ne!(all("17"), all("18"));
        assert_eq!(hour(UnixMillis(-1)), "23");
        assert_eq!(hour(UnixMillis(DAY_MS)), "00");
    }
}
