//! The reads of the page: each is a command, and the response is its document.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Query;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse as _, Response};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::de::DeserializeOwned;

use super::guard::{MOST_BYTES, too_large};
use super::refusal::{Refusal, status};
use super::server::Console;
use crate::output::CliError;
use crate::reads::{Answer, Pairs, Question};

/// Returns the flags of a request.
pub(super) fn pairs(uri: &Uri) -> Result<Pairs, Refusal> {
    let pairs = Query::<Pairs>::try_from_uri(uri);
    let pairs = pairs.map_err(|_| CliError::usage("console.flag", "the flags cannot be read"))?;
    Ok(pairs.0)
}

/// Returns the JSON body of a request.
pub(super) async fn json<T: DeserializeOwned>(body: Body) -> Result<T, Refusal> {
    let body = axum::body::to_bytes(body, MOST_BYTES);
    let body = body.await.map_err(|_| too_large())?;
    let invalid = |_| CliError::usage("console.body", "the body of the request is not valid");
    Ok(serde_json::from_slice(&body).map_err(invalid)?)
}

pub(super) async fn read(
    console: &Arc<Console>,
    name: &str,
    pairs: &Pairs,
) -> Result<Response, Refusal> {
    let question = Question::new(name, pairs)?;
    let command = question.command(&console.reader.target());
    let (reader, reads) = (console.reader.clone(), Arc::clone(&console.reads));
    let answer = console.answers.once(command.clone(), async move {
        let _place = reads.acquire_owned().await;
        Arc::new(reader.ask(&question).await)
    });
    let answer = answer.await;
    Ok(respond(&answer, &command))
}

/// Returns the response with the document or the error of a command.
pub(super) fn respond(answer: &Answer, command: &str) -> Response {
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    let mut add = |name: &'static str, value: String| {
        if let Ok(value) = value.parse() {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    let encoded = utf8_percent_encode(command, NON_ALPHANUMERIC);
    add("x-command", encoded.to_string());
    add("x-exit", answer.exit.code().to_string());
    if let Some(cost) = answer.cost() {
        add("x-calls", cost.calls.to_string());
        add("x-read-units", cost.read_units.to_string());
    }
    let code = match &answer.error {
        Some(error) => status(error.exit),
        None => axum::http::StatusCode::OK,
    };
    (code, headers, Body::from(answer.body.clone())).into_response()
}

/// Returns the bytes of a body, with its tokens masked. Its type and its name are ours, so that a
/// browser never shows what a sender wrote.
pub(super) async fn body(console: &Arc<Console>, id: &str) -> Result<Response, Refusal> {
    let id = percent_decode_str(id).decode_utf8_lossy().into_owned();
    let question = Question::new("inbox.body", &vec![("id".to_owned(), id.clone())])?;
    let _place = console.reads.acquire().await;
    let answer = console.reader.run(question.line("table")).await;
    if let Some(error) = answer.error {
        return Err(error.into());
    }
    let is_ours = id.strip_prefix("evt_").is_some_and(|rest| {
        rest.len() <= 26 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let name = if is_ours { id.as_str() } else { "body" };
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}.bin\""),
        ),
    ];
    Ok((headers, answer.body).into_response())
}
