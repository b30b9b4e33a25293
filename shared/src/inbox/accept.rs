//! The single entry point for events. Events come from webhooks, syncs, the spill queue, repairs
//! and released requests.

use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::Instant;

use crate::base::clock::UnixMillis;
use crate::base::timing::SEND_BUDGET;
use crate::inbox::ledger::{
    By, Decided, FoundBy, HoldDecision, Ledger, Received, Repetition, StoredBody,
};
use crate::inbox::queue::{Queue, QueueName, WorkMessage};
use crate::webhook::event::{Event, EventId, EventKey};

/// The number of events of a batch that are written in parallel. It is also the number of messages
/// that are sent in parallel.
const AT_ONCE: usize = 16;

/// The ledger and the work queue. An event is written to the ledger before its message is sent.
#[derive(Clone, Debug)]
pub struct Inbox {
    pub ledger: Ledger,
    pub queue: Queue,
}

/// A stored event, and the message to send for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub key: EventKey,
    pub id: EventId,
    pub kind: String,
    /// The label of the secret that verified the event.
    pub secret: Option<String>,
    pub received: Received,
    /// The kind of repetition, if a request of the event was received before.
    pub repetition: Option<Repetition>,
    /// The message to send. `None` if the event needs no message.
    pub work_message: Option<WorkMessage>,
}

impl Stored {
    fn new(event: &Event, received: Received, repetition: Option<Repetition>) -> Self {
        let run = match received {
            Received::New => Some(0),
            // An earlier delivery may have stored the event without sending its message.
            Received::Open { silent: true, run } => Some(run),
            Received::Parked
            | Received::Open { silent: false, .. }
            | Received::Settled
            | Received::Conflict(_)
            | Received::Repeated(_)
            | Received::Recorded(_) => None,
        };
        let work_message = run.map(|run| WorkMessage {
            key: event.key().clone(),
            run,
        });
        Self {
            key: event.key().clone(),
            id: event.id(),
            kind: event.kind().to_owned(),
            secret: event.secret().map(str::to_owned),
            received,
            repetition,
            work_message,
        }
    }
}

impl Inbox {
    /// Stores the event, or each event of a batch. Then sends a message for each event that needs
    /// one.
    ///
    /// After an error, some events may not be stored. The caller must then not acknowledge the
    /// request.
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

    /// The first step of [`accept`](Self::accept). On success, every event is durable. After an
    /// error, some events may be stored. If the batch is delivered again, these events are
    /// duplicates.
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

    /// Stores a single event (not a batch) whose body is already stored.
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
        Ok(Stored::new(event, received, None))
    }

    /// Like [`store_with_body`](Self::store_with_body), for a request that a provider just sent.
    pub async fn store_request(
        &self,
        event: &Event,
        placed: &StoredBody,
        now: UnixMillis,
    ) -> anyhow::Result<Stored> {
        let (received, repetition) = self.ledger.receive_request(event, placed, now).await?;
        Ok(Stored::new(event, received, repetition))
    }

    /// Releases a quarantined event, and sends a message for it.
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

    /// Approves a held event, and sends a message for it.
    pub async fn approve(
        &self,
        key: &EventKey,
        hold: &str,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<HoldDecision> {
        let decided = self.ledger.approve(key, hold, by, now).await?;
        let message = decided.work_message();
        self.announce(QueueName::Main, message.iter()).await;
        Ok(decided)
    }

    /// The second step of [`accept`](Self::accept): sends the messages. This function only logs
    /// errors, because the sweep sends the missing messages later.
    pub async fn announce(
        &self,
        lane: QueueName,
        work_messages: impl Iterator<Item = &WorkMessage>,
    ) {
        let deadline = Instant::now() + SEND_BUDGET;
        let send = async |work_message: &WorkMessage| {
            let sent = self.queue.send_to(lane, work_message, Duration::ZERO);
            let failure = match tokio::time::timeout_at(deadline, sent).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "the call timed out".to_owned(),
            };
            tracing::warn!(event.key = %work_message.key, error = failure, "could not send a message for event {}; the sweep will send the message", work_message.key);
        };
        stream::iter(work_messages)
            .map(|work_message| Box::pin(send(work_message)))
            .buffer_unordered(AT_ONCE)
            .collect::<()>()
            .await;
    }
}
