//! The circuit breaker stops calls to a destination that is down, so that failed calls do not use
//! up the attempts of its events.
//!
//! Each process counts the results of its calls to a destination. If calls fail because of the
//! destination, and not because of one event, the breaker *opens* for all processes. Its state is
//! an item in the table. While the breaker is open, the processor defers the events of the
//! destination. A deferral does not count as an attempt. After the open time, the processor makes
//! one call as a *probe*. If the probe succeeds, the breaker closes. Otherwise, the breaker opens
//! for a longer time.
//!
//! A process that waits for a destination receives no messages of other sources, so a failed call
//! counts more if it took long.
//!
//! A destination that refuses requests may be right: one event can be wrong. Only if it refuses ten
//! different events in a row, the breaker opens, and one call a minute probes the destination.
//!
//! | pk | sk | |
//! |---|---|---|
//! | `SYS` | `BRK#{destination}` | open until `til`, opened `n` times in a row, closed at `cl`, last written `by`; `rfs`: the status with which it refuses every request, and the `rev` of that write; `rev` increases with each write; `ttl` |
//!
//! Every write is conditional on the `rev` that the process read, so that only one process probes.
//! A failed read or write of the item does not stop the work. The process continues with the state
//! that it read last. Before the first successful read, this state is closed.

mod health;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

use crate::aws::TableClient;
use crate::base::clock::UnixMillis;
use crate::base::timing::ACTION_TIMEOUT;
use crate::inbox::ledger::{Ledger, item};
use crate::inbox::table::{Change, Returns, Table, Write};
use health::Health;
pub use health::LONG;
use state::BreakerState;
pub use state::Position;

/// How long a process uses a cached item.
const REREAD: Duration = Duration::from_secs(5);

/// The maximum time for a read or a write of the item. If a read times out, the process uses the
/// cached state. If the write before a probe times out, the process calls the destination, because
/// the breaker must not stop the work. A shorter limit would treat a busy table as unavailable.
const PATIENCE: Duration = Duration::from_secs(2);

/// The breakers of all destinations, cached by this process.
#[derive(Debug)]
pub struct Breakers {
    table: Table,
    /// A random id of this process. The id and the number of the write together identify a write.
    /// Two tasks of one process can write equal values in the same millisecond.
    process: String,
    writes: AtomicU64,
    known: Mutex<HashMap<String, Known>>,
    /// A task holds this lock while it reads the table, so that a concurrent caller waits for the
    /// result.
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
    /// The caller makes the only call that probes the destination.
    Probe(Probe),
    /// The destination is down. A deferred event is due at a random time within `spread` after
    /// `until`.
    Down {
        until: UnixMillis,
        spread: Duration,
        /// The status with which the destination refuses every request, if it does.
        refused: Option<u16>,
    },
}

/// The right to report the result of a probe.
#[derive(Debug, PartialEq, Eq)]
pub struct Probe(BreakerState);

/// The result of a call, from which the breaker determines the health of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The destination responded, even if it rejected the request.
    Success,
    /// The destination refused the request with a status that does not have to be the fault of the
    /// event. `event` identifies the event.
    Refused { status: u16, event: u64 },
    /// The destination was unreachable, did not answer, or answered that it is unavailable.
    Failure,
    /// The same, after this time, which is at least [`LONG`].
    SlowFailure(Duration),
    /// The destination was not called.
    NotCalled,
}

impl CallResult {
    /// Returns the result of a call that took this long.
    #[must_use]
    pub fn after(self, took: Duration) -> Self {
        match self {
            Self::Failure if took >= LONG => Self::SlowFailure(took),
            other => other,
        }
    }

    /// Returns whether the call failed because of the destination.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failure | Self::SlowFailure(_))
    }
}

impl Breakers {
    pub fn new(dynamodb: impl Into<TableClient>, table: impl Into<String>) -> Self {
        let mut process = [0; 6];
        // If no random bytes are available, two processes can have the same id. One process can
        // then mistake a write of the other process for its own write, so that both probe.
        let _ = crate::base::random::fill(&mut process);
        Self {
            table: Table::new(dynamodb, table),
            process: hex::encode(process),
            writes: AtomicU64::new(0),
            known: Mutex::default(),
            reading: futures::lock::Mutex::default(),
        }
    }

