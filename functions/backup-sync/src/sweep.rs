//! The sweep: liveness rests on it alone, so it must not become the next outage.

mod fresh;
mod spare;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use shared::backoff::Backoff;
use shared::clock::Millis;
use shared::event::EventKey;
use shared::ledger::transition::WORK_SHARDS;
use shared::ledger::{Room, Space, Swept};
use shared::pause::LOOK_AGAIN;
use shared::queue::{Doorbell, Lane};
use shared::timing::{DOSE, SWEEP};
use tokio::time::{Instant, sleep};

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

/// How long a sweep waits for the queues to be heard before it goes on.
const PAUSE: Duration = Duration::from_secs(10);

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// Doorbells in the queue before. Nobody asked where there was nothing to look at.
    pub depth: Option<u64>,
    /// And in that of the backlog.
    pub backlog: Option<u64>,
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

impl SweepReport {
    /// Adds what a later pass did. What one before held back is due in it again.
    fn go_on(&mut self, later: &Self) {
        self.looked_at += later.looked_at;
        self.rung += later.rung;
        self.exhausted += later.exhausted;
        self.held_back = later.held_back;
        self.spared += later.spared;
        self.failed += later.failed;
    }
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
    fn new(depth: u64, backlog: u64) -> Self {
        Self {
            live: Filled::new(depth, depth),
            // What is old now was young when somebody rang for it.
            backlog: Filled::new(backlog, depth.saturating_add(backlog)),
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

    /// Where a doorbell goes that belongs there. What is old goes among those of now while there is
    /// room for a dose of it: it need not wait for the drain, which would put it there.
    fn lane(&self, lane: Lane) -> Lane {
        match lane {
            Lane::Backlog if self.live.left + DOSE > DEPTH => Lane::Live,
            lane => lane,
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
        let until = Instant::now() + SWEEP;
        let now = (self.clock)();
        let mut report = SweepReport::default();
        let (fresh, failed) = self.go_over_what_came(now).await;
        report.failed += failed;
        self.sweep_once(&fresh, now, &mut report).await?;
        // More is due than the queues take: it goes on as they are heard, and ends when they are not.
        let mut last = report.clone();
        while last.held_back > 0 && last.rung > 0 && Instant::now() + PAUSE < until {
            sleep(PAUSE).await;
            last = SweepReport::default();
            self.sweep_once(&[], (self.clock)(), &mut last).await?;
            report.go_on(&last);
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

    async fn sweep_once(
        &self,
        fresh: &[EventKey],
        now: Millis,
        report: &mut SweepReport,
    ) -> anyhow::Result<()> {
        let mut queues = None;
        let mut ahead = BTreeSet::new();
        if !fresh.is_empty() {
            let queues = self.queues(&mut queues, report).await?;
            for key in fresh.iter().take(FRESH) {
                self.attend(key, now, now, queues, &mut ahead, report).await;
            }
        }
        for shard in 0..WORK_SHARDS {
            self.sweep_shard(shard, now, &mut queues, &mut ahead, report)
                .await?;
        }
        Ok(())
    }

    /// The queues, asked once in a pass, and only where there is a row to look at.
    async fn queues<'q>(
        &self,
        queues: &'q mut Option<Queues>,
        report: &mut SweepReport,
    ) -> anyhow::Result<&'q mut Queues> {
        if queues.is_none() {
            let queue = &self.parts.inbox.queue;
            let depth = queue.depth(Lane::Live).await?;
            let backlog = queue.depth(Lane::Backlog).await?;
            (report.depth, report.backlog) = (Some(depth), Some(backlog));
            *queues = Some(Queues::new(depth, backlog));
        }
        queues.as_mut().context("the queues were asked")
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
        queues: &mut Option<Queues>,
        ahead: &mut BTreeSet<String>,
        report: &mut SweepReport,
    ) -> anyhow::Result<()> {
        let ledger = &self.parts.inbox.ledger;
        let mut place = None;
        for _ in 0..PAGES {
            let (page, next) = ledger.to_look_at_after(shard, now, ROWS, place).await?;
            if page.is_empty() {
                break;
            }
            let queues = self.queues(queues, report).await?;
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
                let there = queues.lane(lane);
                if self.ring(there, &doorbell, delay).await {
                    report.rung += 1;
                } else {
                    report.failed += 1;
                }
                // A late arrival takes no room now, but what is old is never let in without bound.
                if there != lane {
                    queues.seen(lane);
                    queues.rung(there);
                } else if delay.is_zero() {
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
    async fn ring(&self, lane: Lane, doorbell: &Doorbell, delay: Duration) -> bool {
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
        let mut queues = Queues::new(2, 1);
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
    fn what_is_old_goes_among_those_of_now_while_these_are_few() {
        let mut queues = Queues::new(DOSE - 2, 0);
        assert_eq!(queues.lane(Lane::Live), Lane::Live);
        for _ in 0..2 {
            assert_eq!(queues.lane(Lane::Backlog), Lane::Live);
            queues.rung(Lane::Live);
        }
        assert_eq!(queues.lane(Lane::Backlog), Lane::Backlog);
        assert_eq!(queues.lane(Lane::Live), Lane::Live);
        assert_eq!(Queues::new(2 * DEPTH, 0).lane(Lane::Backlog), Lane::Backlog);
    }

    #[test]
    fn a_queue_is_filled_up_to_its_depth() {
        let mut queues = Queues::new(DEPTH - 1, 0);
        queues.rung(Lane::Live);
        assert_eq!(queues.room().live, Space::Full);
        let empty = Queues::new(0, 0);
        assert_eq!(spaces(&empty), (Space::Free, Space::Free));
    }
}
