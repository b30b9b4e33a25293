//! Certificates and key sets that providers publish. backup-sync fetches them, and the verification
//! reads them.
//!
//! The catcher never fetches documents. If the certificate of a request is missing, the catcher
//! responds with 503. It also records which document the request names (see
//! [`Named`](crate::inbox::rejected::Named)). backup-sync then fetches the document. Each source
//! that needs such documents has one item:
//!
//! | pk | sk | |
//! |---|---|---|
//! | `K#{source}` | `K` | `got`: the documents by name, each with its text `t`, the time of its fetch `at`, and `ok` if the document has verified a request; `bad`: by name, the documents that failed and have no `Named` record, each with the time `at` of the last fetch and the number `n` of failed fetches; `seen`: all rejected requests up to this time are processed; `rev` increases with each write |

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::aws::TableClient;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};
use crate::inbox::table::{Returns, Table};
use crate::webhook::verify::{Verifier, Wanted};

/// The maximum size of a stored document, in bytes.
pub const LARGEST: usize = 16 * 1024;

/// The maximum number of documents of one source. If there are more, documents that have not
/// verified a request are removed first, starting with the oldest. So a sender that names other
/// documents of the provider cannot displace a document that is in use.
const MOST: usize = 16;

/// The maximum number of failed documents that are recorded for one source.
const MOST_FAILED: usize = 32;

/// The age at which a process reads the documents of a source again.
const FRESH: Duration = Duration::from_secs(300);

/// The minimum interval between reads for requests that failed verification.
const REREAD: Duration = Duration::from_secs(30);

/// The table, and the time when this process last read the documents of each source.
#[derive(Debug)]
pub struct Keyring {
    table: Table,
    read_at: Mutex<HashMap<String, UnixMillis>>,
}

/// The fetched documents of a source, and its failed fetches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    documents: BTreeMap<String, Document>,
    failures: BTreeMap<String, Failure>,
    /// All rejected requests up to this time are verified or no longer wait for a document.
    pub seen: Option<UnixMillis>,
    rev: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Document {
    text: String,
    at: UnixMillis,
    /// Whether the document has verified a request.
    proved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    at: UnixMillis,
    tries: u32,
}

impl Keyring {
    pub fn new(dynamodb: impl Into<TableClient>, table: impl Into<String>) -> Self {
        Self {
            table: Table::new(dynamodb, table),
            read_at: Mutex::default(),
        }
    }

    /// Gives a verifier the fetched documents of its source, if the verifier needs documents. Reads
    /// the table at most once every five minutes.
    pub async fn load_keys(&self, verifier: &Verifier, now: UnixMillis) -> anyhow::Result<()> {
        self.load_keys_older_than(FRESH, verifier, now)
            .await
            .map(drop)
    }

    /// Like [`load_keys`](Self::load_keys), for a request that failed verification. Reads the table
    /// at most once in 30 seconds. Returns whether it read the table.
    pub async fn reload_keys(&self, verifier: &Verifier, now: UnixMillis) -> anyhow::Result<bool> {
        self.load_keys_older_than(REREAD, verifier, now).await
    }

    async fn load_keys_older_than(
        &self,
        age: Duration,
        verifier: &Verifier,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        if !verifier.fetches() || !self.is_older_than(age, &verifier.source, now) {
            return Ok(false);
        }
        let fetched = self.read(&verifier.source).await?;
        verifier.trust.learn(fetched.documents());
        Ok(true)
    }

    /// Returns whether the last read is older than `age`. If so, records the current time as the
    /// time of the last read. The caller reads the table after that, so a process does not read a
    /// failing table more often.
    fn is_older_than(&self, age: Duration, source: &str, now: UnixMillis) -> bool {
        let mut read_at = self.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        let old = read_at
            .get(source)
            .is_none_or(|read_at| now.since(*read_at) > age);
        if old {
            read_at.insert(source.to_owned(), now);
        }
        old
    }

