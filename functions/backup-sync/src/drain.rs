//! The drain: stores the events that were spilled while DynamoDB was unavailable, and moves
//! messages from the backlog queue to the work queue, one batch at a time.
//!
//! The drain has its own schedule, so that it cannot delay or fail a sweep. A message is deleted
//! only after its events are rows. A message that cannot be stored or read stays in the queue,
//! whose alarm notifies an operator.

mod backlog;

use std::cell::RefCell;

use futures::future::{join, try_join_all};
use futures::stream::{self, StreamExt as _};
use serde::Serialize;
use shared::base::timing::DRAIN;
use shared::inbox::ledger::{FoundBy, Received, TrialRecord, is_unavailable};
use shared::inbox::queue::QueueName;
use shared::inbox::spill::{Message, Spilled};
use tokio::time::Instant;

use crate::{BackupSync, RunTime};

pub(crate) use backlog::FIRST_BATCH;

/// The number of batches that are processed in parallel. A batch is up to 10 messages of 1 MiB, and
/// each message is in memory more than once.
const LANES: usize = 2;

/// The number of messages of a batch that are stored in parallel.
const AT_ONCE: usize = 10;

/// The result of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrainReport {
    pub messages: u64,
    /// Events that were not in the ledger.
    pub new: u64,
    /// Events that were already in the ledger.
    pub known: u64,
    /// Events that were quarantined, because another event has their id or their body.
    pub conflicting: u64,
    /// Messages left in the queue because an event could not be stored in the ledger or the bucket.
    pub failed: u64,
    /// Messages left in the queue because this code cannot read them.
    pub unreadable: u64,
    /// Whether DynamoDB was unavailable, so that the drain did not try the other messages.
    pub stopped: bool,
    /// The approximate number of messages in the queue after the drain. `None` if the drain
    /// received no message.
    pub left: Option<u64>,
    /// Messages that were moved from the backlog queue to the work queue.
    pub promoted: u64,
}

/// The result for one message.
enum Drained {
    Entered(Vec<Received>),
    Failed,
    Unreadable,
}

/// The reason why an event stays in the queue.
enum Left {
    /// Only this event fails: DynamoDB rejects it, or S3 does not store or return its body.
    OfItself,
    /// DynamoDB is unavailable, so every other event would fail too.
    Failed,
}

impl BackupSync {
    /// Drains the spill queue and the backlog queue in parallel. An error in one does not stop the
    /// other.
    pub(crate) async fn drain(&self, time: RunTime) -> anyhow::Result<DrainReport> {
        let until = time.until(DRAIN);
        let mut batch = FIRST_BATCH;
        let (drained, promoted) = join(
            self.drain_spill(until),
            self.promote_backlog(&mut batch, until),
        )
        .await;
        let (drained, mut promoted) = (drained?, promoted?);
        // The messages of events that were spilled long ago are in the backlog queue now.
        if drained.new > 0 {
            promoted += self.promote_backlog(&mut batch, until).await?;
        }
        Ok(DrainReport {
            promoted,
            ..drained
        })
    }

    async fn drain_spill(&self, until: Instant) -> anyhow::Result<DrainReport> {
        // A receive call waits one second for messages. The queue is nearly always empty, so these
        // waits would be most of the cost of an idle inbox. The drain therefore reads the depth of
        // the queue first. If the depth is out of date, the next run sees the messages. If the
        // depth is unavailable, the drain calls receive.
        if matches!(self.services.spill.depth().await, Ok(0)) {
            return Ok(DrainReport::default());
        }
        let report = RefCell::default();
        try_join_all((0..LANES).map(|_| self.drain_lane(until, &report))).await?;
        let mut report: DrainReport = report.into_inner();
        if report.messages > 0 {
            report.left = self.services.spill.depth().await.ok();
            tracing::info!(
                messages = report.messages,
                new = report.new,
                known = report.known,
                conflicting = report.conflicting,
                failed = report.failed,
                unreadable = report.unreadable,
                stopped = report.stopped,
                left = report.left,
                "drained {} new and {} known events of {} messages",
                report.new,
                report.known,
                report.messages,
            );
        }
        Ok(report)
    }

