//! The sweep: liveness rests on it alone, so it must not become the next outage.

mod fresh;
mod spare;

use std::collections::BTreeSet;

use serde::Serialize;
use shared::backoff::Backoff;
use shared::clock::Millis;
use shared::event::EventKey;
use shared::ledger::transition::WORK_SHARDS;
use shared::ledger::{Room, Space, Swept};
use shared::pause::LOOK_AGAIN;
use shared::queue::{Doorbell, Lane};

use crate::BackupSync;

/// The sweep never raises a queue above this many doorbells. Ringing on into a backlog was
/// simulated: it multiplies messages and the queue never drains.
const DEPTH: u64 = 1_000;

/// Rows of one part of the index that are read at once.
const ROWS: i32 = 500;

/// And how often in one sweep, as long as some of them cannot be worked on.
const PAGES: usize = 10;

/// Events that came a moment ago and are open, which are looked at in the sweep that finds them. The
/// others stand in the index then, for the next one.
const FRESH: usize = 500;

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// Doorbells in the queue before.
    pub depth: u64,
    /// And in that of the backlog.
    pub backlog: u64,
    pub looked_at: u64,
    pub rung: u64,
    pub exhausted: u64,
    /// Left for the next sweep, because the queue is deep, or nobody answers what waits in it.
    pub held_back: u64,
    /// Left asleep, because all of their destinations are down, or their source is paused.
    pub spared: u64,
    /// Rows that could not be handled; each is in the log.
    pub failed: u64,
}

/// What the sweep knows of the two queues.
struct Queues {
    live: Filled,
    backlog: Filled,
}

/// How far a queue is filled.
struct Filled {
    /// Doorbells that may be added.
    left: u64,
    /// Doorbells that waited before and belong to none of the rows that were looked at.
    unclaimed: u64,
}

impl Filled {
    fn new(depth: u64, unclaimed: u64) -> Self {
        Self {
            left: DEPTH.saturating_sub(depth),
            unclaimed,
        }
    }

    fn space(&self) -> Space {
        match self {
            Self { left: 0, .. } => Space::Full,
            Self { unclaimed: 0, .. } => Space::Free,
            _ => Space::Covered,
        }
    }
}

impl Queues {
    fn new(report: &SweepReport) -> Self {
        Self {
            live: Filled::new(report.depth, report.depth),
            // What is old now was young when somebody rang for it.
            backlog: Filled::new(report.backlog, report.depth + report.backlog),
        }
    }

    fn room(&self) -> Room {
        Room {
            live: self.live.space(),
            backlog: self.backlog.space(),
        }
    }

    fn of(&mut self, lane: Lane) -> &mut Filled {
        match lane {
            Lane::Live => &mut self.live,
            Lane::Backlog => &mut self.backlog,
        }
    }

    /// A row of this queue was looked at, and may have a doorbell in it.
    fn seen(&mut self, lane: Lane) {
        let queue = self.of(lane);
        queue.unclaimed = queue.unclaimed.saturating_sub(1);
    }

    fn rung(&mut self, lane: Lane) {
        self.seen(lane);
        let queue = self.of(lane);
        queue.left = queue.left.saturating_sub(1);
    }
}

impl BackupSync {
    pub(crate) async fn sweep(&self) -> anyhow::Result<SweepReport> {
        let now = (self.clock)();
        let mut report = SweepReport {
            depth: self.parts.inbox.queue.depth(Lane::Live).await?,
            backlog: self.parts.inbox.queue.depth(Lane::Backlog).await?,
            ..SweepReport::default()
        };
        let mut queues = Queues::new(&report);
        let mut ahead = BTreeSet::new();
        let (fresh, failed) = self.go_over_what_came(now).await;
        report.failed += failed;
        for key in fresh.iter().take(FRESH) {
            self.attend(key, now, now, &mut queues, &mut ahead, &mut report)
                .await;
        }
        for shard in 0..WORK_SHARDS {
            self.sweep_shard(shard, now, &mut queues, &mut ahead, &mut report)
                .await?;
        }
        tracing::info!(
            depth = report.depth,
            backlog = report.backlog,
            looked_at = report.looked_at,
            rung = report.rung,
            exhausted = report.exhausted,
            held_back = report.held_back,
            spared = report.spared,
            failed = report.failed,
            "swept: {} rung of {} looked at",
            report.rung,
            report.looked_at,
        );
        Ok(report)
    }

    /// What became a dead letter keeps its body. It is the next sweep's to do what fails here.
    pub(crate) async fn hold_dead_letters(&self) {
        let now = (self.clock)();
        match self.parts.inbox.ledger.hold_dead_letters(now).await {
            Ok(None | Some(0)) => {}
            Ok(Some(held)) => tracing::info!(held, "hold the bodies of {held} dead letters"),
            Err(error) => {
                tracing::error!(
                    error = format!("{error:#}"),
                    "could not hold the bodies of dead letters"
                );
            }
        }
    }

