//! An event as one JSON document, for destinations that take no headers.
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
    /// Whether the body is bytes that are no text.
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
    /// What is known of where it came from: `body`, `fields`, `origin`, `token` or `nothing`.
    proven: &'static str,
    content_type: Option<&'w str>,
    /// What it is about, and how new that is, where the source orders its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<&'w str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity_version: Option<&'w str>,
    /// The same in every attempt and every replay. What was done under it need not be done again.
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

/// With the body as text, exactly as it arrived.
pub(super) fn with_text(work: &Work<'_>, key: &str) -> Result<String, serde_json::Error> {
    let body = std::str::from_utf8(work.body).map_or_else(|_| base64(work), Body::Text);
    document(work, key, body)
}

/// With the body as JSON where it is JSON, so that rules and expressions can look into it.
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
