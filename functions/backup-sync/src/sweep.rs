//! The sweep: liveness rests on it alone, so it must not become the next outage.

mod capacity;
mod recent;
mod rows;
mod unreachable;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures::future::join;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::base::timing::{OLD, SWEEP, SWEEP_LEASE};
use shared::inbox::ledger::Item;
use shared::inbox::ledger::transition::WORK_SHARDS;
use shared::inbox::queue::QueueName;
use shared::webhook::event::EventKey;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::deadline::from_anywhere;
use crate::drain::FIRST_BATCH;
use crate::{BackupSync, RunTime};
use capacity::SendCapacity;

/// Rows of one part of the index that are read at once.
const ROWS: i32 = 500;

/// Rows that are looked at before time and room are asked about again.
const BATCH: usize = 160;

/// How long a sweep waits for messages to be received before it takes the queue for one without a consumer.
const PAUSE: Duration = Duration::from_secs(10);

/// How often the queues are asked for their depth, while what this sweep sent fills them.
const ASK: Duration = Duration::from_millis(100);

/// And while what others sent does.
const ASK_SLOWLY: Duration = Duration::from_secs(1);

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// Messages in the queue before the sweep; not read where no row was due.
    pub depth: Option<u64>,
    /// And in that of the backlog.
    pub backlog: Option<u64>,
    pub checked: u64,
    pub sent: u64,
    pub exhausted: u64,
    /// Left for the next sweep, because the queue is deep, or nobody answers what waits in it.
    pub throttled: u64,
    /// Left asleep, because all of their destinations are down, or their source is paused.
    pub skipped_unreachable: u64,
    /// Rows that could not be handled; each is in the log.
    pub failed: u64,
    /// There are rows that this sweep did not look at: a queue was full, its time was over, or
    /// another sweep is at them.
    pub more: bool,
}

impl SweepReport {
    /// What came of the rows that were looked at.
    fn progress(&self) -> u64 {
        self.sent + self.exhausted + self.skipped_unreachable
    }
}

/// Rows by the time at which they are due. What is due since long came long ago, too, and belongs in
/// the backlog: while that is full, it must not keep the events of now waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stretch {
    Recent,
    Old,
}

/// A sweep at work.
struct Work {
    owner: String,
    /// When the lease of this sweep is over.
    leased: Cell<UnixMillis>,
    until: Instant,
    time: RunTime,
    room: RefCell<SendCapacity>,
    /// When the queues were asked for their depth.
    asked: Cell<Instant>,
    /// Sources of which one event was sent ahead.
    ahead: RefCell<BTreeSet<String>>,
    report: RefCell<SweepReport>,
    more: Cell<bool>,
    /// Messages were sent to the backlog.
    to_feed: Cell<bool>,
    /// All rows were looked at, or there is no more time for it.
    ended: Cell<bool>,
    /// One of these two changed.
    stirred: Notify,
}

impl Work {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn room_for(&self, stretch: Stretch) -> usize {
        let room = self.room.borrow();
        let left = match stretch {
            Stretch::Recent => room.for_recent(),
            Stretch::Old => room.for_old(),
        };
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// When to ask the queues for their depth again: when it shows what was sent first, and gives its
    /// place back.
    fn next_depth_check(&self) -> Instant {
        let asked = self.asked.get();
        match self.room.borrow().shows_at() {
            Some(at) => at.max(asked + self.time.scaled(ASK)),
            None => asked + self.time.scaled(ASK_SLOWLY),
        }
    }
}

/// What came of a page of rows.
enum Page {
    /// There are more, from here.
    Next(Item),
    Last,
    /// The queue is full, or the time is over: nothing more is read.
    Full,
}

impl BackupSync {
    pub(crate) async fn sweep(&self, time: RunTime) -> anyhow::Result<SweepReport> {
        let now = (self.clock)();
        let (fresh, failed) = self.sweep_recent(now, time).await;
        let fresh: Vec<_> = fresh.into_iter().map(|key| (key, now)).collect();
        let mut report = self.sweep_due(&fresh, time).await?;
        report.failed += failed;
        tracing::info!(
            depth = report.depth,
            backlog = report.backlog,
            checked = report.checked,
            sent = report.sent,
            exhausted = report.exhausted,
            throttled = report.throttled,
            skipped_unreachable = report.skipped_unreachable,
            failed = report.failed,
            more = report.more,
            "swept: sent {} messages for {} rows",
            report.sent,
            report.checked,
        );
        Ok(report)
    }

