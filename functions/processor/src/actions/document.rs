//! An event as one JSON document, for destinations without headers.
//!
//! `{"event": {"id", "key", "source", "type", …, "idempotencyKey"}, "request": …, "body": …,
//! "isBase64": false}`

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;
use shared::webhook::context::RequestContext;

use super::Work;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'w> {
    event: Metadata<'w>,
    /// `null` if the request is not stored, if Mitt fetched the event, or if it did not fit.
    request: Option<Request<'w>>,
    /// Present and true if the request did not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_omitted: Option<bool>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<Account<'w>>,
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
    run_id: String,
    /// The W3C `traceparent`: the trace of the event, and the effect as the parent.
    trace: String,
}

#[derive(Serialize)]
struct Account<'w> {
    value: &'w str,
    /// Whether the signature covers the value.
    signed: bool,
}

/// The request as the provider sent it.
#[derive(Serialize)]
struct Request<'w> {
    method: &'w str,
    path: &'w str,
    query: Option<&'w str>,
    /// The values of a repeated header are joined with commas.
    headers: BTreeMap<&'w str, String>,
}

impl<'w> From<&'w RequestContext> for Request<'w> {
    fn from(context: &'w RequestContext) -> Self {
        let mut headers: BTreeMap<&str, String> = BTreeMap::new();
        for (name, value) in context.headers.iter() {
            let joined = headers.entry(name).or_default();
            if !joined.is_empty() {
                joined.push(',');
            }
            joined.push_str(value);
        }
        Self {
            method: &context.method,
            path: &context.path,
            query: context.query.as_deref(),
            headers,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'w> {
    Json(&'w RawValue),
    Text(&'w str),
    Base64(String),
}

/// Returns the document with the body as text, exactly as received.
pub(super) fn with_text(
    work: &Work<'_>,
    key: &str,
    most: usize,
) -> Result<String, serde_json::Error> {
    fitting(work, key, most, || text(work))
}

/// Returns the document with a JSON body as JSON, so that rules and expressions can match on it.
pub(super) fn with_json(
    work: &Work<'_>,
    key: &str,
    most: usize,
) -> Result<String, serde_json::Error> {
    let body = || serde_json::from_slice(work.body).map_or_else(|_| text(work), Body::Json);
    fitting(work, key, most, body)
}

/// Leaves out the request if the document is longer than `most` bytes: a destination must not
/// reject an event because of its headers.
fn fitting<'w>(
    work: &Work<'w>,
    key: &str,
    most: usize,
    body: impl Fn() -> Body<'w>,
) -> Result<String, serde_json::Error> {
    let whole = document(work, key, body(), true)?;
    if whole.len() <= most || work.request.is_none() {
        return Ok(whole);
    }
    document(work, key, body(), false)
}

fn text<'w>(work: &Work<'w>) -> Body<'w> {
    std::str::from_utf8(work.body).map_or_else(|_| base64(work), Body::Text)
}

fn base64(work: &Work<'_>) -> Body<'static> {
    Body::Base64(STANDARD.encode(work.body))
}

fn document(
    work: &Work<'_>,
    key: &str,
    body: Body<'_>,
    with_request: bool,
) -> Result<String, serde_json::Error> {
    let row = work.row;
    let id = row.id();
    serde_json::to_string(&Document {
        event: Metadata {
            run_id: row.run_id(&id),
            id: id.to_string(),
            key: row.key.to_string(),
            source: row.key.source(),
            r#type: &row.kind,
            provider: &row.provider,
            account: row.account.as_ref().map(|account| Account {
                value: &account.value,
                signed: account.is_signed,
            }),
            received_at: row.received_at.rfc3339(),
            proven: row.proven.as_str(),
            content_type: row.content_type.as_deref(),
            entity: work.entity.map(|entity| entity.name.as_str()),
            entity_version: work.entity.and_then(|entity| entity.version.as_deref()),
            idempotency_key: key,
            attempt: row.attempts,
            run: row.run,
            trace: work.effects.traceparent(key),
        },
        request: work.request.filter(|_| with_request).map(Request::from),
        request_omitted: (!with_request).then_some(true),
        is_base64: matches!(body, Body::Base64(_)),
        body,
    })
}
