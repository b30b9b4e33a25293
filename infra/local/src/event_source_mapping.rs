//! The event source mapping: long-polls a queue, invokes the function and deletes processed
//! messages.

use std::{collections::HashSet, time::Duration};

use anyhow::Context;
use aws_sdk_sqs::{
    Client,
    types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    lambda::{Functions, Outcome},
    names::REGION,
    template::Mapping,
};

/// A poller of a queue. Several identical pollers run concurrently.
#[derive(Clone)]
pub(crate) struct Poller {
    pub(crate) client: Client,
    pub(crate) queue_url: String,
    pub(crate) queue_arn: String,
    pub(crate) mapping: Mapping,
    pub(crate) functions: Functions,
}

impl Poller {
    /// Polls until the task is aborted. Each poller runs one invocation at a time.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.round().await {
                tracing::warn!(error = format!("{error:#}"), "cannot process a batch");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    async fn round(&self) -> anyhow::Result<()> {
        let messages = self.batch().await?;
        if messages.is_empty() {
            return Ok(());
        }
        let records: Vec<_> = messages
            .iter()
            .map(|message| record(message, &self.queue_arn))
            .collect();
        let payload = json!({ "Records": records }).to_string();
        let invocation = self
            .functions
            .invoke(&self.mapping.function, payload.into())
            .await?;
        let ids: Vec<_> = messages.iter().filter_map(Message::message_id).collect();
        let failed = match judge(
            &invocation.outcome,
            &ids,
            self.mapping.reports_item_failures,
        ) {
            Verdict::WholeBatchFailed(reason) => {
                let function = &self.mapping.function;
                tracing::warn!(%function, reason, "a batch of {} messages failed", ids.len());
                return Ok(());
            }
            Verdict::Failed(failed) => failed,
        };
        let done = messages
            .iter()
            .filter(|message| !message.message_id().is_some_and(|id| failed.contains(id)));
        self.delete(done).await
    }

    /// Receives up to `BatchSize` messages. With a batching window, waits during the window for
    /// more messages.
    async fn batch(&self) -> anyhow::Result<Vec<Message>> {
        let mut messages = self
            .receive(self.mapping.batch_size, Duration::from_secs(20))
            .await?;
        let until = Instant::now() + self.mapping.window;
        while !messages.is_empty() && messages.len() < self.mapping.batch_size {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let missing = self.mapping.batch_size - messages.len();
            messages.extend(self.receive(missing, left).await?);
        }
        Ok(messages)
    }

    async fn receive(&self, max: usize, wait: Duration) -> anyhow::Result<Vec<Message>> {
        let answer = self
            .client
            .receive_message()
            .queue_url(&self.queue_url)
            .max_number_of_messages(i32::try_from(max.min(10))?)
            .wait_time_seconds(i32::try_from(wait.as_secs().min(20))?)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send()
            .await;
        Ok(answer
            .context("receive from the queue")?
            .messages
            .unwrap_or_default())
    }

    async fn delete(&self, done: impl Iterator<Item = &Message>) -> anyhow::Result<()> {
        let entries: Vec<_> = done
            .enumerate()
            .map(|(at, message)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(at.to_string())
                    .set_receipt_handle(message.receipt_handle.clone())
                    .build()
            })
            .collect::<Result<_, _>>()?;
        for chunk in entries.chunks(10) {
            let request = self
                .client
                .delete_message_batch()
                .queue_url(&self.queue_url);
            let answer = request.set_entries(Some(chunk.to_vec())).send().await;
            answer.context("delete processed messages from the queue")?;
        }
        Ok(())
    }
}

