//! Objects that unsigned notices name, until they are fetched from the provider's API.
//!
//! Some providers post no more than the id of an object, and sign nothing: anyone can post such a
//! notice. So the catcher stores only the name and answers 503; backup-sync fetches the object, and
//! the event is made from the answer. When the notice comes again, the object is known to be real:
//! from then on a notice is acknowledged as soon as the request to fetch it is stored.
//!
//! What strangers can store is bounded: objects that are not known yet are counted by groups of
//! networks, [`PER_GROUP`] in each of [`GROUPS`], so that one sender cannot take all places.
//!
//! | item | pk | sk | |
//! |---|---|---|---|
//! | object to be fetched | `F#{source}` | `W#{object}` | `w`: revision that is wanted; `s`: revision that the last call was made for; `kn`: known to be real; `net`: hash of the network of the first notice; `at`: first notice; `n`, `try`, `err`: calls so far, when the last began, why it failed |
//! | how many of a group wait | `F#{source}` | `N#{group}` | `n` |
//! | object that was fetched | `F#{source}#{object}` | `K` | `at`, `ttl` |

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem, Update};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};
use crate::inbox::table::{Change, Returns, Table, Transaction};
use crate::sources::Source;
use crate::webhook::event::{Event, Fetched, Via};
use crate::webhook::preset::State;

/// Groups of networks.
pub const GROUPS: u16 = 16;

/// Objects of one source and one group of networks that may wait without being known.
pub const PER_GROUP: u32 = 64;

/// For how long an object counts as known after it was fetched.
const KNOWN: Duration = Duration::from_secs(90 * 24 * 3600);

/// Waits of one source that are read at once. Those of known objects are as many as there are real
/// objects with news.
const MOST_READ: usize = 4_000;

const READ: &str = "read what is known of an object";

/// How often a write is decided again when another process was faster.
const TRIES: usize = 4;

/// The table.
#[derive(Debug)]
pub struct FetchBack {
    table: Table,
}

/// The network that a notice came from, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(u16);

/// What becomes of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The object is real, and its state will be fetched: this is stored. The notice may be
    /// acknowledged.
    Kept,
    /// The object will be fetched. Until then nothing says that it is real.
    Waits,
    /// Too many objects wait that nothing is known of.
    Full,
}

/// An object that is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub object: String,
    /// It was fetched before: its notices were acknowledged, so it has to be fetched again.
    pub known: bool,
    /// When the first notice came.
    pub at: UnixMillis,
    pub network: Network,
    /// Calls that were made for it.
    pub tries: u32,
    pub tried_at: Option<UnixMillis>,
    /// Why the last call failed.
    pub error: Option<String>,
    wanted: u64,
    called: u64,
}

impl Network {
    /// Of an address as text: the first 24 bits of an IPv4 address, 48 of an IPv6 address.
    pub fn of(address: &str) -> Self {
        let hash = |bytes: &[u8]| {
            let digest = Sha256::digest(bytes);
            Self(u16::from_be_bytes([digest[0], digest[1]]))
        };
        match address.trim().parse() {
            Ok(IpAddr::V4(v4)) => hash(&v4.octets()[..3]),
            Ok(IpAddr::V6(v6)) => hash(&v6.octets()[..6]),
            Err(_) => Self(0),
        }
    }

    fn group(self) -> u16 {
        self.0 % GROUPS
    }
}

/// The event of a state that was fetched. The connection proves its origin.
pub fn event(source: &Source, state: &State, body: Bytes, config: &str, now: UnixMillis) -> Event {
    let preset = &source.verifier.preset;
    let fetched = Event::fetched(Fetched {
        source: &source.name,
        provider: if preset.generic {
            &source.name
        } else {
            &preset.id
        },
        preset: &preset.id,
        id: &state.id,
        kind: &state.kind,
        body,
        now,
        via: Via::BackupSync,
        config,
    });
    // What may differ in two answers about one state does not make them a conflict.
    Event {
        content: state.content,
        ..fetched
    }
}

impl FetchBack {
    pub fn new(dynamodb: aws_sdk_dynamodb::Client, table: impl Into<String>) -> Self {
        Self {
            table: Table::new(dynamodb, table),
        }
    }

    /// Stores that an object is to be fetched. A fetch that begins after this returns has the state
    /// that the notice is about.
    pub async fn notice(
        &self,
        source: &str,
        object: &str,
        from: Network,
        now: UnixMillis,
    ) -> anyhow::Result<Noticed> {
        for _ in 0..TRIES {
            let noticed = match self.wait(source, object).await? {
                Some(wait) if !wait.known => Some(Noticed::Waits),
                // No call was made for this revision yet: the next one is late enough.
                Some(wait) if wait.called < wait.wanted => Some(Noticed::Kept),
                Some(wait) => self.want_again(source, &wait).await?,
                None if self.is_known(source, object).await? => {
                    let wait = Wait::new(object, true, from, now);
                    self.put_known(source, &wait).await?
                }
                None => {
                    let wait = Wait::new(object, false, from, now);
                    self.put_unknown(source, &wait).await?
                }
            };
            if let Some(noticed) = noticed {
                return Ok(noticed);
            }
        }
        anyhow::bail!("store that {source} has news of an object: other processes were faster")
    }

