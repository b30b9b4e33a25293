//! The spill queue: verified events, whole, while the ledger is not to be had.
//!
//! The catcher sends here what it cannot put, and acknowledges it when the queue has. backup-sync
//! puts it through the same door when the ledger is back, and deletes a message only then: a
//! second copy of an event finds it known. A message that cannot be read stays where it is.

mod message;

use anyhow::{Context as _, bail};
use aws_sdk_sqs::types::QueueAttributeName;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::aws::Lazy;
use crate::base::clock::UnixMillis;
use crate::base::timing::SPILL_HIDDEN;
use crate::inbox::ledger::StoredBody;
use crate::webhook::event::Event;

pub use message::Unreadable;

/// The longest message that SQS takes, in bytes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
const LARGEST_MESSAGE: usize = 1_048_576;

/// Messages that are sent at the same time.
const AT_ONCE: usize = 8;

/// An event that is no batch, on its way through the spill queue.
#[derive(Clone, Debug)]
pub struct Spilled {
    pub(crate) event: Event,
    /// Where its body is, if that was settled before. In the bucket it is not in the event.
    pub(crate) placed: Option<StoredBody>,
}

/// A message of the spill queue.
#[derive(Debug)]
pub struct Message {
    /// The id that SQS gave it.
    pub id: String,
    handle: String,
    pub events: Result<Vec<Spilled>, Unreadable>,
}

impl Spilled {
    pub fn new(event: Event, placed: Option<StoredBody>) -> Self {
        Self { event, placed }
    }

    /// The event as it came; its time of receipt is that of the request.
    pub fn event(&self) -> &Event {
        &self.event
    }

    pub fn placed(&self) -> Option<&StoredBody> {
        self.placed.as_ref()
    }

    /// The same event, marked as drained.
    pub(crate) fn drained(mut self, now: UnixMillis) -> Self {
        self.event.drained_at = Some(now);
        self
    }
}

/// What is to be sent, of one source.
#[derive(Debug)]
pub struct Messages {
    source: String,
    texts: Vec<String>,
}

/// The second store.
#[derive(Clone, Debug)]
pub struct Spill {
    sqs: Lazy<aws_sdk_sqs::Client>,
    url: String,
}

impl Spill {
    pub fn new(sqs: impl Into<Lazy<aws_sdk_sqs::Client>>, url: impl Into<String>) -> Self {
        Self {
            sqs: sqs.into(),
            url: url.into(),
        }
    }

    /// Events as messages, as few as they fit. An error says which one is too large for any.
    pub fn messages(&self, events: &[Spilled]) -> anyhow::Result<Messages> {
        let source = events.first().map(|first| first.event.key().source());
        Ok(Messages {
            source: source.unwrap_or_default().to_owned(),
            texts: message::write(events, LARGEST_MESSAGE)?,
        })
    }

    /// Sends messages. When it returns, every event in them is durable; after an error nobody knows
    /// which are.
    pub async fn send(&self, messages: Messages) -> anyhow::Result<()> {
        let source = messages.source.as_str();
        stream::iter(messages.texts)
            .map(|message| self.send_one(source, message))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The source is the message group, as with messages.
    async fn send_one(&self, source: &str, message: String) -> anyhow::Result<()> {
        self.sqs
            .send_message()
            .queue_url(&self.url)
            .message_body(message)
            .message_group_id(source)
            .send()
            .await
            .context("send an event to the spill queue")?;
        Ok(())
    }

    /// Takes up to ten messages, which nobody else sees for a while. None means that there are
    /// none to be had now: the queue is asked whole, not by sample.
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
            .context("receive from the spill queue")?;
        let messages = answer.messages.unwrap_or_default().into_iter();
        Ok(messages.map(|message| received(message, now)).collect())
    }

    /// Deletes a message whose events are in the ledger.
    pub async fn delete(&self, message: &Message) -> anyhow::Result<()> {
        if message.events.is_err() {
            bail!("a message that nobody could read is not deleted");
        }
        self.sqs
            .delete_message()
            .queue_url(&self.url)
            .receipt_handle(&message.handle)
            .send()
            .await
            .context("delete from the spill queue")?;
        Ok(())
    }

    /// About how many messages are in it, those that are hidden included.
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
            .context("ask the spill queue for its depth")?;
        let numbers = kinds.iter().map(|kind| {
            let number = answer.attributes().and_then(|all| all.get(kind));
            number.and_then(|text| text.parse::<u64>().ok())
        });
        numbers
            .sum::<Option<u64>>()
            .context("the spill queue's depth is not a number")
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