    async fn sweep_due(
        &self,
        fresh: &[(EventKey, UnixMillis)],
        time: RunTime,
    ) -> anyhow::Result<SweepReport> {
        if fresh.is_empty() && !self.is_anything_due().await? {
            return Ok(SweepReport::default());
        }
        let Some(work) = self.begin(time).await? else {
            tracing::info!("another sweep is at what is due");
            return Ok(SweepReport {
                more: true,
                ..SweepReport::default()
            });
        };
        let (swept, ()) = join(self.sweep_and_end(fresh, &work), self.promote_beside(&work)).await;
        swept?;
        let more = work.more.get();
        let report = work.report.into_inner();
        Ok(SweepReport { more, ..report })
    }

    async fn sweep_and_end(
        &self,
        fresh: &[(EventKey, UnixMillis)],
        work: &Work,
    ) -> anyhow::Result<()> {
        let swept = self.sweep_all(fresh, work).await;
        work.ended.set(true);
        work.stirred.notify_one();
        if let Err(error) = self.parts.inbox.ledger.sweep_release(&work.owner).await {
            tracing::warn!(
                error = format!("{error:#}"),
                "the lease of the sweep has to run out"
            );
        }
        swept
    }

    /// Empties the backlog while the sweep fills it. The drain does the same, but one that found the
    /// backlog empty has ended.
    async fn promote_beside(&self, work: &Work) {
        let mut batch = FIRST_BATCH;
        loop {
            work.stirred.notified().await;
            let ended = work.ended.get();
            if work.to_feed.take()
                && let Err(error) = self.promote_backlog(&mut batch, work.until).await
            {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "could not empty the backlog; the drain does"
                );
                return;
            }
            if ended {
                return;
            }
        }
    }

