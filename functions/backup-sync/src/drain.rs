//! The drain: what was spilled while the ledger was not to be had enters it, by the same door; and the
//! messages of the backlog go among those of now, a batch at a time.
//!
//! Its trouble is its own: it has a schedule to itself, so that no sweep waits for it or fails
//! with it. A message is deleted when its events are rows, and not before; what cannot be put or
//! read stays in the queue, whose alarm calls somebody.

mod backlog;

use std::cell::RefCell;

use futures::future::{join, try_join_all};
use futures::stream::{self, StreamExt as _};
use serde::Serialize;
use shared::base::timing::DRAIN;
use shared::inbox::ledger::{FoundBy, Received, is_unavailable};
use shared::inbox::queue::QueueName;
use shared::inbox::spill::{Message, Spilled};
use tokio::time::Instant;

use crate::{BackupSync, RunTime};

pub(crate) use backlog::FIRST_BATCH;

/// Lots of messages that are worked on at the same time. A message may be a mebibyte, a lot is
/// ten of them, and they are in memory more than once.
const LANES: usize = 2;

/// Messages of a lot that are put at the same time.
const AT_ONCE: usize = 10;

/// What a drain did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrainReport {
    pub messages: u64,
    /// Events that were not in the ledger.
    pub new: u64,
    /// Events that had come another way too.
    pub known: u64,
    /// Events that are kept apart, because another has their id or their body.
    pub conflicting: u64,
    /// Messages left in the queue because the ledger, or the bucket, did not take an event.
    pub failed: u64,
    /// Messages left in the queue because nobody here can read them.
    pub unreadable: u64,
    /// The ledger was unwell, so the rest was not tried.
    pub stopped: bool,
    /// About how many messages were in the queue afterwards, if there had been any.
    pub left: Option<u64>,
    /// Messages of the backlog that were put among those of now.
    pub promoted: u64,
}

/// What became of a message.
enum Drained {
    Entered(Vec<Received>),
    Failed,
    Unreadable,
}

/// Why an event is left in the queue.
enum Left {
    /// Something about this event: DynamoDB refuses it, or S3 does not store or return its body.
    OfItself,
    /// DynamoDB is unavailable, so every other event would fail too.
    Failed,
}

impl BackupSync {
    /// Neither half waits for the other, nor is kept from its end by it.
    pub(crate) async fn drain(&self, time: RunTime) -> anyhow::Result<DrainReport> {
        let until = time.until(DRAIN);
        let mut batch = FIRST_BATCH;
        let (drained, promoted) = join(
            self.drain_spill(until),
            self.promote_backlog(&mut batch, until),
        )
        .await;
        let (drained, mut promoted) = (drained?, promoted?);
        // What was spilled long ago is rung for in the backlog.
        if drained.new > 0 {
            promoted += self.promote_backlog(&mut batch, until).await?;
        }
        Ok(DrainReport {
            promoted,
            ..drained
        })
    }

    async fn drain_spill(&self, until: Instant) -> anyhow::Result<DrainReport> {
        // A receive waits a second for what may come. Nothing comes in all but a few minutes of a
        // month, and this second would be the most of what an idle inbox costs. A depth that lags
        // behind is right in the next minute; where it is not to be had, the receive decides.
        if matches!(self.parts.spill.depth().await, Ok(0)) {
            return Ok(DrainReport::default());
        }
        let report = RefCell::default();
        try_join_all((0..LANES).map(|_| self.drain_lane(until, &report))).await?;
        let mut report: DrainReport = report.into_inner();
        if report.messages > 0 {
            report.left = self.parts.spill.depth().await.ok();
            tracing::info!(
                messages = report.messages,
                new = report.new,
                known = report.known,
                conflicting = report.conflicting,
                failed = report.failed,
                unreadable = report.unreadable,
                stopped = report.stopped,
                left = report.left,
                "drained: {} new and {} known of {} messages",
                report.new,
                report.known,
                report.messages,
            );
        }
        Ok(report)
    }

    /// Takes lot after lot, until there is none, no time, or no ledger.
    async fn drain_lane(
        &self,
        until: Instant,
        report: &RefCell<DrainReport>,
    ) -> anyhow::Result<()> {
        while Instant::now() < until && !report.borrow().stopped {
            let messages = self.parts.spill.receive((self.clock)()).await?;
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

    /// What is left untouched is seen again when its time hidden is over.
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
            // Somebody else's failure is enough: the ledger is not asked once more.
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
        if let Err(error) = self.parts.spill.delete(message).await {
            // It comes again and is found known.
            tracing::warn!(
                message.id = message.id,
                error = format!("{error:#}"),
                "could not delete a drained message"
            );
        }
        Drained::Entered(entered)
    }

    async fn enter(&self, spilled: &Spilled) -> Result<Received, Left> {
        let (inbox, event) = (&self.parts.inbox, spilled.event());
        let left = |error: anyhow::Error, why: Left| {
            tracing::error!(event.id = %event.id(), event.key = %event.key(), error = format!("{error:#}"), "left event {} in the spill queue", event.id());
            why
        };
        let now = (self.clock)();
        let placed = match spilled.placed() {
            Some(placed) => placed.clone(),
            // A bucket that is unwell concerns large bodies only.
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
                    Received::New => self.new += 1,
                    Received::Open { .. } | Received::Settled => self.known += 1,
                    Received::Conflict(_) | Received::Repeated(_) => self.conflicting += 1,
                }),
                Drained::Failed => self.failed += 1,
                Drained::Unreadable => self.unreadable += 1,
            }
        }
    }
}
