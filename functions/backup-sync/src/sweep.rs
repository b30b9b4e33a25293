//! The sweep sends messages again for open events. Every other part can lose a message, so the
//! sweep must find each open event. The sweep itself must not cause an outage.

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

/// The interval between reads of the queue depths while the queues are full of this sweep's
/// messages.
const ASK: Duration = Duration::from_millis(100);

/// The interval between reads of the queue depths while the queues are full of other messages.
const ASK_SLOWLY: Duration = Duration::from_secs(1);

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// Messages in the work queue before the sweep. `None` if no row was due.
    pub depth: Option<u64>,
    /// Messages in the backlog queue before the sweep.
    pub backlog: Option<u64>,
    pub checked: u64,
    pub sent: u64,
    pub exhausted: u64,
    /// Rows that are left for the next sweep, because the queue is full or nothing receives its
    /// messages.
    pub throttled: u64,
    /// Rows that are not scheduled, because all destinations of the event are failing or its source
    /// is paused.
    pub skipped_unreachable: u64,
    /// Rows that could not be handled. The log has a line for each of them.
    pub failed: u64,
    /// Whether this sweep left rows unchecked: a queue was full, no time was left, or another sweep
    /// holds the lease.
    pub more: bool,
}

impl SweepReport {
    /// Returns the number of rows on which the sweep acted.
    fn progress(&self) -> u64 {
        self.sent + self.exhausted + self.skipped_unreachable
    }
}

/// The state of a running sweep.
struct Work {
    owner: String,
    /// The end of this sweep's lease.
    leased: Cell<UnixMillis>,
    until: Instant,
    time: RunTime,
    room: RefCell<SendCapacity>,
    /// The time at which the depths of the queues were last read.
    asked: Cell<Instant>,
    /// Sources of which this sweep has sent one event to probe the destinations.
    ahead: RefCell<BTreeSet<String>>,
    report: RefCell<SweepReport>,
    more: Cell<bool>,
    /// Whether messages were sent to the backlog queue.
    to_feed: Cell<bool>,
    /// Whether all rows were checked or no time is left.
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

    /// Returns when to read the depths of the queues again: as soon as they include the first
    /// message that was sent, because its reservation is then released.
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
            "the sweep sent {} messages for {} rows",
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
            tracing::info!("another sweep processes the rows that are due");
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
                "could not release the lease of the sweep; the lease expires"
            );
        }
        swept
    }

    /// Empties the backlog queue while the sweep fills it. The drain does the same, but the drain
    /// ends when it finds the queue empty.
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
                    "could not empty the backlog queue; the next drain empties it"
                );
                return;
            }
            if ended {
                return;
            }
        }
    }

    /// Returns whether a row is due. If none is due, the sweep reads no queue depth and takes no
    /// lease.
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

    /// Starts a sweep, or returns `None` if another sweep holds the lease. Each sweep tracks the
    /// capacity of the queues by itself, so two sweeps in parallel would send twice as many
    /// messages.
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

    /// Prevents the expiry of the bodies of dead letters. After an error, the next sweep tries
    /// again.
    pub(crate) async fn hold_dead_letters(&self) {
        let now = (self.clock)();
        match self.services.inbox.ledger.hold_dead_letters(now).await {
            Ok(None) => {}
            Ok(Some(held)) => {
                if held > 0 {
                    tracing::info!(held, "held the bodies of {held} dead letters");
                }
                self.hold_pulled(now).await;
            }
            Err(error) => {
                tracing::error!(
                    error = format!("{error:#}"),
                    "could not hold the bodies of dead letters"
                );
            }
        }
    }

    /// Prevents the expiry of the bodies of events that wait for a worker, at most once an hour.
    async fn hold_pulled(&self, now: UnixMillis) {
        let config = self.services.sources.config();
        for source in config.pulled() {
            let name = &source.name;
            let held = self.services.inbox.ledger.hold_pulled(name, now);
            if let Err(error) = Box::pin(held).await {
                tracing::error!(
                    source = name,
                    error = format!("{error:#}"),
                    "could not hold the bodies of events that wait for a worker"
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
