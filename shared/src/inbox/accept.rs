//! The one door by which events come in: from a webhook, a sync, a spill, a repair.

use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::Instant;

use crate::base::clock::UnixMillis;
use crate::base::timing::SEND_BUDGET;
use crate::inbox::ledger::{By, Decided, FoundBy, Ledger, Received, StoredBody};
use crate::inbox::queue::{Queue, QueueName, WorkMessage};
use crate::webhook::event::{Event, EventId, EventKey};

/// How many events of a batch are written at the same time, and rung for.
const AT_ONCE: usize = 16;

/// Ledger and queue, in this order.
#[derive(Clone, Debug)]
pub struct Inbox {
    pub ledger: Ledger,
    pub queue: Queue,
}

/// An event that is durable, and whom to tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub key: EventKey,
    pub id: EventId,
    pub kind: String,
    /// The label of the secret that proved it.
    pub secret: Option<String>,
    pub received: Received,
    /// To be rung; `None` when nobody has to be told.
    pub work_message: Option<WorkMessage>,
}

impl Inbox {
    /// Keeps the event, or each event of a batch, and rings for it.
    ///
    /// An error means that nobody knows whether all of it was kept: it must not be acknowledged.
    pub async fn accept(&self, event: &Event, now: UnixMillis) -> anyhow::Result<Vec<Stored>> {
        let kept = self.store(event, now).await?;
        let lane = QueueName::of(event.received_at, now);
        self.announce(
            lane,
            kept.iter().filter_map(|kept| kept.work_message.as_ref()),
        )
        .await;
        Ok(kept)
    }

    /// The first half of [`accept`](Self::accept): when it returns, every event is durable. What
    /// was kept before an error is found known when the batch comes again.
    pub async fn store(&self, event: &Event, now: UnixMillis) -> anyhow::Result<Vec<Stored>> {
        let events = stream::iter(event.apart());
        events
            .map(|event| self.store_one(event, now))
            .buffered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn store_one(&self, event: Event, now: UnixMillis) -> anyhow::Result<Stored> {
        let placed = self.ledger.store_body(&event).await?;
        self.store_with_body(&event, &placed, FoundBy::WorkIndex, now)
            .await
    }

    /// Keeps an event that is no batch, and whose body is ready.
    pub async fn store_with_body(
        &self,
        event: &Event,
        placed: &StoredBody,
        watched: FoundBy,
        now: UnixMillis,
    ) -> anyhow::Result<Stored> {
        let received = self
            .ledger
            .receive_stored(event, placed, watched, now)
            .await?;
        let run = match received {
            Received::New => Some(0),
            // The first delivery may have died between the two steps.
            Received::Open { silent: true, run } => Some(run),
            Received::Open { silent: false, .. }
            | Received::Settled
            | Received::Conflict(_)
            | Received::Repeated(_) => None,
        };
        let work_message = run.map(|run| WorkMessage {
            key: event.key().clone(),
            run,
        });
        Ok(Stored {
            key: event.key().clone(),
            id: event.id(),
            kind: event.kind().to_owned(),
            secret: event.secret().map(str::to_owned),
            received,
            work_message,
        })
    }

    /// Lets an event that was kept apart be worked on, and rings for it.
    pub async fn release(
        &self,
        key: &EventKey,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Decided> {
        let decided = self.ledger.release(key, by, now).await?;
        if let Decided::Made(row) = &decided {
            let lane = QueueName::of(row.received_at, now);
            self.announce(lane, decided.work_message().iter()).await;
        }
        Ok(decided)
    }

    /// The second half. Whether the bells were heard does not matter: the sweep rings again.
    pub async fn announce(
        &self,
        lane: QueueName,
        work_messages: impl Iterator<Item = &WorkMessage>,
    ) {
        let deadline = Instant::now() + SEND_BUDGET;
        let ring = async |work_message: &WorkMessage| {
            let ring = self.queue.send_to(lane, work_message, Duration::ZERO);
            let trouble = match tokio::time::timeout_at(deadline, ring).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "it took too long".to_owned(),
            };
            tracing::warn!(event.key = %work_message.key, error = trouble, "could not send a message for event {}; the sweep sends it", work_message.key);
        };
        stream::iter(work_messages)
            .map(|work_message| Box::pin(ring(work_message)))
            .buffer_unordered(AT_ONCE)
            .collect::<()>()
            .await;
    }
}
