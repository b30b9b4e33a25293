//! Spares a destination that is down, and the events that would be spent on it.
//!
//! Each process counts how the calls of a destination end. When they fail for reasons that are the
//! destination's and not one event's, the breaker *opens*: for everybody, because it is an item in
//! the table. Events are put off then and keep their attempts. When its time is over one call goes
//! through as a *probe*; if it ends well the breaker closes, otherwise it opens for longer.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `SYS` | `BRK#{destination}` | open until `til`, opened `n` times in a row, closed at `cl`, last written `by`; `rev` grows with each write; `ttl` |
//!
//! Every write asks for the `rev` that was seen, so that of any number of processes one probes.
//! What goes wrong with the item stops no work: without it nothing is spared, and that is all.

mod health;
mod state;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Ledger, item};
use crate::inbox::table::{Change, Returns, Table, Write};
use health::Health;
use state::BreakerState;
pub use state::Position;

/// How old may be what a process knows of the item.
const REREAD: Duration = Duration::from_secs(5);

/// How long a read or write of the item may take. Without an answer the destination is called: the breaker
/// must not stop what it protects. Shorter limits let a busy table through as if it were down.
const PATIENCE: Duration = Duration::from_secs(2);

/// The breakers of all destinations, as this process knows them.
#[derive(Debug)]
pub struct Breakers {
    table: Table,
    /// A random id of this process. With the number of the write it names each write: two tasks
    /// of one process can write equal values in the same millisecond.
    process: String,
    writes: AtomicU64,
    known: Mutex<HashMap<String, Known>>,
    /// Held while the table is read: a caller that comes meanwhile waits for what is read.
    reading: futures::lock::Mutex<()>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    read_at: Option<UnixMillis>,
    standing: BreakerState,
    health: Health,
}

/// Whether a destination may be called.
#[derive(Debug, PartialEq, Eq)]
pub enum Pass {
    Free,
    /// This is the one call that finds out whether it is up again.
    Probe(Probe),
    /// It is down. What is put off comes back at some time within `spread` after `until`.
    Down {
        until: UnixMillis,
        spread: Duration,
    },
}

/// The right to say how a probe ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Probe(BreakerState);

/// What a call showed of the destination's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The destination answered, also where it rejected the request.
    Success,
    /// The destination was unreachable, did not answer, or answered that it is unavailable.
    Failure,
    /// The destination was not called.
    NotCalled,
}

impl Breakers {
    pub fn new(dynamodb: aws_sdk_dynamodb::Client, table: impl Into<String>) -> Self {
        let mut process = [0; 6];
        // Without randomness a write of ours may pass for another's: nobody probes for a while.
        let _ = crate::base::random::fill(&mut process);
        Self {
            table: Table::new(dynamodb, table),
            process: hex::encode(process),
            writes: AtomicU64::new(0),
            known: Mutex::default(),
            reading: futures::lock::Mutex::default(),
        }
    }

    /// Those in the table of a ledger.
    pub fn beside(ledger: &Ledger) -> Self {
        let table = ledger.table();
        Self::new(table.client().clone(), table.name())
    }

    /// Asks to call a destination. Reads at most every five seconds, and writes only to probe.
    pub async fn pass(&self, destination: &str, now: UnixMillis) -> Pass {
        if self.position(destination, now).await != Position::Probing {
            return self.standing(destination).pass(now);
        }
        let seen = self.standing(destination);
        let probing = seen.probed(now);
        match self.write(destination, &seen, &probing).await {
            Ok(true) => Pass::Probe(Probe(probing)),
            // Somebody else probes, or has closed it.
            Ok(false) => self.standing(destination).pass(now),
            Err(error) => {
                trouble(destination, &error);
                Pass::Free
            }
        }
    }

    /// Where it stands by what is in the table now, for people.
    pub async fn read_position(
        &self,
        destination: &str,
        now: UnixMillis,
    ) -> anyhow::Result<Position> {
        Ok(self.read(destination).await?.position(now))
    }

    /// Where the breaker of a destination stands.
    pub async fn position(&self, destination: &str, now: UnixMillis) -> Position {
        let reading = self.reading.lock().await;
        if self.is_to_be_read(destination, now) {
            match self.read(destination).await {
                Ok(standing) => self.known(destination, |known| known.standing = standing),
                Err(error) => trouble(destination, &error),
            }
        }
        drop(reading);
        self.standing(destination).position(now)
    }

