//! Sends messages, with the checks that AWS documents.

use md5::{Digest, Md5};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Sqs,
    actions::{Answer, find},
    batch::{self, Batch, Results},
    queue::{Message, Queue},
    refusal::Refusal,
};
use crate::names::random_id;

const MAX_BYTES: usize = 1_048_576;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Sending {
    #[serde(default)]
    queue_url: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    message_body: String,
    delay_seconds: Option<i64>,
    message_attributes: Option<Map<String, Value>>,
    message_group_id: Option<String>,
}

impl Sending {
    fn size(&self) -> usize {
        let attributes = self.message_attributes.iter().flatten();
        let text =
            |value: &Value, name| value.get(name).and_then(Value::as_str).map_or(0, str::len);
        let of_attributes: usize = attributes
            .map(|(name, value)| {
                // Binary values arrive in base64: four characters for each three bytes.
                name.len()
                    + text(value, "DataType")
                    + text(value, "StringValue")
                    + text(value, "BinaryValue") / 4 * 3
            })
            .sum();
        self.message_body.len() + of_attributes
    }

    fn check(&self, limit: usize) -> Result<(), Refusal> {
        if self.message_body.is_empty() {
            return Err(Refusal::missing("MessageBody"));
        }
        if let Some(delay) = self.delay_seconds
            && !(0..=900).contains(&delay)
        {
            return Err(Refusal::invalid(format!(
                "Value {delay} for parameter DelaySeconds is invalid. \
                 Reason: DelaySeconds must be >= 0 and <= 900."
            )));
        }
        if self.size() > limit {
            return Err(Refusal::invalid(format!(
                "One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes."
            )));
        }
        if !self.message_body.chars().all(legal_in_xml) {
            return Err(Refusal::new(
                "InvalidMessageContents",
                "Invalid characters found. Valid characters: #x9 | #xA | #xD | #x20 to #xD7FF | \
                 #xE000 to #xFFFD | #x10000 to #x10FFFF",
            ));
        }
        if self
            .message_attributes
            .as_ref()
            .is_some_and(|all| all.len() > 10)
        {
            return Err(Refusal::invalid(
                "Number of message attributes [11] exceeds the allowed maximum [10].",
            ));
        }
        // A standard queue can have message groups (fair queues).
        match &self.message_group_id {
            Some(group) if group.is_empty() || group.len() > 128 => Err(Refusal::invalid(
                "MessageGroupId can only include alphanumeric and punctuation characters. \
                 1 to 128 in length.",
            )),
            _ => Ok(()),
        }
    }

    fn push(self, queue: &mut Queue, now: i64) -> (String, String) {
        let (id, md5) = (random_id(), md5_of(&self.message_body));
        let delay = self
            .delay_seconds
            .unwrap_or_else(|| queue.number("DelaySeconds"));
        let message = Message {
            id: id.clone(),
            body: self.message_body,
            attributes: self.message_attributes,
            group: self.message_group_id,
            sent_ms: now,
            ..Message::default()
        };
        queue.push(message, delay, now);
        (id, md5)
    }
}

fn legal_in_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

pub(super) fn md5_of(body: &str) -> String {
    hex::encode(Md5::digest(body.as_bytes()))
}

fn limit_of(queue: &Queue) -> usize {
    usize::try_from(queue.number("MaximumMessageSize")).unwrap_or(MAX_BYTES)
}

pub(super) fn send(sqs: &Sqs, request: Sending, now: i64) -> Answer {
    let mut queues = sqs.queues();
    let queue = find(&mut queues, &request.queue_url)?;
    request.check(limit_of(queue))?;
    let (id, md5) = request.push(queue, now);
    drop(queues);
    sqs.rang.notify_waiters();
    Ok(json!({ "MessageId": id, "MD5OfMessageBody": md5 }))
}

pub(super) fn send_batch(sqs: &Sqs, request: Batch<Sending>, now: i64) -> Answer {
    let mut queues = sqs.queues();
    let queue = find(&mut queues, &request.queue_url)?;
    batch::check(request.entries.iter().map(|entry| entry.id.as_str()))?;
    let total: usize = request.entries.iter().map(Sending::size).sum();
    if total > MAX_BYTES {
        return Err(Refusal::new(
            "AWS.SimpleQueueService.BatchRequestTooLong",
            format!(
                "Batch requests cannot be longer than {MAX_BYTES} bytes. You have sent {total} bytes."
            ),
        ));
    }
    let mut results = Results::default();
    for entry in request.entries {
        let id = entry.id.clone();
        let result = entry.check(limit_of(queue)).map(|()| {
            let (message_id, md5) = entry.push(queue, now);
            json!({ "MessageId": message_id, "MD5OfMessageBody": md5 })
        });
        results.add(&id, result);
    }
    drop(queues);
    sqs.rang.notify_waiters();
    Ok(results.answer())
}