    /// What is to be fetched of a source.
    pub async fn waits(&self, source: &str) -> anyhow::Result<Vec<Wait>> {
        let mut waits = Vec::new();
        let mut from = None;
        loop {
            let page = self
                .table
                .query()
                .key_condition_expression("pk = :pk AND begins_with(sk, :w)")
                .expression_attribute_values(":pk", item::s(pk(source)))
                .expression_attribute_values(":w", item::s("W#"))
                .consistent_read(true)
                .set_exclusive_start_key(from)
                .send()
                .await
                .with_context(|| format!("read what is to be fetched of {source}"))?;
            waits.extend(page.items().iter().filter_map(Wait::from_item));
            from = page.last_evaluated_key;
            if from.is_none() || waits.len() >= MOST_READ {
                return Ok(waits);
            }
        }
    }

    /// Notes that a call begins, before it is made; `false` where another process came first. The
    /// wait then says what the call is made for.
    pub async fn begin(
        &self,
        source: &str,
        wait: &mut Wait,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = Change::new(
            "store that an object is being fetched",
            "w = :w AND n = :n",
            "SET s = w, #try = :now, n = :next",
        )
        .named("#try", "try")
        .with(":now", item::ms(now))
        .with(":w", item::n(wait.wanted))
        .with(":n", item::n(wait.tries))
        .with(":next", item::n(wait.tries.saturating_add(1)));
        if !self.update(source, wait, change).await? {
            return Ok(false);
        }
        wait.called = wait.wanted;
        wait.tries = wait.tries.saturating_add(1);
        wait.tried_at = Some(now);
        Ok(true)
    }

    /// Notes why a call failed. The text holds nothing that the provider sent.
    pub async fn failed(&self, source: &str, wait: &Wait, error: &str) -> anyhow::Result<()> {
        let what = "store why an object could not be fetched";
        let change = Change::new(what, "attribute_exists(pk)", "SET err = :err")
            .with(":err", item::s(error));
        self.update(source, wait, change).await?;
        Ok(())
    }

    async fn update(&self, source: &str, wait: &Wait, change: Change) -> anyhow::Result<bool> {
        let key = (&*pk(source), &*wait.sk());
        let written = self.table.update(key, change, Returns::Nothing).await?;
        Ok(written.is_applied())
    }

    /// The event of what was fetched is stored: the object is known, and waits no more unless there
    /// was another notice since the call began.
    pub async fn done(&self, source: &str, wait: &Wait, now: UnixMillis) -> anyhow::Result<()> {
        let known = Item::from([
            ("pk".to_owned(), item::s(known_pk(source, &wait.object))),
            ("sk".to_owned(), item::s("K")),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("at".to_owned(), item::ms(now)),
            ("ttl".to_owned(), item::n((now + KNOWN).secs())),
        ]);
        self.table
            .put(
                "store that an object is known",
                known,
                None,
                Returns::Nothing,
            )
            .await?;
        self.end(source, wait).await
    }

    /// The object waits no more, unless there was another notice since the call began.
    pub async fn end(&self, source: &str, wait: &Wait) -> anyhow::Result<()> {
        let delete = Delete::builder()
            .table_name(self.table.name())
            .key("pk", item::s(pk(source)))
            .key("sk", item::s(wait.sk()))
            .condition_expression("w = :w")
            .expression_attribute_values(":w", item::n(wait.wanted))
            .build()?;
        let mut writes = vec![TransactWriteItem::builder().delete(delete).build()];
        if !wait.known {
            writes.push(self.count(source, wait.network, -1)?);
        }
        self.table
            .transact("end the wait for an object", writes)
            .await?;
        Ok(())
    }

    async fn wait(&self, source: &str, object: &str) -> anyhow::Result<Option<Wait>> {
        let sk = format!("W#{object}");
        let item = self.table.get(READ, (&pk(source), &sk)).await?;
        Ok(item.as_ref().and_then(Wait::from_item))
    }

    async fn is_known(&self, source: &str, object: &str) -> anyhow::Result<bool> {
        let pk = known_pk(source, object);
        Ok(self.table.get(READ, (&pk, "K")).await?.is_some())
    }

    /// The last call may have begun before this notice.
    async fn want_again(&self, source: &str, wait: &Wait) -> anyhow::Result<Option<Noticed>> {
        let what = "store that an object changed";
        let change = Change::new(what, "w = :w", "SET w = :next, n = :none")
            .with(":w", item::n(wait.wanted))
            .with(":next", item::n(wait.wanted.saturating_add(1)))
            .with(":none", item::n(0));
        let written = self.update(source, wait, change).await?;
        Ok(written.then_some(Noticed::Kept))
    }

