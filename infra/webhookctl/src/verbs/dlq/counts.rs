//! Reads the length of the dead-letter queue and the number of dead letters.

use anyhow::Context as _;
use aws_sdk_sqs::types::{ListMessageMoveTasksResultEntry, QueueAttributeName};
use serde::Deserialize;

use crate::cli::DoorAt;
use crate::output::CliError;
use crate::target::Deployment;

/// The number at which counting dead letters stops.
const MOST_COUNTED: u64 = 100_000;

/// The dead-letter queue of the work queue, for messages that no processor could handle.
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

/// Returns the number of dead letters in the table, and of messages in the dead-letter queue. The
/// numbers can differ. An event becomes a dead letter when it has no attempts left. A message moves
/// to the queue when no processor can handle it.
pub(crate) async fn dead_letter_counts(
    inbox: &Deployment,
    queue: &DeadQueue,
) -> anyhow::Result<(u64, u64)> {
    let table = inbox.ledger.count_dead_letters(MOST_COUNTED).await?;
    Ok((table, queue.count().await?))
}

impl DeadQueue {
    /// Finds the dead-letter queue that the redrive policy of the work queue names.
    pub(crate) async fn find(inbox: &Deployment, at: &DoorAt) -> anyhow::Result<Self> {
        let named = at.queue_url.clone();
        let Some(work_message) = named.or_else(|| inbox.names().queue_url.clone()) else {
            return Err(
                CliError::usage("dlq.no_queue", "the URL of the work queue is unknown")
                    .note("the output QueueUrl of the stack is this URL")
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
            .context("read the redrive policy of the work queue")?;
        let attributes = answer.attributes();
        let policy = attributes.and_then(|attributes| attributes.get(&wanted));
        let policy: RedrivePolicy = policy
            .and_then(|text| serde_json::from_str(text).ok())
            .context("the work queue has no dead-letter queue")?;
        let arn = policy.dead_letter_target_arn;
        // SQS requires that both queues are in the same account and Region.
        let (place, _) = work_message
            .rsplit_once('/')
            .context("the URL of the work queue has no path")?;
        let url = format!("{place}/{}", name_of(&arn));
        Ok(Self { sqs, url, arn })
    }

    pub(crate) fn name(&self) -> &str {
        name_of(&self.arn)
    }

    /// Returns the approximate number of visible messages.
    pub(crate) async fn count(&self) -> anyhow::Result<u64> {
        let visible = QueueAttributeName::ApproximateNumberOfMessages;
        let answer = self
            .sqs
            .get_queue_attributes()
            .queue_url(&self.url)
            .attribute_names(visible.clone())
            .send()
            .await
            .context("count the messages of the dead-letter queue")?;
        let attributes = answer.attributes();
        attributes
            .and_then(|attributes| attributes.get(&visible)?.parse().ok())
            .context("SQS returned no valid depth of the dead-letter queue")
    }

    /// Starts to move all messages back to their source queue. SQS runs one such task at a time.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html>
    pub(super) async fn start_move(&self) -> anyhow::Result<()> {
        let request = self.sqs.start_message_move_task().source_arn(&self.arn);
        request
            .send()
            .await
            .context("start the message move task")?;
        Ok(())
    }

    /// Returns the most recent move task.
    pub(super) async fn last_move(
        &self,
    ) -> anyhow::Result<Option<ListMessageMoveTasksResultEntry>> {
        let request = self.sqs.list_message_move_tasks();
        let request = request.source_arn(&self.arn).max_results(1);
        let answer = request
            .send()
            .await
            .context("read the progress of the message move task")?;
        Ok(answer.results.unwrap_or_default().into_iter().next())
    }
}

fn name_of(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}
