//! The responses of the catcher.

use shared::sources::Source;

use crate::http::Response;

const JSON: &str = "application/json";

/// Returns the response that the provider expects for an event that is durable.
pub(crate) fn acknowledged(source: &Source) -> Response {
    let ack = &source.verifier.preset.ack;
    Response::new(ack.ok, &ack.content_type, ack.body.as_str())
}

/// Returns the same response for every failed verification, so that a forger learns nothing from
/// it. A few providers expect another status than 401.
pub(crate) fn not_verified(source: &Source) -> Response {
    let status = source.verifier.preset.ack.bad_signature;
    Response::new(status, JSON, r#"{"error":"not verified"}"#)
}

/// Returns the response for a request that is neither accepted nor rejected, so that the sender
/// tries again.
pub(crate) fn try_again_later() -> Response {
    Response::new(503, JSON, r#"{"error":"try again"}"#).with("retry-after", "30")
}

pub(crate) fn unknown_source() -> Response {
    Response::new(404, JSON, r#"{"error":"unknown source"}"#)
}

pub(crate) fn method_not_allowed() -> Response {
    Response::new(405, JSON, r#"{"error":"use POST"}"#).with("allow", "POST")
}

pub(crate) fn bad_base64() -> Response {
    let body = r#"{"error":"the body is not valid base64"}"#;
    Response::new(400, JSON, body)
}

pub(crate) fn too_large(source: &Source) -> Response {
    let limit = source.max_body;
    let body = format!(r#"{{"error":"the body is larger than {limit} bytes"}}"#);
    Response::new(413, JSON, body)
}
