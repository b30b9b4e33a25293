//! Converts a function's result into an HTTP response.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Converts a result. Returns `None` if it is not a valid response. The gateway then returns its
/// own error.
pub(super) fn response(payload: &[u8]) -> Option<Response> {
    let answer: Value = serde_json::from_slice(payload).ok()?;
    let Some(status) = answer.get("statusCode") else {
        // The result has no status code, so the whole result is the body, as in API Gateway.
        let body = answer
            .as_str()
            .map_or_else(|| answer.to_string(), str::to_owned);
        return Response::builder()
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .ok();
    };
    let status = status.as_u64().or_else(|| status.as_str()?.parse().ok())?;
    let status = StatusCode::from_u16(u16::try_from(status).ok()?).ok()?;
    let mut response = Response::new(Body::from(body(&answer)?));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in answer
        .get("headers")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        headers.insert(name, HeaderValue::from_str(&text(value)?).ok()?);
    }
    for cookie in answer
        .get("cookies")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        headers.append(
            header::SET_COOKIE,
            HeaderValue::from_str(cookie.as_str()?).ok()?,
        );
    }
    // The gateway sets its own values for these headers.
    headers
        .entry(header::CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("text/plain;charset=UTF-8"));
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRANSFER_ENCODING);
    Some(response)
}

fn body(answer: &Value) -> Option<Vec<u8>> {
    let body = match answer.get("body") {
        None | Some(Value::Null) => return Some(Vec::new()),
        Some(body) => body.as_str()?,
    };
    match answer.get("isBase64Encoded") {
        Some(Value::Bool(true)) => STANDARD.decode(body).ok(),
        _ => Some(body.as_bytes().to_vec()),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn shown(answer: Value) -> Option<(u16, String, Vec<u8>)> {
        let response = response(answer.to_string().as_bytes())?;
        let (parts, body) = response.into_parts();
        let kind = parts.headers[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .to_owned();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Some((parts.status.as_u16(), kind, body.to_vec()))
    }

    #[tokio::test]
    async fn the_full_format_is_taken_at_its_word() {
        let answer = json!({
            "statusCode": 401,
            "headers": { "content-type": "image/png", "x-number": 3 },
            "cookies": ["a=1", "b=2"],
            "body": "/wD+",
            "isBase64Encoded": true,
        });
        let response = response(answer.to_string().as_bytes()).unwrap();
        assert_eq!(response.headers()["x-number"], "3");
        assert_eq!(response.headers().get_all("set-cookie").iter().count(), 2);
        assert_eq!(
            shown(answer).await.unwrap(),
            (401, "image/png".to_owned(), vec![0xff, 0x00, 0xfe])
        );
    }

    #[tokio::test]
    async fn without_a_status_the_answer_is_the_body() {
        let json_type = "application/json".to_owned();
        let inferred = shown(json!({ "a": 1 })).await.unwrap();
        assert_eq!(inferred, (200, json_type.clone(), b"{\"a\":1}".to_vec()));
        assert_eq!(
            shown(json!("hi")).await.unwrap(),
            (200, json_type, b"hi".to_vec())
        );
    }

    #[tokio::test]
    async fn nonsense_is_no_response() {
        for answer in [
            json!({ "statusCode": "x" }),
            json!({ "statusCode": 99 }),
            json!({ "statusCode": 200, "body": { "not": "text" } }),
            json!({ "statusCode": 200, "body": "%", "isBase64Encoded": true }),
            json!({ "statusCode": 200, "headers": { "bad name": "x" } }),
        ] {
            assert_eq!(shown(answer.clone()).await, None, "{answer}");
        }
        assert!(response(b"not json").is_none());
    }
}
