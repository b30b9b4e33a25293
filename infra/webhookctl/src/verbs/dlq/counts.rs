//! The queue of dead letters, and how many dead letters there are.

use anyhow::Context as _;
use aws_sdk_sqs::types::{ListMessageMoveTasksResultEntry, QueueAttributeName};
use serde::Deserialize;

use crate::cli::DoorAt;
use crate::output::CliError;
use crate::target::Deployment;

/// More dead letters than this are not counted.
const MOST_COUNTED: u64 = 100_000;

/// Where messages go that nobody could answer.
pub(crate) struct DeadQueue {
    sqs: aws_sdk_sqs::Client,
    url: String,
    pub(crate) arn: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedrivePolicy {
    dead_letter_target_arn: String,
}

/// Dead letters in the table, and messages in the queue of dead letters. They need not be equal:
/// a message dies when nobody can answer it, an event when its attempts are used up.
pub(crate) async fn dead_letter_counts(
    inbox: &Deployment,
    queue: &DeadQueue,
) -> anyhow::Result<(u64, u64)> {
    let table = inbox.ledger.count_dead_letters(MOST_COUNTED).await?;
    Ok((table, queue.count().await?))
}

impl DeadQueue {
    /// The one that the queue of messages names.
    pub(crate) async fn find(inbox: &Deployment, at: &DoorAt) -> anyhow::Result<Self> {
        let named = at.queue_url.clone();
        let Some(work_message) = named.or_else(|| inbox.names().queue_url.clone()) else {
            return Err(
                CliError::usage("dlq.no_queue", "name the queue of messages")
                    .note("the output QueueUrl of the stack; it knows its dead-letter queue")
                    .tip("webhookctl dlq redrive --native --queue-url URL")
                    .into(),
            );
        };
        let sqs = inbox.sqs()?;
        let wanted = QueueAttributeName::RedrivePolicy;
        let answer = sqs
            .get_queue_attributes()
            .queue_url(&work_message)
            .attribute_names(wanted.clone())
            .send()
            .await
            .context("ask the queue where its dead letters go")?;
        let attributes = answer.attributes();
        let policy = attributes.and_then(|attributes| attributes.get(&wanted));
        let policy: RedrivePolicy = policy
            .and_then(|text| serde_json::from_str(text).ok())
            .context("the queue of messages has no dead-letter queue")?;
        let arn = policy.dead_letter_target_arn;
        // It is in the same account and Region: SQS takes no other.
        let (place, _) = work_message
            .rsplit_once('/')
            .context("a queue's URL has a path")?;
        let url = format!("{place}/{}", name_of(&arn));
        Ok(Self { sqs, url, arn })
    }

    pub(crate) fn name(&self) -> &str {
        name_of(&self.arn)
    }

    /// About how many messages it holds that nobody is looking at.
    pub(crate) async fn count(&self) -> anyhow::Result<u64> {
        let visible = QueueAttributeName::ApproximateNumberOfMessages;
        let answer = self
            .sqs
            .get_queue_attributes()
            .queue_url(&self.url)
            .attribute_names(visible.clone())
            .send()
            .await
            .context("count the dead letters")?;
        let attributes = answer.attributes();
        attributes
            .and_then(|attributes| attributes.get(&visible)?.parse().ok())
            .context("the depth of the dead-letter queue is no number")
    }

    /// Moves all of it back to where each message came from. SQS takes one such task at a time.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html>
    pub(super) async fn start_move(&self) -> anyhow::Result<()> {
        let request = self.sqs.start_message_move_task().source_arn(&self.arn);
        request.send().await.context("move the dead letters")?;
        Ok(())
    }

    /// The task that was started last.
    pub(super) async fn last_move(
        &self,
    ) -> anyhow::Result<Option<ListMessageMoveTasksResultEntry>> {
        let request = self.sqs.list_message_move_tasks();
        let request = request.source_arn(&self.arn).max_results(1);
        let answer = request.send().await.context("ask how far the move is")?;
        Ok(answer.results.unwrap_or_default().into_iter().next())
    }
}

fn name_of(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}
