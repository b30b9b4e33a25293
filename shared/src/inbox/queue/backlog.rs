//! Moves messages from the backlog queue to the work queue.

use anyhow::Context as _;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};

use super::{MOST_AT_ONCE as MOST, Queue, WorkMessage};

/// A message that was received from the backlog queue. SQS hides the message from other receivers
/// for the visibility timeout.
#[derive(Debug)]
pub struct Old {
    text: String,
    handle: String,
}

/// The result of moving messages to the work queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The number of messages that are now in the work queue.
    pub over: u64,
    /// The number of messages that stay in the backlog queue. They become visible again after the
    /// visibility timeout.
    pub left: u64,
}

impl Queue {
    /// Returns whether a backlog queue is configured.
    pub fn has_backlog(&self) -> bool {
        self.backlog.is_some()
    }

    /// Receives up to `most` messages from the backlog queue, but never more than ten. SQS hides
    /// them for the visibility timeout of the queue. An empty result means that the queue is empty,
    /// because long polling queries all servers.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html>
    pub async fn take_old(&self, most: u64) -> anyhow::Result<Vec<Old>> {
        let Some(url) = &self.backlog else {
            return Ok(Vec::new());
        };
        let most = usize::try_from(most).unwrap_or(MOST).clamp(1, MOST);
        let answer = self
            .sqs
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(i32::try_from(most).unwrap_or(1))
            .wait_time_seconds(1)
            .send()
            .await
            .context("receive messages from the backlog queue")?;
        let messages = answer.messages.unwrap_or_default().into_iter();
        let old = messages.map(|message| Old {
            text: message.body.unwrap_or_default(),
            handle: message.receipt_handle.unwrap_or_default(),
        });
        Ok(old.collect())
    }

    /// Sends up to ten messages to the work queue without changes. Then deletes the messages that
    /// SQS accepted from the backlog queue. A crash between the two steps leaves a duplicate
    /// message, which has no effect. Invalid messages are moved too, and the processor handles
    /// them.
    pub async fn pass_on(&self, old: &[Old]) -> anyhow::Result<Passed> {
        let (Some(backlog), false) = (&self.backlog, old.is_empty()) else {
            return Ok(Passed::default());
        };
        let entries = old.iter().enumerate().map(|(id, old)| {
            let source = WorkMessage::from_message(&old.text).ok();
            SendMessageBatchRequestEntry::builder()
                .id(id.to_string())
                .message_body(&old.text)
                .set_message_group_id(source.map(|message| message.key.source().to_owned()))
                .build()
        });
        let answer = self
            .sqs
            .send_message_batch()
            .queue_url(&self.url)
            .set_entries(Some(entries.collect::<Result<_, _>>()?))
            .send()
            .await
            .context("send messages of the backlog queue to the work queue")?;
        let there = answer.successful.iter().filter_map(|one| {
            let id: usize = one.id.parse().ok()?;
            Some((id, old.get(id)?))
        });
        let gone = there.map(|(id, old)| {
            DeleteMessageBatchRequestEntry::builder()
                .id(id.to_string())
                .receipt_handle(&old.handle)
                .build()
        });
        let gone: Vec<_> = gone.collect::<Result<_, _>>()?;
        let over = gone.len();
        if over > 0 {
            self.sqs
                .delete_message_batch()
                .queue_url(backlog)
                .set_entries(Some(gone))
                .send()
                .await
                .context("delete messages from the backlog queue")?;
        }
        Ok(Passed {
            over: over as u64,
            left: old.len().saturating_sub(over) as u64,
        })
    }
}
