//! The sweep: sends messages again for open events. All other paths can lose a message, so every
//! event depends on the sweep, and the sweep itself must not cause an outage.

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

/// Rows of one part of the index that one request reads.
const ROWS: i32 = 500;

/// Rows that are checked before the time and the capacity are checked again.
const BATCH: usize = 160;

/// How long a sweep waits for messages to be received before it assumes that the queue has no
/// consumer.
const PAUSE: Duration = Duration::from_secs(10);

/// How often the depths of the queues are read while the messages of this sweep fill them.
const ASK: Duration = Duration::from_millis(100);

/// How often the depths are read while the messages of others fill the queues.
const ASK_SLOWLY: Duration = Duration::from_secs(1);

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// Messages in the work queue before the sweep; not read if no row was due.
    pub depth: Option<u64>,
    /// Messages in the backlog queue before the sweep.
    pub backlog: Option<u64>,
    pub checked: u64,
    pub sent: u64,
    pub exhausted: u64,
    /// Left for the next sweep, because the queue is deep, or its messages are not received.
    pub throttled: u64,
    /// Not scheduled, because all of their destinations are down, or their source is paused.
    pub skipped_unreachable: u64,
    /// Rows that could not be handled; each is in the log.
    pub failed: u64,
    /// There are rows that this sweep did not check: a queue was full, the time was over, or
    /// another sweep holds the lease.
    pub more: bool,
}

impl SweepReport {
    /// The rows on which the sweep acted.
    fn progress(&self) -> u64 {
        self.sent + self.exhausted + self.skipped_unreachable
    }
}

/// Rows by their due time. A row that has long been due belongs to an old event, whose message goes
/// to the backlog queue. While that queue is full, old events must not delay recent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stretch {
    Recent,
    Old,
}

/// The state of a running sweep.
struct Work {
    owner: String,
    /// When the lease of this sweep ends.
    leased: Cell<UnixMillis>,
    until: Instant,
    time: RunTime,
    room: RefCell<SendCapacity>,
    /// When the depths of the queues were last read.
    asked: Cell<Instant>,
    /// Sources of which one event was sent ahead.
    ahead: RefCell<BTreeSet<String>>,
    report: RefCell<SweepReport>,
    more: Cell<bool>,
    /// Messages were sent to the backlog queue.
    to_feed: Cell<bool>,
    /// All rows were checked, or the time is over.
    ended: Cell<bool>,
    /// Signals that `to_feed` or `ended` changed.
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

    /// When to read the depths of the queues again: as soon as they show the first message sent, so
    /// that its reservation is released.
    fn next_depth_check(&self) -> Instant {
        let asked = self.asked.get();
        match self.room.borrow().shows_at() {
            Some(at) => at.max(asked + self.time.scaled(ASK)),
            None => asked + self.time.scaled(ASK_SLOWLY),
        }
    }
}

/// The result of a page of rows.
enum Page {
    /// More rows follow, from this key.
    Next(Item),
    Last,
    /// The queue is full, or the time is over: no more rows are read.
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
            tracing::info!("another sweep handles the rows that are due");
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
        if let Err(error) = self
            .services
            .inbox
            .ledger
            .sweep()
            .sweep_release(&work.owner)
            .await
        {
            tracing::warn!(
                error = format!("{error:#}"),
                "could not release the lease of the sweep; it expires"
            );
        }
        swept
    }

    /// Empties the backlog queue while the sweep fills it. The drain does the same, but a drain
    /// that found the queue empty has ended.
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
                    "could not empty the backlog queue; the drain does"
                );
                return;
            }
            if ended {
                return;
            }
        }
    }

    /// Whether a row is due. In an idle inbox, the sweep reads no queue depth and takes no lease.
    async fn is_anything_due(&self) -> anyhow::Result<bool> {
        let ledger = &self.services.inbox.ledger;
        for shard in 0..WORK_SHARDS {
            if !ledger
                .sweep()
                .due(shard, (self.clock)(), 1)
                .await?
                .is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Begins a sweep; `None` if another sweep holds the lease. Each sweep counts the capacity of
    /// the queues by itself, so two would fill them twice.
    async fn begin(&self, time: RunTime) -> anyhow::Result<Option<Work>> {
        let (owner, now) = (owner()?, (self.clock)());
        if !self
            .services
            .inbox
            .ledger
            .sweep()
            .sweep_lease(&owner, now)
            .await?
        {
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
        let queue = &self.services.inbox.queue;
        let depth = queue.depth(QueueName::Main).await?;
        Ok((depth, queue.depth(QueueName::Backlog).await?))
    }

    /// Runs pass after pass, while there is time, rows are left, and the passes make progress.
    async fn sweep_all(&self, fresh: &[(EventKey, UnixMillis)], work: &Work) -> anyhow::Result<()> {
        // The index may not show these rows yet.
        self.sweep_row_batches(fresh, Stretch::Recent, work).await?;
        loop {
            let before = work.report.borrow().progress();
            // Rows that one pass throttled are due again in the next.
            work.report.borrow_mut().throttled = 0;
            work.more.set(false);
            self.pass(work).await?;
            let throttled = work.report.borrow().throttled > 0;
            let no_progress = work.report.borrow().progress() == before;
            let pause = work.time.scaled(PAUSE);
            let over = Instant::now() + pause >= work.until;
            if !(throttled || work.more.get()) || no_progress || over {
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

    /// Checks all rows that are due, recent rows first. The parts of the index take turns, one page
    /// each, so that the rows due longest come first: no recent event becomes old because its part
    /// is the last.
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

    /// Checks one page of a part of the index. Rows that this code cannot process, because newer
    /// code wrote them or they are damaged, stay at the front of the part. The rows behind them are
    /// still checked.
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
        let ledger = &self.services.inbox.ledger;
        let (rows, next) = ledger.sweep().due_between(shard, due, ROWS, place).await?;
        Ok(match next {
            _ if !self.sweep_row_batches(&rows, stretch, work).await? => Page::Full,
            Some(place) => Page::Next(place),
            None => Page::Last,
        })
    }

    /// Checks rows, as many at once as the queue has capacity for. Returns `false` if there is no
    /// capacity or no time.
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
            let (batch, rest) = rows.split_at(most);
            self.sweep_rows(batch, work).await;
            rows = rest;
        }
        Ok(true)
    }

    /// Whether this sweep holds its lease and the queue has capacity. The depth of a full queue is
    /// read again for a while, until its messages are received.
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

    /// Whether this sweep holds its lease. The lease is renewed when a third of it is over.
    async fn still_holds_lease(&self, work: &Work) -> anyhow::Result<bool> {
        let now = (self.clock)();
        if work.leased.get() > now + SWEEP_LEASE * 2 / 3 {
            return Ok(true);
        }
        let leads = self
            .services
            .inbox
            .ledger
            .sweep()
            .sweep_lease(&work.owner, now)
            .await?;
        if leads {
            work.leased.set(now + SWEEP_LEASE);
        }
        Ok(leads)
    }

    /// Holds the bodies of dead letters, so that they do not expire. The next sweep retries a
    /// failure.
    pub(crate) async fn hold_dead_letters(&self) {
        let now = (self.clock)();
        match self.services.inbox.ledger.hold_dead_letters(now).await {
            Ok(None | Some(0)) => {}
            Ok(Some(held)) => tracing::info!(held, "held the bodies of {held} dead letters"),
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