    /// Reads the fetched documents of a source.
    pub async fn read(&self, source: &str) -> anyhow::Result<Fetched> {
        let pk = pk(source);
        let read = self.table.get_eventually("read an item", (&pk, "K"), None);
        let stored = read.await;
        let stored = stored.with_context(|| format!("read the fetched keys of {source}"))?;
        Ok(stored.as_ref().map(Fetched::from_item).unwrap_or_default())
    }

    /// Writes the changed documents. Returns `false` if another process has written since this
    /// process read them.
    pub async fn write(&self, source: &str, fetched: &Fetched) -> anyhow::Result<bool> {
        let condition = "attribute_not_exists(pk) OR rev = :rev";
        let values = Item::from([(":rev".to_owned(), item::n(fetched.rev))]);
        let item = fetched.to_item(source);
        let put = self.table.put(
            "put an item",
            item,
            Some((condition, values)),
            Returns::Nothing,
        );
        let written = put.await;
        let written = written.with_context(|| format!("write the fetched keys of {source}"))?;
        Ok(written.is_applied())
    }
}

impl Fetched {
    /// Returns the name and the text of each document.
    pub fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        let documents = self.documents.iter();
        documents.map(|(url, document)| (url.as_str(), document.text.as_str()))
    }

    /// Returns the time when a document was fetched.
    pub fn fetched_at(&self, wanted: &Wanted) -> Option<UnixMillis> {
        Some(self.documents.get(wanted.name().as_ref())?.at)
    }

    /// Returns the number of failed fetches of a document, and the time of the last one.
    pub fn failed(&self, wanted: &Wanted) -> Option<(u32, UnixMillis)> {
        let failure = self.failures.get(wanted.name().as_ref())?;
        Some((failure.tries, failure.at))
    }

    pub fn add(&mut self, wanted: &Wanted, text: String, at: UnixMillis) {
        self.failures.remove(wanted.name().as_ref());
        let name = wanted.name().into_owned();
        let before = self.documents.get(&name);
        let proved = before.is_some_and(|document| document.proved);
        self.documents.insert(name, Document { text, at, proved });
        while self.documents.len() > MOST {
            let oldest = self
                .documents
                .iter()
                .min_by_key(|(_, document)| (document.proved, document.at));
            let Some(url) = oldest.map(|(url, _)| url.clone()) else {
                break;
            };
            self.documents.remove(&url);
        }
    }

    /// Records that this document has verified a request.
    pub fn add_proof(&mut self, wanted: &Wanted) {
        if let Some(document) = self.documents.get_mut(wanted.name().as_ref()) {
            document.proved = true;
        }
    }

    pub fn add_failure(&mut self, wanted: &Wanted, at: UnixMillis) {
        let url = wanted.name().into_owned();
        let failure = self.failures.entry(url).or_insert(Failure { at, tries: 0 });
        failure.at = at;
        failure.tries = failure.tries.saturating_add(1);
        while self.failures.len() > MOST_FAILED {
            let oldest = self.failures.iter().min_by_key(|(_, failure)| failure.at);
            let Some(url) = oldest.map(|(url, _)| url.clone()) else {
                break;
            };
            self.failures.remove(&url);
        }
    }

    fn to_item(&self, source: &str) -> Item {
        let documents = self.documents.iter().map(|(url, document)| {
            let mut stored = Item::from([
                ("t".to_owned(), item::s(&document.text)),
                ("at".to_owned(), item::ms(document.at)),
            ]);
            // Documents that older code stored have no `ok`. They are removed first.
            if document.proved {
                stored.insert("ok".to_owned(), item::n(1));
            }
            (url.clone(), AttributeValue::M(stored))
        });
        let failures = self.failures.iter().map(|(url, failure)| {
            let failure = Item::from([
                ("at".to_owned(), item::ms(failure.at)),
                ("n".to_owned(), item::n(failure.tries)),
            ]);
            (url.clone(), AttributeValue::M(failure))
        });
        let mut stored = Item::from([
            ("pk".to_owned(), item::s(pk(source))),
            ("sk".to_owned(), item::s("K")),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("rev".to_owned(), item::n(self.rev.saturating_add(1))),
            ("got".to_owned(), AttributeValue::M(documents.collect())),
            ("bad".to_owned(), AttributeValue::M(failures.collect())),
        ]);
        stored.extend(self.seen.map(|seen| ("seen".to_owned(), item::ms(seen))));
        stored
    }

    /// Skips invalid documents. backup-sync fetches them again.
    fn from_item(stored: &Item) -> Self {
        let entries = |name: &str| {
            let map = stored.get(name).and_then(|map| map.as_m().ok());
            let entries = map.into_iter().flatten();
            entries.filter_map(|(url, entry)| Some((url.clone(), entry.as_m().ok()?)))
        };
        let document = |entry: &Item| {
            Some(Document {
                text: item::text(entry, "t")?.to_owned(),
                at: item::time(entry, "at")?,
                proved: item::number::<u8>(entry, "ok") == Some(1),
            })
        };
        let failure = |entry: &Item| {
            Some(Failure {
                at: item::time(entry, "at")?,
                tries: item::number(entry, "n")?,
            })
        };
        Self {
            documents: entries("got")
                .filter_map(|(url, entry)| Some((url, document(entry)?)))
                .collect(),
            failures: entries("bad")
                .filter_map(|(url, entry)| Some((url, failure(entry)?)))
                .collect(),
            seen: item::time(stored, "seen"),
            rev: item::number(stored, "rev").unwrap_or(0),
        }
    }
}

