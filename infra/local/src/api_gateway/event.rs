//! Converts an HTTP request into an event of payload format 2.0.

use std::{collections::BTreeMap, net::SocketAddr};

use axum::http::{HeaderMap, header, request::Parts};
use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::caller::iam;
use super::routes::Match;
use crate::names::{ACCOUNT, random_hex};

/// A request that has been read.
pub(super) struct Arrival<'a> {
    pub(super) parts: &'a Parts,
    pub(super) body: &'a [u8],
    pub(super) peer: SocketAddr,
    pub(super) port: u16,
    pub(super) now_ms: i64,
    pub(super) request_id: String,
}

pub(super) fn event(arrival: &Arrival, matched: &Match) -> Value {
    let parts = arrival.parts;
    let (method, path) = (parts.method.as_str(), parts.uri.path());
    let query = parts.uri.query().unwrap_or_default();
    let text = |name| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let host = text(header::HOST).unwrap_or("localhost");
    let domain = host.rsplit_once(':').map_or(host, |(domain, _)| domain);
    let route = &matched.route.key;
    let mut event = json!({
        "version": "2.0",
        "routeKey": route,
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers(arrival),
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "local",
            "domainName": domain,
            "domainPrefix": domain.split('.').next(),
            "http": {
                "method": method,
                "path": path,
                "protocol": format!("{:?}", parts.version),
                "sourceIp": arrival.peer.ip().to_string(),
                "userAgent": text(header::USER_AGENT).unwrap_or_default(),
            },
            "requestId": arrival.request_id,
            "routeKey": route,
            "stage": "$default",
            "time": clf_time(arrival.now_ms),
            "timeEpoch": arrival.now_ms,
        },
        "isBase64Encoded": false,
    });
    add_caller(&mut event, matched, text(header::AUTHORIZATION));
    let cookies = cookies(&parts.headers);
    if !cookies.is_empty() {
        event["cookies"] = json!(cookies);
    }
    if !query.is_empty() {
        event["queryStringParameters"] = json!(query_parameters(query));
    }
    if !matched.parameters.is_empty() {
        event["pathParameters"] = json!(matched.parameters);
    }
    if !arrival.body.is_empty() {
        let textual = is_textual(text(header::CONTENT_TYPE));
        event["isBase64Encoded"] = json!(!textual);
        event["body"] = if textual {
            // AWS does not document what happens to text that is not UTF-8. This code assumes that
            // invalid bytes are replaced and lost.
            json!(String::from_utf8_lossy(arrival.body))
        } else {
            json!(STANDARD.encode(arrival.body))
        };
    }
    event
}

/// Adds the identity of the caller, if the route is for signed requests.
fn add_caller(event: &mut Value, matched: &Match, authorization: Option<&str>) {
    if matched.route.signed {
        event["requestContext"]["authorizer"] = json!({ "iam": iam(authorization) });
    }
}

/// Returns whether the event contains the body as text. It contains all other bodies in base64,
/// also those without a content type.
fn is_textual(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else {
        return false;
    };
    let essence = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    essence.starts_with("text/")
        || [
            "application/json",
            "application/javascript",
            "application/xml",
        ]
        .contains(&essence.as_str())
}

