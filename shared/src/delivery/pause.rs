//! Sources that an operator paused. Their events wait until an operator resumes the source.
//!
//! The catcher receives the webhooks of a paused source as usual. The processor starts no event of
//! the source. It drops the message before the claim, so the event uses no attempt, and its row
//! does not change. The sweep checks the row once an hour. When an operator resumes the source, its
//! rows are scheduled for the next sweep.
//!
//! If the pause flag cannot be read, the processor uses a cached value that is up to one minute
//! old. Without a cached value, the processor retries the message. The retry delays no other work,
//! because a claim needs the same table and would also fail.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::transition::WORK_SHARDS;
use crate::inbox::ledger::{FlagKind, Ledger};

/// How long a process uses a cached pause flag. For this time after a pause begins, the process can
/// still start events. For this time after a pause ends, the process still drops messages.
pub const REREAD: Duration = Duration::from_secs(5);

/// The maximum age of a cached value that a process uses when it cannot read the table.
const STALE: Duration = Duration::from_secs(60);

/// The time after which the sweep checks an event of a paused source again.
pub const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// The number of open events in one read when a source is resumed.
const PAGE: i32 = 500;

/// The number of these events that are scheduled in parallel.
const AT_ONCE: usize = 8;

/// The pauses of all sources, cached by this process.
#[derive(Debug)]
pub struct Pauses {
    ledger: Ledger,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    paused: bool,
    read_at: UnixMillis,
    /// The time of the last read. Failed reads count too, so that a slow table does not delay every
    /// event.
    asked_at: UnixMillis,
}

impl Pauses {
    pub fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            known: Mutex::default(),
        }
    }

    /// Returns whether a source is paused. Reads the flag at most once in five seconds. After an
    /// error, the caller must not start an event of the source, because the source may be paused.
    pub async fn is_paused(&self, source: &str, now: UnixMillis) -> anyhow::Result<bool> {
        let known = self.known(source);
        if let Some(known) = known.filter(|known| known.holds(now)) {
            return Ok(known.paused);
        }
        match self.ledger.operations().flag(FlagKind::Pause(source)).await {
            Ok(notice) => {
                let paused = notice.is_some();
                self.remember(source, paused, now, now);
                Ok(paused)
            }
            Err(error) => match known.filter(|known| now.since(known.read_at) <= STALE) {
                Some(known) => {
                    tracing::warn!(
                        source,
                        error = format!("{error:#}"),
                        "could not read whether {source} is paused; this process uses the cached value"
                    );
                    self.remember(source, known.paused, known.read_at, now);
                    Ok(known.paused)
                }
                None => Err(error).with_context(|| format!("read whether {source} is paused")),
            },
        }
    }

    fn known(&self, source: &str) -> Option<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(source).copied()
    }

    fn remember(&self, source: &str, paused: bool, read_at: UnixMillis, asked_at: UnixMillis) {
        let known = Known {
            paused,
            read_at,
            asked_at,
        };
        // Only configured sources are cached, so the map stays small.
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(source.to_owned(), known);
    }
}

/// Schedules the events of a resumed source for the next sweep. The sweep sends only as many
/// messages as the work queue has capacity for. An event does not change if its retry is not due,
/// or if a worker holds it. This function can be called again after an error. Returns the number of
/// scheduled events.
pub async fn call_up(ledger: &Ledger, source: &str, now: UnixMillis) -> anyhow::Result<u64> {
    let asleep = now + LOOK_AGAIN + REREAD;
    let mut called = 0;
    for shard in 0..WORK_SHARDS {
        let mut place = None;
        loop {
            let (page, next) = ledger.sweep().due_after(shard, asleep, PAGE, place).await?;
            let waits = page
                .iter()
                .filter(|(key, seen)| key.source() == source && *seen > now);
            let waits: Vec<_> = waits.collect();
            for some in waits.chunks(AT_ONCE) {
                let calls = some
                    .iter()
                    .map(|(key, seen)| ledger.operations().look_now(key, *seen, now));
                let answers = try_join_all(calls).await?;
                called += answers.into_iter().map(u64::from).sum::<u64>();
            }
            place = next;
            if place.is_none() {
                break;
            }
        }
    }
    // New events whose messages were dropped are not in the `work` index yet.
    let fresh = ledger
        .sweep()
        .recent_events(&[source], now, usize::MAX)
        .await?;
    for some in fresh.open.chunks(AT_ONCE) {
        let calls = some.iter().map(|key| ledger.sweep().index_event(key, now));
        let answers = try_join_all(calls).await?;
        called += answers.into_iter().map(u64::from).sum::<u64>();
    }
    Ok(called)
}

impl Known {
    fn holds(&self, now: UnixMillis) -> bool {
        now.since(self.asked_at) <= REREAD && now.since(self.read_at) <= STALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_five_seconds_and_an_old_one_for_no_more_than_a_minute() {
        let at = |secs| UnixMillis(1_900_000_000_000) + Duration::from_secs(secs);
        let known = |read, asked| Known {
            paused: true,
            read_at: at(read),
            asked_at: at(asked),
        };
        assert!(known(0, 0).holds(at(5)));
        assert!(!known(0, 0).holds(at(6)));
        assert!(known(0, 58).holds(at(60)), "a recent read failed");
        assert!(!known(0, 58).holds(at(61)));
    }
}
