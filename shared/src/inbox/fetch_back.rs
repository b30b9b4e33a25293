//! Objects that unsigned notices name. This module records them until backup-sync fetches them from
//! the provider's API.
//!
//! Some providers send notices that contain only the id of an object and have no signature. So any
//! sender can send a notice. The catcher therefore stores only the id, and responds with 503.
//! backup-sync fetches the object, and creates the event from the response. After that, the object
//! is known to exist. For a known object, the catcher acknowledges a notice as soon as the request
//! to fetch the object is stored.
//!
//! The number of unknown objects is limited. Each of the [`GROUPS`] groups of networks can have
//! [`PER_GROUP`] unknown objects. So one sender cannot use the whole limit.
//!
//! | item | pk | sk | |
//! |---|---|---|---|
//! | object to be fetched | `F#{source}` | `W#{object}` | `w`: wanted revision; `s`: revision of the last call; `kn`: whether the object is known to exist; `net`: hash of the network of the first notice; `at`: time of the first notice; `n`: number of calls; `try`: start of the last call; `err`: why the last call failed |
//! | count of unknown objects of a group | `F#{source}` | `N#{group}` | `n` |
//! | object that was fetched | `F#{source}#{object}` | `K` | `at`, `ttl` |

mod wait;

use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem, Update};
use bytes::Bytes;

use crate::aws::TableClient;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};
use crate::inbox::table::{Change, Returns, Table, Transaction};
use crate::sources::Source;
use crate::webhook::event::{Event, Fetched, Via};
use crate::webhook::preset::State;
pub use wait::{GROUPS, Network, Wait};

/// The maximum number of unknown objects that can wait for one source and one group of networks.
pub const PER_GROUP: u32 = 64;

/// How long an object counts as known after it was fetched.
const KNOWN: Duration = Duration::from_secs(90 * 24 * 3600);

/// A read of the objects that wait for a fetch stops after this number of objects. No other limit
/// applies to known objects, because each known object can change and wait for a fetch.
const MOST_READ: usize = 4_000;

const READ: &str = "read the state of an object";

/// The maximum number of attempts of a write if other processes write first.
const TRIES: usize = 4;

/// The table with the objects that wait for a fetch, and the known objects.
#[derive(Debug)]
pub struct FetchBack {
    table: Table,
}

/// The result of storing a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The object is known, and the request to fetch its state is stored. The catcher may
    /// acknowledge the notice.
    Kept,
    /// The object will be fetched. Until then, it is unknown whether the object exists.
    Waits,
    /// Too many unknown objects are waiting.
    Full,
}

/// Returns the event for a fetched state. The connection to the provider proves the origin of the
/// event.
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
    // `content` covers only the data that is equal in all responses about a state. So two responses
    // about one state do not conflict.
    Event {
        content: state.content,
        account: preset.account_of_fetched(&fetched.body),
        ..fetched
    }
}

impl FetchBack {
    pub fn new(dynamodb: impl Into<TableClient>, table: impl Into<String>) -> Self {
        Self {
            table: Table::new(dynamodb, table),
        }
    }

    /// Stores the request to fetch an object. A fetch that begins after this function returns
    /// includes the change that the notice reports.
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
                // No call has begun for this revision. So the next call includes the change that
                // the notice reports.
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
        anyhow::bail!(
            "could not store a notice of {source}, because other processes changed the item of the object during each try"
        )
    }

    /// Returns the objects of a source that wait for a fetch.
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
                .with_context(|| format!("list the objects of {source} that wait for a fetch"))?;
            waits.extend(page.items().iter().filter_map(Wait::from_item));
            from = page.last_evaluated_key;
            if from.is_none() || waits.len() >= MOST_READ {
                return Ok(waits);
            }
        }
    }

    /// Records the start of a call, before the call. Returns `false` if another process started a
    /// call first. Sets the revision of the call in `wait`.
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

    /// Records why a call failed. The text must contain no content from the provider.
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

    /// Marks the object as known. Then ends the wait, unless another notice has arrived since the
    /// call began. The caller must store the event first.
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

    /// Ends the wait, unless another notice has arrived since the call began.
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

    /// Requests another fetch, because the last call may have begun before this notice.
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

    /// Stores the wait and counts the object in one transaction, so that a group never exceeds its
    /// limit.
    async fn put_unknown(&self, source: &str, wait: &Wait) -> anyhow::Result<Option<Noticed>> {
        let put = Put::builder()
            .table_name(self.table.name())
            .set_item(Some(wait.to_item(source)))
            .condition_expression("attribute_not_exists(pk)")
            .build()?;
        let put = TransactWriteItem::builder().put(put).build();
        let writes = vec![put, self.count(source, wait.network, 1)?];
        let stored = self.table.transact("store a notice of an object", writes);
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

fn pk(source: &str) -> String {
    format!("F#{source}")
}

fn known_pk(source: &str, object: &str) -> String {
    format!("F#{source}#{object}")
}
