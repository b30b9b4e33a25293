//! Puts the event on an EventBridge bus: the [document](super::document) is its detail, with the
//! body as JSON, so that rules can match on it.
//!
//! EventBridge does not support idempotency keys, and delivers at least once. The detail contains
//! the key, and targets must skip a key that they have processed.

use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;

use super::{Work, aws, document};

/// The maximum size of source, type and detail together.
/// <https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html>
const LARGEST: usize = 1024 * 1024;

/// The maximum number of characters in a detail type.
const LONGEST_TYPE: usize = 128;

pub(super) async fn put(
    work: &Work<'_>,
    name: &str,
    bus: &str,
    source: &str,
    detail_type: Option<&str>,
) -> Outcome {
    let detail_type = detail_type.unwrap_or(match work.row.kind.as_str() {
        "" => "event",
        kind => kind,
    });
    let detail_type: String = detail_type.chars().take(LONGEST_TYPE).collect();
    work.effects
        .keyed(name, async |key: &str| {
            let most = LARGEST.saturating_sub(source.len() + detail_type.len());
            let detail = match document::with_json(work, key, most) {
                Ok(detail) => detail,
                Err(error) => return Effect::NotApplied(Outcome::permanent(error.to_string())),
            };
            let size = source.len() + detail_type.len() + detail.len();
            if size > LARGEST {
                return Effect::NotApplied(Outcome::permanent(format!(
                    "the entry has {size} bytes; EventBridge accepts at most {LARGEST}"
                )));
            }
            let entry = PutEventsRequestEntry::builder()
                .event_bus_name(bus)
                .source(source)
                .detail_type(detail_type)
                .detail(detail)
                .build();
            match work
                .clients
                .eventbridge()
                .put_events()
                .entries(entry)
                .send()
                .await
            {
                Ok(answer) if answer.failed_entry_count() == 0 => {
                    work.health.note(CallResult::Success);
                    let id = answer.entries().first().and_then(|entry| entry.event_id());
                    Effect::Done {
                        note: id.unwrap_or_default().to_owned(),
                    }
                }
                // EventBridge accepted the request but rejected the entry.
                Ok(answer) => {
                    let code = answer.entries().iter().find_map(|entry| entry.error_code());
                    let (effect, heard) = aws::refused(
                        "EventBridge",
                        400,
                        code.unwrap_or("an error without a code"),
                    );
                    work.health.note(heard);
                    effect
                }
                Err(error) => work.refusal("EventBridge", &error),
            }
        })
        .await
}
