//! Sources whose events wait, because an operator said so.
//!
//! The catcher receives as ever. The processor begins no event of a paused source: it drops the
//! message before the claim, which costs no attempt, and the row stays as it is. The sweep looks at
//! such a row once an hour. When the source is resumed, its rows are called up for the next sweep.
//!
//! Nobody begins what may be paused. Where the table does not say, an answer of the last minute
//! holds; without one the message comes again. That stops nothing that could go on: the claim
//! behind it asks the same table.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::transition::WORK_SHARDS;
use crate::inbox::ledger::{FlagKind, Ledger};

/// How old may be what a process knows of a pause: so long after it begins events may still be
/// begun, and so long after it ends messages are still dropped.
pub const REREAD: Duration = Duration::from_secs(5);

/// How long an answer holds where no newer one is to be had.
const STALE: Duration = Duration::from_secs(60);

/// When the sweep looks again at an event that waits for its source to be resumed.
pub const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// Open events that are read at once to be called up, and that are called at once.
const PAGE: i32 = 500;
const AT_ONCE: usize = 8;

/// The pauses of all sources, as this process knows them.
#[derive(Debug)]
pub struct Pauses {
    ledger: Ledger,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    paused: bool,
    read_at: UnixMillis,
    /// Also in vain: a table that hangs must not cost each event its wait.
    asked_at: UnixMillis,
}

impl Pauses {
    pub fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            known: Mutex::default(),
        }
    }

    /// Whether a source is paused. Reads at most every five seconds. An error means that nobody
    /// can say: then no event of it may be begun.
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
                        "whether {source} is paused is not to be had; it is as it was"
                    );
                    self.remember(source, known.paused, known.read_at, now);
                    Ok(known.paused)
                }
                None => Err(error).with_context(|| format!("see whether {source} is paused")),
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
        // Sources are configured, never a sender's choice: they are few.
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(source.to_owned(), known);
    }
}

/// Has the next sweep look at the events of a source that was paused, which rings for as many at a
/// time as the queue takes. Those that wait for something else are left: a retry that is not due,
/// a worker. It may be done again. How many were called up.
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
    // What came a moment ago, and was rung for in vain.
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
        assert!(known(0, 58).holds(at(60)), "asked in vain a moment ago");
        assert!(!known(0, 58).holds(at(61)));
    }
}