    /// Whether so many calls fail, of those that this process makes, that what can wait should.
    pub fn is_strained(&self, destination: &str, now: UnixMillis) -> bool {
        self.known(destination, |known| known.health.is_strained(now))
    }

    /// Takes in how a call ended that was let pass. `jitter` is in 0..=1.
    pub async fn heard(
        &self,
        destination: &str,
        pass: Pass,
        heard: CallResult,
        now: UnixMillis,
        jitter: f64,
    ) {
        let (seen, next) = match (pass, heard) {
            (_, CallResult::NotCalled) | (Pass::Down { .. }, _) => return,
            (Pass::Probe(Probe(mine)), CallResult::Success) => {
                tracing::info!(destination, breaker = "closed", "{destination} is up again");
                let next = mine.closed(now);
                (mine, next)
            }
            (Pass::Probe(Probe(mine)), CallResult::Failure) => {
                tracing::warn!(destination, breaker = "open", "{destination} is still down");
                let next = mine.opened(now, jitter);
                (mine, next)
            }
            (Pass::Free, _) => {
                let well = heard == CallResult::Success;
                let (trips, seen) = self.known(destination, |known| {
                    (known.health.note(well, now), known.standing.clone())
                });
                // What was under way when it opened says nothing new.
                if !trips || seen.position(now) != Position::Closed {
                    return;
                }
                tracing::error!(
                    destination,
                    breaker = "open",
                    "{destination} is down: its events are put off"
                );
                let next = seen.opened(now, jitter);
                (seen, next)
            }
        };
        match self.write(destination, &seen, &next).await {
            Ok(_) => self.known(destination, |known| known.health = Health::default()),
            Err(error) => trouble(destination, &error),
        }
    }

    /// Counts the try before it is made: a table that is down is asked no more often.
    fn is_to_be_read(&self, destination: &str, now: UnixMillis) -> bool {
        self.known(destination, |known| {
            let old = known.read_at.is_none_or(|at| now.since(at) >= REREAD);
            if old {
                known.read_at = Some(now);
            }
            old
        })
    }

    async fn read(&self, destination: &str) -> anyhow::Result<BreakerState> {
        let sk = sk(destination);
        let read = self.table.get("read a breaker", ("SYS", &sk));
        let answer = tokio::time::timeout(PATIENCE, read).await;
        let stored = answer.context("read a breaker: no answer in time")??;
        Ok(stored.as_ref().map(BreakerState::read).unwrap_or_default())
    }

    /// Writes what follows from what was seen; `false` when somebody else wrote meanwhile. Either
    /// way the newest is known afterwards.
    async fn write(
        &self,
        destination: &str,
        seen: &BreakerState,
        next: &BreakerState,
    ) -> anyhow::Result<bool> {
        let (condition, seen_rev) = seen.condition();
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let by = format!("{}-{number}", self.process);
        let mut change = Change::new("write a breaker", condition, BreakerState::UPDATE)
            .named("#ttl", "ttl")
            .named("#by", "by");
        change.values = next.values(&by);
        change.values.extend(seen_rev);
        let sk = sk(destination);
        let write = self.table.update(("SYS", &sk), change, Returns::Refused);
        let answer = tokio::time::timeout(PATIENCE, write).await;
        match answer.context("write a breaker: no answer in time")?? {
            Write::Applied(_) => {
                self.known(destination, |known| known.standing = next.clone());
                Ok(true)
            }
            Write::Refused(stored) => {
                let stored = stored.unwrap_or_default();
                let standing = BreakerState::read(&stored);
                // The SDK repeated this write because its response was lost.
                let ours = standing == *next && item::text(&stored, "by") == Some(&by);
                self.known(destination, |known| known.standing = standing);
                Ok(ours)
            }
        }
    }

    fn standing(&self, destination: &str) -> BreakerState {
        self.known(destination, |known| known.standing.clone())
    }

    fn known<T>(&self, destination: &str, with: impl FnOnce(&mut Known) -> T) -> T {
        let mut known: MutexGuard<'_, HashMap<_, _>> =
            self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Destinations are configured, never a sender's choice: they are few.
        with(known.entry(destination.to_owned()).or_default())
    }
}

fn trouble(destination: &str, error: &anyhow::Error) {
    tracing::warn!(
        destination,
        error = format!("{error:#}"),
        "the breaker of {destination} is not to be had; nothing is spared"
    );
}

fn sk(destination: &str) -> String {
    format!("BRK#{destination}")
}