fn pk(source: &str) -> String {
    format!("K#{source}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

    fn wanted(n: usize) -> Wanted {
        Wanted::Certificate(format!("https://api.paypal.com/v1/notifications/certs/{n}"))
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut fetched = Fetched {
            seen: Some(NOW),
            ..Fetched::default()
        };
        fetched.add(&wanted(1), "text".into(), NOW);
        fetched.add(&wanted(3), "text".into(), NOW);
        fetched.add_proof(&wanted(3));
        fetched.add_failure(&wanted(2), NOW);
        let read = Fetched::from_item(&fetched.to_item("paypal"));
        assert_eq!(read, Fetched { rev: 1, ..fetched });
        assert_eq!(Fetched::from_item(&Item::new()), Fetched::default());
    }

    #[test]
    fn documents_and_failures_are_few() {
        let mut fetched = Fetched::default();
        for n in 0..100 {
            let at = NOW + Duration::from_secs(n as u64);
            fetched.add(&wanted(n), "text".into(), at);
            fetched.add_failure(&wanted(n + 1_000), at);
        }
        assert_eq!(fetched.documents().count(), MOST);
        assert!(fetched.fetched_at(&wanted(99)).is_some());
        assert!(fetched.fetched_at(&wanted(0)).is_none());
        assert_eq!(fetched.failures.len(), MOST_FAILED);
        assert!(fetched.failed(&wanted(1_099)).is_some());
    }

    #[test]
    fn other_documents_do_not_push_out_one_that_proved() {
        let mut fetched = Fetched::default();
        fetched.add(&wanted(0), "text".into(), NOW);
        fetched.add_proof(&wanted(0));
        for n in 1..100 {
            let at = NOW + Duration::from_secs(n as u64);
            fetched.add(&wanted(n), "text".into(), at);
        }
        assert!(fetched.fetched_at(&wanted(0)).is_some());
        assert_eq!(fetched.documents().count(), MOST);
        // A second fetch keeps `proved`.
        fetched.add(&wanted(0), "newer".into(), NOW);
        fetched.add(&wanted(1), "text".into(), NOW);
        assert!(fetched.fetched_at(&wanted(0)).is_some());
    }
}