    async fn put_known(&self, source: &str, wait: &Wait) -> anyhow::Result<Option<Noticed>> {
        let what = "store that a known object changed";
        let condition = Some(("attribute_not_exists(pk)", Item::new()));
        let item = wait.to_item(source);
        let put = self
            .table
            .put(what, item, condition, Returns::Nothing)
            .await?;
        Ok(put.is_applied().then_some(Noticed::Kept))
    }

    /// The place is counted in the same transaction, so that a group never has more.
    async fn put_unknown(&self, source: &str, wait: &Wait) -> anyhow::Result<Option<Noticed>> {
        let put = Put::builder()
            .table_name(self.table.name())
            .set_item(Some(wait.to_item(source)))
            .condition_expression("attribute_not_exists(pk)")
            .build()?;
        let put = TransactWriteItem::builder().put(put).build();
        let writes = vec![put, self.count(source, wait.network, 1)?];
        let stored = self.table.transact("store that an object is named", writes);
        Ok(match stored.await? {
            Transaction::Applied => Some(Noticed::Waits),
            Transaction::Refused(0) | Transaction::Conflict => None,
            Transaction::Refused(_) => Some(Noticed::Full),
        })
    }

    fn count(&self, source: &str, network: Network, by: i8) -> anyhow::Result<TransactWriteItem> {
        let (condition, bound) = if by > 0 {
            ("attribute_not_exists(n) OR n < :bound", PER_GROUP)
        } else {
            ("n > :bound", 0)
        };
        let update = Update::builder()
            .table_name(self.table.name())
            .key("pk", item::s(pk(source)))
            .key("sk", item::s(format!("N#{:02}", network.group())))
            .update_expression("ADD n :by")
            .condition_expression(condition)
            .expression_attribute_values(":by", item::n(by))
            .expression_attribute_values(":bound", item::n(bound))
            .build()?;
        Ok(TransactWriteItem::builder().update(update).build())
    }
}

impl Wait {
    /// One that was never tried.
    pub fn new(object: &str, known: bool, network: Network, at: UnixMillis) -> Self {
        Self {
            object: object.to_owned(),
            known,
            at,
            network,
            tries: 0,
            tried_at: None,
            error: None,
            // Never that of an earlier row: a slow call for it must not end this wait.
            wanted: u64::try_from(at.0).unwrap_or(0).max(1),
            called: 0,
        }
    }

    fn sk(&self) -> String {
        format!("W#{}", self.object)
    }

    fn to_item(&self, source: &str) -> Item {
        Item::from([
            ("pk".to_owned(), item::s(pk(source))),
            ("sk".to_owned(), item::s(self.sk())),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("w".to_owned(), item::n(self.wanted)),
            ("s".to_owned(), item::n(self.called)),
            ("n".to_owned(), item::n(self.tries)),
            ("kn".to_owned(), item::n(u8::from(self.known))),
            ("net".to_owned(), item::n(self.network.0)),
            ("at".to_owned(), item::ms(self.at)),
        ])
    }

    /// What is missing is read so that the object is fetched.
    fn from_item(stored: &Item) -> Option<Self> {
        Some(Self {
            object: item::text(stored, "sk")?.strip_prefix("W#")?.to_owned(),
            known: item::number::<u8>(stored, "kn") == Some(1),
            at: item::time(stored, "at").unwrap_or(UnixMillis(0)),
            network: Network(item::number(stored, "net").unwrap_or(0)),
            tries: item::number(stored, "n").unwrap_or(0),
            tried_at: item::time(stored, "try"),
            error: item::text(stored, "err").map(str::to_owned),
            wanted: item::number(stored, "w")?,
            called: item::number(stored, "s").unwrap_or(0),
        })
    }
}

fn pk(source: &str) -> String {
    format!("F#{source}")
}

fn known_pk(source: &str, object: &str) -> String {
    format!("F#{source}#{object}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_many_addresses_and_one_group() {
        let of = Network::of;
        assert_eq!(of("203.0.113.9"), of("203.0.113.250"));
        assert_ne!(of("203.0.113.9"), of("203.0.114.9"));
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::9"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_eq!(of("nowhere"), of(""));
        assert!(of("203.0.113.9").group() < GROUPS);
    }

    #[test]
    fn a_wait_is_read_back_as_it_was_written() {
        let at = UnixMillis(1_795_169_681_000);
        let wait = Wait::new("tr_1", true, Network::of("203.0.113.9"), at);
        assert_eq!(Wait::from_item(&wait.to_item("s")), Some(wait));
        assert_eq!(Wait::from_item(&Item::new()), None);
    }
}
