//! Sends the event to an SQS queue: the exact body as the message, and the rest as attributes.
//!
//! A FIFO queue drops a second message with the same key within five minutes, and delivers a later
//! one. A standard queue delivers every message. The receiver must therefore skip an
//! `Idempotency-Key` attribute that it has processed.

use aws_sdk_sqs::types::MessageAttributeValue;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};
use shared::base::json_path::JsonPath;
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;
use shared::sources::is_fifo;

use super::Work;

/// The maximum size of body and attributes together, in bytes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const LARGEST: usize = 1024 * 1024;

/// The maximum number of message attributes. They are used up if the body is encoded and the event
/// has an account. The message then has no `traceparent`.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>
const MOST_ATTRIBUTES: usize = 10;

pub(super) async fn send(
    work: &Work<'_>,
    name: &str,
    url: &str,
    group: Option<&JsonPath>,
) -> Outcome {
    work.effects
        .keyed(name, async |key: &str| {
            let (body, encoding) = body(work.body);
            let mut attributes = attributes(work, key, encoding);
            if attributes.len() < MOST_ATTRIBUTES {
                attributes.push(("traceparent", work.effects.traceparent(key)));
            }
            let size = attributes.iter().fold(body.len(), |sum, (name, value)| {
                sum + name.len() + "String".len() + value.len()
            });
            if size > LARGEST || body.is_empty() {
                return Effect::NotApplied(Outcome::permanent(format!(
                    "the message has {size} bytes; SQS accepts 1 to {LARGEST}"
                )));
            }
            let mut request = work.clients.sqs().send_message().queue_url(url);
            for (name, value) in attributes {
                let value = MessageAttributeValue::builder()
                    .data_type("String")
                    .string_value(value)
                    .build();
                match value {
                    Ok(value) => request = request.message_attributes(name, value),
                    Err(error) => return Effect::NotApplied(Outcome::permanent(error.to_string())),
                }
            }
            if is_fifo(url) {
                let group = group.and_then(|path| path.scalar(work.body).ok().flatten());
                let group = group.unwrap_or_else(|| work.row.key.source().to_owned());
                request = request
                    .message_group_id(group_id(group))
                    .message_deduplication_id(key);
            }
            match request.message_body(body).send().await {
                Ok(answer) => {
                    work.health.note(CallResult::Success);
                    Effect::Done {
                        note: answer.message_id().unwrap_or_default().to_owned(),
                    }
                }
                Err(error) => work.refusal("SQS", &error),
            }
        })
        .await
}

/// Returns the body as the text of a message. Also returns the encoding, if SQS does not accept the
/// body as it is.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
fn body(body: &[u8]) -> (String, Option<&'static str>) {
    let fits = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    match std::str::from_utf8(body) {
        Ok(text) if text.chars().all(fits) => (text.to_owned(), None),
        _ => (STANDARD.encode(body), Some("base64")),
    }
}

fn attributes(work: &Work<'_>, key: &str, encoding: Option<&str>) -> Vec<(&'static str, String)> {
    let row = work.row;
    let all = [
        ("Idempotency-Key", key.to_owned()),
        ("Mitt-Event-Id", row.id().to_string()),
        ("Mitt-Event-Type", row.kind.clone()),
        ("Mitt-Source", row.key.source().to_owned()),
        ("Mitt-Attempt", row.attempts.to_string()),
        ("Mitt-Received-At", row.received_at.rfc3339()),
        ("Mitt-Proven", row.proven.to_string()),
        ("Content-Type", row.content_type.clone().unwrap_or_default()),
        ("Content-Encoding", encoding.unwrap_or_default().to_owned()),
        // There are few attributes, so the name says whether the signature covers the account.
        match &row.account {
            Some(account) if account.is_signed => ("Mitt-Account", account.value.clone()),
            account => (
                "Mitt-Account-Unsigned",
                account
                    .as_ref()
                    .map(|account| account.value.clone())
                    .unwrap_or_default(),
            ),
        },
    ];
    // SQS rejects an attribute that is empty or contains control characters.
    let fits = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
    all.into_iter().filter(|(_, value)| fits(value)).collect()
}

/// Returns a value of the body as the id of a message group. Returns its hash if SQS does not
/// accept the value as an id.
fn group_id(value: String) -> String {
    let fits = (1..=128).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic());
    if fits {
        return value;
    }
    hex::encode(Sha256::digest(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_for_sqs_is_encoded() {
        assert_eq!(body(b"{\"a\":\"\xc3\xa9\"}\n").1, None);
        for bytes in [&b"\xff"[..], b"\0", b"a\x1b", "\u{ffff}".as_bytes()] {
            let (text, encoding) = body(bytes);
            assert_eq!(encoding, Some("base64"));
            assert_eq!(STANDARD.decode(text).unwrap(), bytes);
        }
    }

    #[test]
    fn any_value_makes_a_group() {
        assert_eq!(group_id("cus_1".into()), "cus_1");
        for strange in ["", "a b", "ä", &"x".repeat(129)] {
            let id = group_id(strange.into());
            assert_eq!(id.len(), 64, "{strange}");
            assert_eq!(id, group_id(strange.into()));
        }
    }
}
