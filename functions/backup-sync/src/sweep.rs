//! The sweep: sends messages again for open events. All other paths can lose a message, so every
//! event depends on the sweep, and the sweep itself must not cause an outage.

mod capacity;
mod passes;
mod recent;
mod rows;
mod unreachable;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::base::timing::{SWEEP, SWEEP_LEASE};
use shared::inbox::ledger::transition::WORK_SHARDS;
use shared::inbox::queue::QueueName;
use shared::webhook::event::EventKey;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::drain::FIRST_BATCH;
use crate::{BackupSync, RunTime};
use capacity::SendCapacity;
use passes::Stretch;

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