/// Returns the headers with lower-case names. Repeated headers are joined by commas. Cookies are
/// left out, and the gateway's own headers are added.
fn headers(arrival: &Arrival) -> Map<String, Value> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &arrival.parts.headers {
        if *name == header::COOKIE {
            continue;
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        joined
            .entry(name.as_str().to_owned())
            .and_modify(|all| {
                all.push(',');
                all.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    let ip = arrival.peer.ip().to_string();
    let chain = match joined.get("x-forwarded-for") {
        None => ip,
        Some(before) => format!("{before}, {ip}"),
    };
    let trace = format!("Root=1-{:08x}-{}", arrival.now_ms / 1000, random_hex(12));
    joined.insert("x-forwarded-for".into(), chain);
    joined.insert("x-forwarded-proto".into(), "http".into());
    joined.insert("x-forwarded-port".into(), arrival.port.to_string());
    joined.entry("x-amzn-trace-id".into()).or_insert(trace);
    joined
        .entry("content-length".into())
        .or_insert_with(|| arrival.body.len().to_string());
    joined
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

fn cookies(headers: &HeaderMap) -> Vec<String> {
    let lines = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    lines
        .flat_map(|line| line.split(';'))
        .map(|one| one.trim().to_owned())
        .collect()
}

fn query_parameters(query: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| {
        let spaces = text.replace('+', " ");
        percent_decode_str(&spaces).decode_utf8_lossy().into_owned()
    };
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value);
        joined
            .entry(decoded(name))
            .and_modify(|all| {
                all.push(',');
                all.push_str(&value);
            })
            .or_insert(value);
    }
    joined
}

/// Formats a time, for example as `12/Mar/2020:19:03:58 +0000`.
fn clf_time(now_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(now_ms)
        .map(|time| time.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;
    use crate::template::Route;

    fn event_of(request: Request<Vec<u8>>) -> Value {
        event_of_route(request, false)
    }

    fn event_of_route(request: Request<Vec<u8>>, signed: bool) -> Value {
        let (parts, body) = request.into_parts();
        let route = Route {
            key: "POST /in/{source}".to_owned(),
            function: "Catcher".to_owned(),
            timeout: std::time::Duration::from_secs(30),
            signed,
        };
        let parameters = BTreeMap::from([("source".to_owned(), "x".to_owned())]);
        let arrival = Arrival {
            parts: &parts,
            body: &body,
            peer: ([192, 0, 2, 7], 5).into(),
            port: 8300,
            now_ms: 1_583_348_638_390,
            request_id: "id=".to_owned(),
        };
        event(
            &arrival,
            &Match {
                route: &route,
                parameters,
            },
        )
    }

    #[test]
    fn twelve_content_types_are_text_or_base64_as_aws_has_it() {
        let cases = [
            (Some("application/json"), false),
            (Some("application/json; charset=utf-8"), false),
            (Some("Application/JSON"), false),
            (Some("text/plain"), false),
            (Some("text/xml;charset=iso-8859-1"), false),
            (Some("application/xml"), false),
            (Some("application/javascript"), false),
            (Some("application/x-www-form-urlencoded"), true),
            (Some("application/vnd.github+json"), true),
            (Some("application/octet-stream"), true),
            (Some("multipart/form-data; boundary=x"), true),
            (None, true),
        ];
        for (content_type, base64) in cases {
            let mut request = Request::post("/in/x");
            if let Some(content_type) = content_type {
                request = request.header("content-type", content_type);
            }
            let event = event_of(request.body(b"{\"a\":1}".to_vec()).unwrap());
            assert_eq!(event["isBase64Encoded"], base64, "{content_type:?}");
            let body = if base64 { "eyJhIjoxfQ==" } else { "{\"a\":1}" };
            assert_eq!(event["body"], body, "{content_type:?}");
        }
    }

    #[test]
    fn the_request_is_told_as_aws_tells_it() {
        let request = Request::post("/in/x?b=2&a=1&a=%26+c")
            .header("Host", "example.com:8300")
            .header("User-Agent", "agent/1")
            .header("X-Twice", "one")
            .header("X-Twice", "two")
            .header("Cookie", "a=1; b=2")
            .header("Content-Type", "text/plain")
            .header("X-Forwarded-For", "198.51.100.1")
            .body(b"hello \xff".to_vec())
            .unwrap();
        let event = event_of(request);
        assert_eq!(event["rawPath"], "/in/x");
        assert_eq!(event["rawQueryString"], "b=2&a=1&a=%26+c");
        assert_eq!(
            event["queryStringParameters"],
            json!({ "a": "1,& c", "b": "2" })
        );
        assert_eq!(event["pathParameters"], json!({ "source": "x" }));
        assert_eq!(event["cookies"], json!(["a=1", "b=2"]));
        assert_eq!(event["headers"]["x-twice"], "one,two");
        assert_eq!(
            event["headers"]["x-forwarded-for"],
            "198.51.100.1, 192.0.2.7"
        );
        assert_eq!(event["headers"].get("cookie"), None);
        assert_eq!(event["body"], "hello \u{fffd}");
        let context = &event["requestContext"];
        assert_eq!(context["domainName"], "example.com");
        assert_eq!(context["stage"], "$default");
        assert_eq!(context["timeEpoch"], 1_583_348_638_390_i64);
        assert_eq!(context["time"], "04/Mar/2020:19:03:58 +0000");
        assert_eq!(
            context["http"],
            json!({
                "method": "POST", "path": "/in/x", "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.7", "userAgent": "agent/1",
            })
        );
    }

    #[test]
    fn a_signed_route_names_the_caller_and_another_names_none() {
        let request = || Request::post("/in/x").body(Vec::new()).unwrap();
        let event = event_of_route(request(), true);
        let iam = &event["requestContext"]["authorizer"]["iam"];
        assert_eq!(
            iam["userArn"],
            "arn:aws:sts::000000000000:assumed-role/local-worker/local"
        );
        let event = event_of(request());
        assert_eq!(event["requestContext"].get("authorizer"), None);
    }

    #[test]
    fn without_a_body_there_is_none() {
        let event = event_of(Request::post("/in/x").body(Vec::new()).unwrap());
        assert_eq!(event.get("body"), None);
        assert_eq!(event["isBase64Encoded"], false);
    }
}