/// Returns a message in the form of Lambda's SQS event.
fn record(message: &Message, queue_arn: &str) -> Value {
    let system: Map<_, _> = message
        .attributes
        .iter()
        .flatten()
        .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
        .collect();
    let own: Map<_, _> = message
        .message_attributes
        .iter()
        .flatten()
        .map(|(name, value)| {
            let mut shown = json!({
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": value.data_type,
            });
            if let Some(text) = &value.string_value {
                shown["stringValue"] = json!(text);
            }
            if let Some(bytes) = &value.binary_value {
                shown["binaryValue"] = json!(STANDARD.encode(bytes.as_ref()));
            }
            (name.clone(), shown)
        })
        .collect();
    json!({
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": system,
        "messageAttributes": own,
        "md5OfBody": message.md5_of_body,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// These messages failed and become visible again; the others are deleted.
    Failed(HashSet<String>),
    WholeBatchFailed(String),
}

/// Applies the rules of partial batch responses. If the response is not understood, the whole batch
/// fails, because a deleted message cannot be restored.
fn judge(outcome: &Outcome, ids: &[&str], reports_item_failures: bool) -> Verdict {
    let all = |reason: &str| Verdict::WholeBatchFailed(reason.to_owned());
    let body = match outcome {
        Outcome::Failed(error) => return Verdict::WholeBatchFailed(error.to_string()),
        Outcome::Answered(_) if !reports_item_failures => return Verdict::Failed(HashSet::new()),
        Outcome::Answered(body) => body,
    };
    let Ok(answer) = serde_json::from_slice::<Value>(body) else {
        return all("the response is not JSON");
    };
    let failures = match &answer {
        Value::Null => return Verdict::Failed(HashSet::new()),
        Value::Object(answer) => answer.get("batchItemFailures").unwrap_or(&Value::Null),
        _ => return all("the response is not an object"),
    };
    let failures = match failures {
        Value::Null => return Verdict::Failed(HashSet::new()),
        Value::Array(failures) => failures,
        _ => return all("batchItemFailures is not a list"),
    };
    let mut failed = HashSet::new();
    for failure in failures {
        match failure.get("itemIdentifier").and_then(Value::as_str) {
            None => return all("an itemIdentifier is missing or null"),
            Some("") => return all("an itemIdentifier is empty"),
            Some(id) if !ids.contains(&id) => return all("an itemIdentifier is not in the batch"),
            Some(id) => failed.insert(id.to_owned()),
        };
    }
    Verdict::Failed(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lambda::FunctionError;

    fn verdict(answer: &str) -> Option<Vec<String>> {
        let outcome = Outcome::Answered(answer.to_owned().into());
        match judge(&outcome, &["a", "b"], true) {
            Verdict::WholeBatchFailed(_) => None,
            Verdict::Failed(failed) => {
                let mut failed: Vec<_> = failed.into_iter().collect();
                failed.sort();
                Some(failed)
            }
        }
    }

    #[test]
    fn an_empty_answer_means_that_all_is_done() {
        for answer in [
            "null",
            "{}",
            r#"{"batchItemFailures":null}"#,
            r#"{"batchItemFailures":[]}"#,
            r#"{"other":1}"#,
        ] {
            assert_eq!(verdict(answer), Some(vec![]), "{answer}");
        }
    }

    #[test]
    fn the_listed_ones_come_back() {
        let answer = r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#;
        assert_eq!(verdict(answer), Some(vec!["b".to_owned()]));
        let answer = r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"a"}]}"#;
        assert_eq!(verdict(answer), Some(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn what_is_not_understood_fails_the_whole_batch() {
        for answer in [
            "",
            "nonsense",
            "[]",
            "\"ok\"",
            r#"{"batchItemFailures":{}}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"c"}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"c"}]}"#,
            r#"{"batchItemFailures":[{"id":"a"}]}"#,
            r#"{"batchItemFailures":["a"]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":7}]}"#,
        ] {
            assert_eq!(verdict(answer), None, "{answer}");
        }
    }

    #[test]
    fn a_function_error_fails_the_whole_batch() {
        let error = FunctionError {
            kind: "E".to_owned(),
            message: "m".to_owned(),
        };
        let verdict = judge(&Outcome::Failed(error), &["a"], true);
        assert_eq!(verdict, Verdict::WholeBatchFailed("E: m".to_owned()));
    }

    #[test]
    fn without_the_setting_any_answer_is_success() {
        let answer = r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#;
        let outcome = Outcome::Answered(answer.into());
        assert_eq!(
            judge(&outcome, &["a"], false),
            Verdict::Failed(HashSet::new())
        );
    }
}