    /// Returns the breakers that are stored in the table of a ledger.
    pub fn beside(ledger: &Ledger) -> Self {
        let table = ledger.table();
        Self::new(table.client().clone(), table.name())
    }

    /// Returns whether a destination may be called, for a call with the default timeout.
    pub async fn pass(&self, destination: &str, now: UnixMillis) -> Pass {
        self.pass_for(destination, ACTION_TIMEOUT, now).await
    }

    /// Returns whether a destination may be called, for a call that may take `call`. Reads the table
    /// at most once in five seconds. Writes to the table only before a probe.
    pub async fn pass_for(&self, destination: &str, call: Duration, now: UnixMillis) -> Pass {
        if self.position(destination, now).await != Position::Probing {
            return self.standing(destination).pass(now);
        }
        let seen = self.standing(destination);
        let probing = seen.probed(now, call);
        match self.write(destination, &seen, &probing).await {
            Ok(true) => Pass::Probe(Probe(probing)),
            // Another process has started a probe or closed the breaker.
            Ok(false) => self.standing(destination).pass(now),
            Err(error) => {
                trouble(destination, &error);
                Pass::Free
            }
        }
    }

    /// Reads the current position from the table, for operators.
    pub async fn read_position(
        &self,
        destination: &str,
        now: UnixMillis,
    ) -> anyhow::Result<Position> {
        Ok(self.read(destination).await?.position(now))
    }

    /// Returns the position of each stored breaker by destination, and when it was last written.
    /// A destination without an item is closed.
    pub async fn positions(
        ledger: &Ledger,
        now: UnixMillis,
    ) -> anyhow::Result<BTreeMap<String, (Position, UnixMillis)>> {
        let prefix = sk("");
        let (items, _) = ledger.items_below("SYS", &prefix).await?;
        let positions = items.iter().filter_map(|stored| {
            let destination = item::text(stored, "sk")?.strip_prefix(&prefix)?;
            let state = BreakerState::read(stored);
            Some((
                destination.to_owned(),
                (state.position(now), state.written_at()),
            ))
        });
        Ok(positions.collect())
    }

    /// Returns the position of a breaker. A process reads the position at most once in five
    /// seconds. If a read fails, the process uses the last position.
    pub async fn position(&self, destination: &str, now: UnixMillis) -> Position {
        let reading = self.reading.lock().await;
        if self.is_to_be_read(destination, now) {
            match self.read(destination).await {
                Ok(standing) => self.known(destination, |known| {
                    if standing.is_newer_than(&known.standing) {
                        known.health.forget_refused();
                    }
                    known.standing = standing;
                }),
                Err(error) => trouble(destination, &error),
            }
        }
        drop(reading);
        self.standing(destination).position(now)
    }

    /// Returns whether many calls of this process fail, so that old events should wait.
    pub fn is_strained(&self, destination: &str, now: UnixMillis) -> bool {
        self.known(destination, |known| known.health.is_strained(now))
    }

