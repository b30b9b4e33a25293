//! An event as one JSON document, for destinations without headers.
//!
//! `{"event": {"id", "key", "source", "type", …, "idempotencyKey"}, "body": …, "isBase64": false}`

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Work;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'w> {
    event: Metadata<'w>,
    body: Body<'w>,
    /// Whether the body is in Base64, because it is not valid UTF-8.
    is_base64: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'w> {
    id: String,
    key: String,
    source: &'w str,
    r#type: &'w str,
    provider: &'w str,
    received_at: String,
    /// What the signature proves: `body`, `fields`, `origin`, `token` or `nothing`.
    proven: &'static str,
    content_type: Option<&'w str>,
    /// The entity that the event is about, and its version, if the source orders its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<&'w str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity_version: Option<&'w str>,
    /// The idempotency key, the same in every attempt and every replay. A receiver skips a key that
    /// it has processed.
    idempotency_key: &'w str,
    attempt: u32,
    run: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'w> {
    Json(&'w RawValue),
    Text(&'w str),
    Base64(String),
}

/// Returns the document with the body as text, exactly as received.
pub(super) fn with_text(work: &Work<'_>, key: &str) -> Result<String, serde_json::Error> {
    let body = std::str::from_utf8(work.body).map_or_else(|_| base64(work), Body::Text);
    document(work, key, body)
}

/// Returns the document with a JSON body as JSON, so that rules and expressions can match on it.
pub(super) fn with_json(work: &Work<'_>, key: &str) -> Result<String, serde_json::Error> {
    match serde_json::from_slice(work.body) {
        Ok(body) => document(work, key, Body::Json(body)),
        Err(_) => with_text(work, key),
    }
}

fn base64(work: &Work<'_>) -> Body<'static> {
    Body::Base64(STANDARD.encode(work.body))
}

fn document(work: &Work<'_>, key: &str, body: Body<'_>) -> Result<String, serde_json::Error> {
    let row = work.row;
    serde_json::to_string(&Document {
        event: Metadata {
            id: row.id().to_string(),
            key: row.key.to_string(),
            source: row.key.source(),
            r#type: &row.kind,
            provider: &row.provider,
            received_at: row.received_at.rfc3339(),
            proven: row.proven.as_str(),
            content_type: row.content_type.as_deref(),
            entity: work.entity.map(|entity| entity.name.as_str()),
            entity_version: work.entity.and_then(|entity| entity.version.as_deref()),
            idempotency_key: key,
            attempt: row.attempts,
            run: row.run,
        },
        is_base64: matches!(body, Body::Base64(_)),
        body,
    })
}