    /// Drains one batch after the other, until the queue is empty, no time is left, or DynamoDB is
    /// unavailable.
    async fn drain_lane(
        &self,
        until: Instant,
        report: &RefCell<DrainReport>,
    ) -> anyhow::Result<()> {
        while Instant::now() < until && !report.borrow().stopped {
            let messages = self.services.spill.receive((self.clock)()).await?;
            if messages.is_empty() {
                break;
            }
            let drained: Vec<Drained> = stream::iter(&messages)
                .map(|message| self.drain_message(message, report))
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            report.borrow_mut().add(drained);
        }
        Ok(())
    }

    /// Drains one message. A message that is not deleted becomes visible again after its visibility
    /// timeout.
    async fn drain_message(&self, message: &Message, report: &RefCell<DrainReport>) -> Drained {
        let events = match &message.events {
            Ok(events) => events,
            Err(why) => {
                tracing::error!(message.id = message.id, error = %why, "cannot read the spilled message {}: {why}", message.id);
                return Drained::Unreadable;
            }
        };
        let (mut entered, mut whole) = (Vec::new(), true);
        for spilled in events {
            // Another message showed that DynamoDB is unavailable, so do not call it again.
            if report.borrow().stopped {
                return Drained::Failed;
            }
            match self.enter(spilled).await {
                Ok(received) => entered.push(received),
                Err(Left::OfItself) => whole = false,
                Err(Left::Failed) => {
                    report.borrow_mut().stopped = true;
                    return Drained::Failed;
                }
            }
        }
        if !whole {
            return Drained::Failed;
        }
        if let Err(error) = self.services.spill.delete(message).await {
            // The queue delivers the message again, and the ledger then has its events already.
            tracing::warn!(
                message.id = message.id,
                error = format!("{error:#}"),
                "could not delete a drained message"
            );
        }
        Drained::Entered(entered)
    }

    async fn enter(&self, spilled: &Spilled) -> Result<Received, Left> {
        let (inbox, event) = (&self.services.inbox, spilled.event());
        let left = |error: anyhow::Error, why: Left| {
            tracing::error!(event.id = %event.id(), event.key = %event.key(), error = format!("{error:#}"), "could not store event {}; the event stays in the spill queue", event.id());
            why
        };
        let now = (self.clock)();
        let placed = match spilled.placed() {
            Some(placed) => placed.clone(),
            // An unavailable bucket affects only large bodies.
            None => inbox
                .ledger
                .store_body(event)
                .await
                .map_err(|error| left(error, Left::OfItself))?,
        };
        let kept = inbox
            .store_with_body(event, &placed, FoundBy::WorkIndex, now)
            .await
            .map_err(|error| {
                let why = if is_unavailable(&error) {
                    Left::Failed
                } else {
                    Left::OfItself
                };
                left(error, why)
            })?;
        let lane = QueueName::of(event.received_at(), now);
        inbox.announce(lane, kept.work_message.iter()).await;
        tracing::info!(event.id = %kept.id, event.key = %kept.key, "drained event {}", kept.id);
        Ok(kept.received)
    }
}

impl DrainReport {
    fn add(&mut self, drained: Vec<Drained>) {
        for one in drained {
            self.messages += 1;
            match one {
                Drained::Entered(events) => events.iter().for_each(|received| match received {
                    Received::New | Received::Parked | Received::Recorded(TrialRecord::New) => {
                        self.new += 1;
                    }
                    Received::Open { .. }
                    | Received::Settled
                    | Received::Recorded(TrialRecord::Known) => self.known += 1,
                    Received::Conflict(_)
                    | Received::Repeated(_)
                    | Received::Recorded(TrialRecord::Conflict) => self.conflicting += 1,
                }),
                Drained::Failed => self.failed += 1,
                Drained::Unreadable => self.unreadable += 1,
            }
        }
    }
}