    /// One part of the index. Rows that nobody here can work on, because newer code wrote them or
    /// they are damaged, keep their place at its front: what stands behind them gets its turn.
    async fn sweep_shard(
        &self,
        shard: u8,
        now: Millis,
        queues: &mut Queues,
        ahead: &mut BTreeSet<String>,
        report: &mut SweepReport,
    ) -> anyhow::Result<()> {
        let ledger = &self.parts.inbox.ledger;
        let mut place = None;
        for _ in 0..PAGES {
            let (page, next) = ledger.to_look_at_after(shard, now, ROWS, place).await?;
            let mut stayed = 0;
            for (key, seen) in page {
                if !self.attend(&key, seen, now, queues, ahead, report).await {
                    stayed += 1;
                }
            }
            place = next;
            if stayed == 0 || place.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Whether anything came of it.
    async fn attend(
        &self,
        key: &EventKey,
        seen: Millis,
        now: Millis,
        queues: &mut Queues,
        ahead: &mut BTreeSet<String>,
        report: &mut SweepReport,
    ) -> bool {
        report.looked_at += 1;
        if self.spare(key, seen, now, ahead).await {
            report.spared += 1;
            return true;
        }
        self.look(key, seen, now, queues, report).await
    }

    /// Whether an event is left asleep, because it could go nowhere.
    async fn spare(
        &self,
        key: &EventKey,
        seen: Millis,
        now: Millis,
        ahead: &mut BTreeSet<String>,
    ) -> bool {
        let Some(source) = self.parts.config.source(key.source()) else {
            return false;
        };
        let next = match self.pauses.is_paused(&source.name, (self.clock)()).await {
            Ok(true) => Some(now + LOOK_AGAIN),
            Ok(false) => self.spared(source, now, ahead).await,
            Err(error) => {
                // Whoever hears the doorbell asks as well.
                tracing::warn!(
                    source = source.name,
                    error = format!("{error:#}"),
                    "nobody can say whether {} is paused",
                    source.name
                );
                None
            }
        };
        let Some(next) = next else {
            return false;
        };
        match self
            .parts
            .inbox
            .ledger
            .look_later(key, seen, next, now)
            .await
        {
            Ok(later) => later,
            Err(error) => {
                tracing::warn!(event.key = %key, error = format!("{error:#}"), "could not leave {key} asleep");
                false
            }
        }
    }

    /// Whether anything came of it.
    async fn look(
        &self,
        key: &EventKey,
        seen: Millis,
        now: Millis,
        queues: &mut Queues,
        report: &mut SweepReport,
    ) -> bool {
        let attempts = match self.parts.config.source(key.source()) {
            Some(source) => source.backoff.attempts,
            None => Backoff::default().attempts,
        };
        let ledger = &self.parts.inbox.ledger;
        // One row's trouble must not keep the others asleep.
        match ledger.look(key, seen, attempts, queues.room(), now).await {
            Ok(Swept::Ring(doorbell, delay, lane)) => {
                if self.ring(lane, &doorbell, delay).await {
                    report.rung += 1;
                } else {
                    report.failed += 1;
                }
                if delay.is_zero() {
                    queues.rung(lane);
                }
                true
            }
            Ok(Swept::Exhausted) => {
                tracing::error!(event.key = %key, outcome = "dead_letter", "event {key} is a dead letter: its attempts are used up");
                report.exhausted += 1;
                true
            }
            // It keeps its place at the front, and others behind it may have room.
            Ok(Swept::HeldBack(lane)) => {
                queues.seen(lane);
                report.held_back += 1;
                false
            }
            Ok(Swept::Left) => false,
            Err(error) => {
                tracing::error!(event.key = %key, error = format!("{error:#}"), "could not look at event {key}");
                report.failed += 1;
                false
            }
        }
    }

    /// The next look is noted already: a ring that fails is made up for then.
    async fn ring(&self, lane: Lane, doorbell: &Doorbell, delay: std::time::Duration) -> bool {
        let rung = self.parts.inbox.queue.ring_in(lane, doorbell, delay).await;
        if let Err(error) = &rung {
            tracing::warn!(event.key = %doorbell.key, error = format!("{error:#}"), "could not ring for {}", doorbell.key);
        }
        rung.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaces(queues: &Queues) -> (Space, Space) {
        let room = queues.room();
        (room.live, room.backlog)
    }

    #[test]
    fn a_queue_is_free_for_rows_that_have_no_doorbell_in_it() {
        let report = SweepReport {
            depth: 2,
            backlog: 1,
            ..SweepReport::default()
        };
        let mut queues = Queues::new(&report);
        assert_eq!(spaces(&queues), (Space::Covered, Space::Covered));
        queues.seen(Lane::Live);
        queues.rung(Lane::Live);
        assert_eq!(spaces(&queues), (Space::Free, Space::Covered));
        // An old row's doorbell may wait in either queue.
        for _ in 0..3 {
            queues.seen(Lane::Backlog);
        }
        assert_eq!(spaces(&queues), (Space::Free, Space::Free));
    }

    #[test]
    fn a_queue_is_filled_up_to_its_depth() {
        let report = SweepReport {
            depth: DEPTH - 1,
            ..SweepReport::default()
        };
        let mut queues = Queues::new(&report);
        queues.rung(Lane::Live);
        assert_eq!(queues.room().live, Space::Full);
        let empty = Queues::new(&SweepReport::default());
        assert_eq!(spaces(&empty), (Space::Free, Space::Free));
    }
}
