//! Decides which requests may reach the console. Every request passes [`check`] first.
//!
//! Any program and any web page on this machine can send a request to 127.0.0.1. A page of another
//! origin cannot choose `Host`, `Origin` and `Sec-Fetch-Site`, so these tell its requests apart.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};

use super::assets;
use super::refusal::Refusal;
use crate::output::CliError;

/// The maximum size of a request: its target, its headers or its body.
pub(super) const MOST_BYTES: usize = 64 * 1024;

/// Returns an error unless the request can come from our own page or from a program on this machine.
pub(super) fn check(request: &Parts, port: u16, peer: IpAddr) -> Result<(), Refusal> {
    let headers = &request.headers;
    if peer != IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return Err(Refusal::bare(StatusCode::FORBIDDEN));
    }
    // A page whose name was rebound to 127.0.0.1 is same-origin with us, but it sends its own name.
    let host = only(headers, &HOST);
    if request.uri.authority().is_some() || !host.is_some_and(|host| is_ours(host, port)) {
        return Err(Refusal::bare(StatusCode::MISDIRECTED_REQUEST));
    }
    if ![Method::GET, Method::POST].contains(&request.method) {
        return Err(Refusal::bare(StatusCode::METHOD_NOT_ALLOWED));
    }
    let is_post = request.method == Method::POST;
    let origin_is_ours = || {
        let origin = only(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        origin.is_some_and(|origin| is_ours(origin, port))
    };
    if (is_post || headers.contains_key(ORIGIN)) && !origin_is_ours() {
        return Err(Refusal::bare(StatusCode::FORBIDDEN));
    }
    // A link of another page may lead to the shell, because the shell contains no data. Other ports
    // of 127.0.0.1 are the same site, so `same-site` is not enough.
    let is_visit = request.uri.path() == "/" && is(headers, "sec-fetch-mode", &["navigate"]);
    let known_site = is(headers, "sec-fetch-site", &["same-origin", "none"]);
    if headers.contains_key("sec-fetch-site") && !known_site && (is_post || !is_visit) {
        return Err(Refusal::bare(StatusCode::FORBIDDEN));
    }
    if is_post && !is(headers, CONTENT_TYPE.as_str(), &["application/json"]) {
        return Err(Refusal::bare(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if request.uri.path().len() + request.uri.query().map_or(0, str::len) > MOST_BYTES
        || size(headers) > MOST_BYTES
    {
        return Err(too_large());
    }
    Ok(())
}

pub(super) fn too_large() -> Refusal {
    let message = "the request is larger than 64 KB";
    let error = CliError::usage("console.too_large", message);
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error)
}

/// Adds the headers of every response. `cache-control` stays if it is set.
pub(super) fn seal(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-embedder-policy"),
            "require-corp",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, assets::policy());
    let uncached = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(uncached);
}

/// Returns the token of a request with `Authorization: Bearer`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    only(headers, &header::AUTHORIZATION)?.strip_prefix("Bearer ")
}

fn is_ours(host: &str, port: u16) -> bool {
    ["127.0.0.1", "localhost"]
        .iter()
        .any(|name| host == format!("{name}:{port}"))
}

/// Returns the value of a header that occurs exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn is(headers: &HeaderMap, name: &'static str, values: &[&str]) -> bool {
    only(headers, &HeaderName::from_static(name)).is_some_and(|value| values.contains(&value))
}

fn size(headers: &HeaderMap) -> usize {
    let each = headers.iter();
    each.map(|(name, value)| name.as_str().len() + value.len())
        .sum()
}
