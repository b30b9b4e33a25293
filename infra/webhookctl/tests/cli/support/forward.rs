//! Forwards requests of the AWS SDK, for proxies that count or stop them.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use axum::body::Bytes;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse as _, Response};

/// Forwards the request with the headers that the emulators read.
pub(crate) async fn forward(
    http: &reqwest::Client,
    to: &str,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> Response {
    let mut request = http.post(format!("{to}{uri}")).body(body);
    for name in [
        "content-type",
        "x-amz-target",
        "authorization",
        "x-amz-date",
    ] {
        if let Some(value) = headers.get(name) {
            request = request.header(name, value);
        }
    }
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let kind = answer.headers().get("content-type").cloned();
    let body = answer.bytes().await.unwrap();
    let mut response = (status, body).into_response();
    if let Some(kind) = kind {
        response.headers_mut().insert("content-type", kind);
    }
    response
}