    /// Records the result of a call. `jitter` is in 0..=1.
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
            (Pass::Probe(Probe(mine)), CallResult::Refused { status, .. }) if mine.is_refused() => {
                let why = refuses(status);
                tracing::warn!(
                    destination,
                    breaker = "open",
                    status,
                    "the probe of {destination} failed: {why}; its circuit breaker stays open"
                );
                let next = mine.opened_by_refusals(status, now, jitter);
                (mine, next)
            }
            (Pass::Probe(Probe(mine)), CallResult::Success | CallResult::Refused { .. }) => {
                tracing::info!(
                    destination,
                    breaker = "closed",
                    "the probe of {destination} succeeded; its circuit breaker is closed"
                );
                let next = mine.closed(now);
                (mine, next)
            }
            (Pass::Probe(Probe(mine)), CallResult::Failure | CallResult::SlowFailure(_)) => {
                tracing::warn!(
                    destination,
                    breaker = "open",
                    "the probe of {destination} failed; its circuit breaker stays open"
                );
                let next = mine.opened(now, jitter);
                (mine, next)
            }
            (Pass::Free, _) => match self.counted(destination, heard, now, jitter) {
                Some(change) => change,
                None => return,
            },
        };
        match self.write(destination, &seen, &next).await {
            Ok(_) => self.known(destination, |known| known.health = Health::default()),
            Err(error) => trouble(destination, &error),
        }
    }

    /// Records how the calls of a worker outside of Lambda ended. The worker claimed its event at
    /// `claimed_at`. If the breaker did not change after that, the event was its probe.
    pub async fn heard_from_worker(
        &self,
        destination: &str,
        claimed_at: UnixMillis,
        failed: bool,
        now: UnixMillis,
        jitter: f64,
    ) {
        let heard = if failed {
            CallResult::Failure
        } else {
            CallResult::Success
        };
        let position = self.position(destination, now).await;
        let seen = self.standing(destination);
        let pass = match position {
            Position::Closed => Pass::Free,
            // The call was in flight when the breaker opened.
            _ if claimed_at < seen.written_at() => return,
            _ => Pass::Probe(Probe(seen)),
        };
        self.heard(destination, pass, heard, now, jitter).await;
    }

    /// Counts the result of a call that was no probe. If the breaker has to open, returns the state
    /// that this process saw and the next state.
    fn counted(
        &self,
        destination: &str,
        heard: CallResult,
        now: UnixMillis,
        jitter: f64,
    ) -> Option<(BreakerState, BreakerState)> {
        let (trips, seen) = self.known(destination, |known| {
            let trips = match heard {
                CallResult::Refused { event, .. } => known.health.note_refused(event, now),
                CallResult::SlowFailure(took) => known.health.note_failure(took, now),
                _ => known.health.note(heard == CallResult::Success, now),
            };
            (trips, known.standing.clone())
        });
        // Calls that were in flight when the breaker opened give no new information.
        if !trips || seen.position(now) != Position::Closed {
            return None;
        }
        let next = if let CallResult::Refused { status, .. } = heard {
            let why = refuses(status);
            tracing::error!(
                destination,
                breaker = "open",
                status,
                "{destination} is down: {why}; its circuit breaker is open, and its events are deferred"
            );
            seen.opened_by_refusals(status, now, jitter)
        } else {
            tracing::error!(
                destination,
                breaker = "open",
                "{destination} is down; its circuit breaker is open, and its events are deferred"
            );
            seen.opened(now, jitter)
        };
        Some((seen, next))
    }

    /// Returns whether the cached item is too old. If so, records the current time as the time of
    /// the last read. The caller reads the table after that, so a process does not read a failing
    /// table more often.
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
        let read = self.table.get("read a circuit breaker", ("SYS", &sk));
        let answer = tokio::time::timeout(PATIENCE, read).await;
        let stored = answer.context("read a circuit breaker: the call timed out")??;
        Ok(stored.as_ref().map(BreakerState::read).unwrap_or_default())
    }

    /// Writes the next state. Returns `false` if another process wrote after `seen` was read.
    /// Caches the newest state in both cases.
    async fn write(
        &self,
        destination: &str,
        seen: &BreakerState,
        next: &BreakerState,
    ) -> anyhow::Result<bool> {
        let (condition, seen_rev) = seen.condition();
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let by = format!("{}-{number}", self.process);
        let mut change = Change::new("write a circuit breaker", condition, BreakerState::UPDATE)
            .named("#ttl", "ttl")
            .named("#by", "by");
        change.values = next.values(&by);
        change.values.extend(seen_rev);
        let sk = sk(destination);
        let write = self.table.update(("SYS", &sk), change, Returns::Refused);
        let answer = tokio::time::timeout(PATIENCE, write).await;
        match answer.context("write a circuit breaker: the call timed out")?? {
            Write::Applied(_) => {
                self.known(destination, |known| known.standing = next.clone());
                Ok(true)
            }
            Write::Refused(stored) => {
                let stored = stored.unwrap_or_default();
                let standing = BreakerState::read(&stored);
                // If the SDK repeats a write whose response was lost, the stored item is from this
                // process.
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
        // Only configured destinations are cached, so the map stays small.
        with(known.entry(destination.to_owned()).or_default())
    }
}

/// Says how a destination that refuses every request answers.
pub fn refuses(status: u16) -> String {
    format!("refuses every request, last {status}")
}

fn trouble(destination: &str, error: &anyhow::Error) {
    tracing::warn!(
        destination,
        error = format!("{error:#}"),
        "could not read or write the circuit breaker of {destination}; this process uses the cached state"
    );
}

fn sk(destination: &str) -> String {
    format!("BRK#{destination}")
}
