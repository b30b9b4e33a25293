//! Code that SSM and Secrets Manager share: AWS's JSON protocol, and one file for all data of a
//! service.

use std::path::Path;

use anyhow::Context as _;
use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::state_dir::write_private;

/// The code and the message of an error.
pub(super) struct Refusal(pub(super) &'static str, pub(super) String);

pub(super) type Answer = Result<Value, Refusal>;

/// Responds to a call. The header `x-amz-target` contains `service`, a dot and the action.
pub(super) fn answer<R: DeserializeOwned>(
    service: &str,
    headers: &HeaderMap,
    body: &Bytes,
    act: impl FnOnce(&str, R) -> Answer,
) -> Response {
    let target = headers.get("x-amz-target").map(|value| value.to_str());
    let action = target
        .and_then(Result::ok)
        .and_then(|target| target.strip_prefix(service)?.strip_prefix('.'))
        .unwrap_or_default();
    let result = serde_json::from_slice(body)
        .map_err(|error| Refusal("SerializationException", error.to_string()))
        .and_then(|request| act(action, request));
    let (status, body) = match result {
        Ok(output) => (StatusCode::OK, output),
        Err(Refusal(code, message)) => (
            StatusCode::BAD_REQUEST,
            json!({ "__type": code, "message": message }),
        ),
    };
    let kind = [(header::CONTENT_TYPE, "application/x-amz-json-1.1")];
    (status, kind, body.to_string()).into_response()
}

/// Reads `file`, or returns the default if there is no file. Errors call the data `what`.
pub(super) fn read<T: DeserializeOwned + Default>(
    file: Option<&Path>,
    what: &str,
) -> anyhow::Result<T> {
    let Some(path) = file.filter(|path| path.exists()) else {
        return Ok(T::default());
    };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read the {what} in {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("parse the {what} in {}", path.display()))
}

/// Replaces the content of `file`. An error has the code `failed`.
pub(super) fn save<T: Serialize>(
    file: Option<&Path>,
    all: &T,
    failed: &'static str,
) -> Result<(), Refusal> {
    let Some(path) = file else {
        return Ok(());
    };
    let write = || -> std::io::Result<()> {
        let draft = path.with_extension("draft");
        write_private(&draft, &serde_json::to_vec_pretty(all)?)?;
        std::fs::rename(draft, path)
    };
    write().map_err(|error| Refusal(failed, error.to_string()))
}