    /// Whether there is a row to look at: in an idle inbox neither the queues are asked, nor is a
    /// lease taken.
    async fn is_anything_due(&self) -> anyhow::Result<bool> {
        let ledger = &self.parts.inbox.ledger;
        for shard in 0..WORK_SHARDS {
            if !ledger.due(shard, (self.clock)(), 1).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `None`: another sweep is at it. Each counts the room in a queue by itself, and two would fill
    /// it twice.
    async fn begin(&self, time: RunTime) -> anyhow::Result<Option<Work>> {
        let (owner, now) = (owner()?, (self.clock)());
        if !self.parts.inbox.ledger.sweep_lease(&owner, now).await? {
            return Ok(None);
        }
        let (depth, backlog) = self.depths().await?;
        Ok(Some(Work {
            owner,
            leased: Cell::new(now + SWEEP_LEASE),
            until: time.until(SWEEP),
            time,
            room: RefCell::new(SendCapacity::new(depth, backlog)),
            asked: Cell::new(Instant::now()),
            ahead: RefCell::default(),
            report: RefCell::new(SweepReport {
                depth: Some(depth),
                backlog: Some(backlog),
                ..SweepReport::default()
            }),
            more: Cell::new(false),
            to_feed: Cell::new(false),
            ended: Cell::new(false),
            stirred: Notify::new(),
        }))
    }

    async fn depths(&self) -> anyhow::Result<(u64, u64)> {
        let queue = &self.parts.inbox.queue;
        let depth = queue.depth(QueueName::Main).await?;
        Ok((depth, queue.depth(QueueName::Backlog).await?))
    }

    /// Pass after pass, as long as there is time, something is left, and something comes of it.
    async fn sweep_all(&self, fresh: &[(EventKey, UnixMillis)], work: &Work) -> anyhow::Result<()> {
        // The index may not show them yet.
        self.sweep_row_batches(fresh, Stretch::Recent, work).await?;
        loop {
            let before = work.report.borrow().progress();
            // What one pass held back is due in the next one again.
            work.report.borrow_mut().throttled = 0;
            work.more.set(false);
            self.pass(work).await?;
            let throttled = work.report.borrow().throttled > 0;
            let stands_still = work.report.borrow().progress() == before;
            let pause = work.time.scaled(PAUSE);
            let over = Instant::now() + pause >= work.until;
            if !(throttled || work.more.get()) || stands_still || over {
                work.more.set(throttled || work.more.get());
                return Ok(());
            }
            sleep(pause).await;
            work.ahead.borrow_mut().clear();
            let (live, backlog) = self.depths().await?;
            work.asked.set(Instant::now());
            work.room.borrow_mut().begin(live, backlog, Instant::now());
        }
    }

    /// Everything that is due: what may belong among the events of now comes first. A page of each part
    /// of the index in turn, so that what is due longest comes first: no event that is still young
    /// grows old because its part is the last.
    async fn pass(&self, work: &Work) -> anyhow::Result<()> {
        let now = (self.clock)();
        let shards = from_anywhere((0..WORK_SHARDS).collect())?;
        for stretch in [Stretch::Recent, Stretch::Old] {
            let mut parts: VecDeque<_> = shards.iter().map(|shard| (*shard, None)).collect();
            while let Some((shard, place)) = parts.pop_front() {
                match self.sweep_page(shard, place, stretch, now, work).await? {
                    Page::Last => {}
                    Page::Next(place) => parts.push_back((shard, Some(place))),
                    Page::Full => {
                        work.more.set(true);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// One page of a part of the index. Rows that this code cannot work on, because newer code wrote them
    /// or they are damaged, keep their place at its front: what stands behind them gets its turn.
    async fn sweep_page(
        &self,
        shard: u8,
        place: Option<Item>,
        stretch: Stretch,
        now: UnixMillis,
        work: &Work,
    ) -> anyhow::Result<Page> {
        if work.is_over() {
            return Ok(Page::Full);
        }
        // No row is due before it was received.
        let old = now - OLD;
        let due = match stretch {
            Stretch::Recent => (old, now),
            Stretch::Old => (UnixMillis(0), UnixMillis(old.0 - 1)),
        };
        let ledger = &self.parts.inbox.ledger;
        let (rows, next) = ledger.due_between(shard, due, ROWS, place).await?;
        Ok(match next {
            _ if !self.sweep_row_batches(&rows, stretch, work).await? => Page::Full,
            Some(place) => Page::Next(place),
            None => Page::Last,
        })
    }

    /// Looks at rows, as many at once as there is room for; `false` when there is none, or no time.
    async fn sweep_row_batches(
        &self,
        mut rows: &[(EventKey, UnixMillis)],
        stretch: Stretch,
        work: &Work,
    ) -> anyhow::Result<bool> {
        while !rows.is_empty() {
            if !self.has_room(stretch, work).await? {
                return Ok(false);
            }
            let most = work.room_for(stretch).min(BATCH).min(rows.len());
            let (lot, rest) = rows.split_at(most);
            self.sweep_rows(lot, work).await;
            rows = rest;
        }
        Ok(true)
    }

    /// Whether this sweep may ring, and a queue takes it: one that is full is asked again until it was
    /// heard, for a while.
    async fn has_room(&self, stretch: Stretch, work: &Work) -> anyhow::Result<bool> {
        let patience = Instant::now() + work.time.scaled(PAUSE);
        loop {
            if work.is_over() || !self.still_holds_lease(work).await? {
                return Ok(false);
            }
            if work.room_for(stretch) > 0 {
                return Ok(true);
            }
            let next = work.next_depth_check();
            if next.max(Instant::now()) >= patience.min(work.until) {
                return Ok(false);
            }
            sleep_until(next).await;
            let (live, backlog) = self.depths().await?;
            work.asked.set(Instant::now());
            work.room.borrow_mut().renew(live, backlog, Instant::now());
        }
    }

    /// Whether the lease of this sweep holds. It is renewed when a third of it is over.
    async fn still_holds_lease(&self, work: &Work) -> anyhow::Result<bool> {
        let now = (self.clock)();
        if work.leased.get() > now + SWEEP_LEASE * 2 / 3 {
            return Ok(true);
        }
        let leads = self
            .parts
            .inbox
            .ledger
            .sweep_lease(&work.owner, now)
            .await?;
        if leads {
            work.leased.set(now + SWEEP_LEASE);
        }
        Ok(leads)
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
}

fn owner() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    shared::base::random::fill(&mut bytes)?;
    Ok(format!("backup-sync/{}", hex::encode(bytes)))
}
