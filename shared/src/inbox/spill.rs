//! The spill queue stores complete verified events while DynamoDB is unavailable.
//!
//! If the catcher cannot write an event to the table, it sends the event to the spill queue. It
//! acknowledges the webhook after SQS has accepted the event. When DynamoDB is available again,
//! backup-sync stores the events of each message, and then deletes the message. A second copy of an
//! event counts as a duplicate. A message that cannot be read stays in the queue.

mod message;

use anyhow::{Context as _, bail};
use aws_sdk_sqs::types::QueueAttributeName;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::aws::QueueClient;
use crate::base::clock::UnixMillis;
use crate::base::timing::SPILL_HIDDEN;
use crate::inbox::ledger::StoredBody;
use crate::inbox::queue::NewMessage;
use crate::webhook::event::Event;

pub use message::Unreadable;

/// The maximum size of an SQS message, in bytes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
const LARGEST_MESSAGE: usize = 1_048_576;

/// The number of messages that are sent in parallel.
const AT_ONCE: usize = 8;

/// A single event (not a batch) in the spill queue.
#[derive(Clone, Debug)]
pub struct Spilled {
    pub(crate) event: Event,
    /// The location of the body, if the body is already stored. If the body is in the bucket,
    /// `event` does not contain it.
    pub(crate) placed: Option<StoredBody>,
}

/// A message of the spill queue.
#[derive(Debug)]
pub struct Message {
    /// The SQS message id.
    pub id: String,
    handle: String,
    pub events: Result<Vec<Spilled>, Unreadable>,
}

impl Spilled {
    pub fn new(event: Event, placed: Option<StoredBody>) -> Self {
        Self { event, placed }
    }

    /// Returns the event as it arrived, with the time of receipt of its request.
    pub fn event(&self) -> &Event {
        &self.event
    }

    pub fn placed(&self) -> Option<&StoredBody> {
        self.placed.as_ref()
    }

    /// Returns the event, marked as drained at `now`.
    pub(crate) fn drained(mut self, now: UnixMillis) -> Self {
        self.event.drained_at = Some(now);
        self
    }
}

/// The messages to send for events of one source.
#[derive(Debug)]
pub struct Messages {
    source: String,
    texts: Vec<String>,
}

/// The spill queue.
#[derive(Clone, Debug)]
pub struct Spill {
    sqs: QueueClient,
    url: String,
}

impl Spill {
    pub fn new(sqs: impl Into<QueueClient>, url: impl Into<String>) -> Self {
        Self {
            sqs: sqs.into(),
            url: url.into(),
        }
    }

    /// Serializes events into as few messages as possible. Fails if an event is too large for a
    /// message.
    pub fn messages(&self, events: &[Spilled]) -> anyhow::Result<Messages> {
        let source = events.first().map(|first| first.event.key().source());
        Ok(Messages {
            source: source.unwrap_or_default().to_owned(),
            texts: message::write(events, LARGEST_MESSAGE)?,
        })
    }

    /// Sends messages. On success, all their events are durable. After an error, it is unknown
    /// which events are stored.
    pub async fn send(&self, messages: Messages) -> anyhow::Result<()> {
        let source = messages.source.as_str();
        stream::iter(messages.texts)
            .map(|message| self.send_one(source, message))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Sends one message. The source is the message group, as in the work queue.
    async fn send_one(&self, source: &str, message: String) -> anyhow::Result<()> {
        let message = NewMessage {
            queue_url: &self.url,
            message_body: &message,
            message_group_id: source,
            delay_seconds: None,
        };
        let sent = message.send(&self.sqs).await;
        sent.context("send an event to the spill queue")
    }

    /// Receives up to ten messages. SQS hides them from other receivers for the visibility timeout.
    /// An empty result means that the queue is empty, because long polling queries all servers.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html>
    pub async fn receive(&self, now: UnixMillis) -> anyhow::Result<Vec<Message>> {
        let answer = self
            .sqs
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(10)
            .wait_time_seconds(1)
            .visibility_timeout(i32::try_from(SPILL_HIDDEN.as_secs()).unwrap_or(i32::MAX))
            .send()
            .await
            .context("receive messages from the spill queue")?;
        let messages = answer.messages.unwrap_or_default().into_iter();
        Ok(messages.map(|message| received(message, now)).collect())
    }

    /// Deletes a message. The caller must first store all of its events in the ledger.
    pub async fn delete(&self, message: &Message) -> anyhow::Result<()> {
        if message.events.is_err() {
            bail!(
                "cannot delete an unreadable message of the spill queue, because its events would be lost"
            );
        }
        self.sqs
            .delete_message()
            .queue_url(&self.url)
            .receipt_handle(&message.handle)
            .send()
            .await
            .context("delete a message from the spill queue")?;
        Ok(())
    }

    /// Returns the approximate number of messages, including hidden messages.
    pub async fn depth(&self) -> anyhow::Result<u64> {
        let kinds = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let answer = self
            .sqs
            .get_queue_attributes()
            .queue_url(&self.url)
            .set_attribute_names(Some(kinds.to_vec()))
            .send()
            .await
            .context("get the depth of the spill queue")?;
        let numbers = kinds.iter().map(|kind| {
            let number = answer.attributes().and_then(|all| all.get(kind));
            number.and_then(|text| text.parse::<u64>().ok())
        });
        numbers
            .sum::<Option<u64>>()
            .context("SQS did not return the depth of the spill queue as a number")
    }
}

fn received(message: aws_sdk_sqs::types::Message, now: UnixMillis) -> Message {
    Message {
        id: message.message_id.unwrap_or_default(),
        handle: message.receipt_handle.unwrap_or_default(),
        events: message::read(message.body.as_deref().unwrap_or_default())
            .map(|events| events.into_iter().map(|one| one.drained(now)).collect()),
    }
}
