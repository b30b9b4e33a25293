//! Emulates SQS: standard queues in memory, with the SDK's protocol (AWS JSON 1.0).
//!
//! The sweep reads the number of visible messages before it sends. The embeddable emulator that was
//! evaluated does not count messages that became visible again after a failed attempt, so this
//! module implements the queues itself. It rejects FIFO queues. All messages are lost when the
//! process ends. The sweep sends them again.

mod actions;
mod batch;
mod messages;
mod moves;
mod queue;
mod refusal;
mod send;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::{runtime::Handle, sync::Notify};

use super::{
    names::{ACCOUNT, now_ms},
    runtime::{listen, serve as serve_router},
};
use queue::Queue;
use refusal::Refusal;

/// Serves SQS, without any queue at first, and returns its URL.
pub(crate) fn serve(engine: &Handle) -> anyhow::Result<String> {
    let (listener, port) = listen(0)?;
    let url = format!("http://127.0.0.1:{port}");
    let service = Arc::new(Sqs {
        url: url.clone(),
        queues: Mutex::default(),
        moves: Mutex::default(),
        rang: Notify::new(),
    });
    let router = Router::new().fallback(answer).with_state(service);
    serve_router(engine, listener, router)?;
    Ok(url)
}

struct Sqs {
    url: String,
    queues: Mutex<BTreeMap<String, Queue>>,
    moves: Mutex<Vec<Value>>,
    /// A signal that wakes the long polls when a message is available.
    rang: Notify,
}

impl Sqs {
    fn queues(&self) -> MutexGuard<'_, BTreeMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn url_of(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.url)
    }
}

async fn answer(State(sqs): State<Arc<Sqs>>, headers: HeaderMap, body: Bytes) -> Response {
    let action = headers
        .get("x-amz-target")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("AmazonSQS."))
        .unwrap_or_default();
    let result = match serde_json::from_slice::<Value>(&body) {
        Err(_) => Err(Refusal::new(
            "SerializationException",
            "The body is not JSON.",
        )),
        Ok(input) if action == "ReceiveMessage" => receive(&sqs, input).await,
        Ok(input) => actions::act(&sqs, action, input, now_ms()),
    };
    match result {
        Ok(output) => json(StatusCode::OK, &output),
        Err(refusal) => {
            let mut response = json(StatusCode::BAD_REQUEST, &refusal.body());
            if let Ok(code) = HeaderValue::from_str(&refusal.query_error()) {
                response.headers_mut().insert("x-amzn-query-error", code);
            }
            response
        }
    }
}

fn json(status: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/x-amz-json-1.0")];
    (status, kind, body.to_string()).into_response()
}

/// Receives available messages. If there are none, waits up to `WaitTimeSeconds` for the first one.
async fn receive(sqs: &Sqs, input: Value) -> Result<Value, Refusal> {
    let request = messages::receive_request(sqs, input)?;
    let deadline = tokio::time::Instant::now() + request.wait;
    loop {
        // Subscribe before receiving. Otherwise, a message sent in between would not end the wait.
        let rang = sqs.rang.notified();
        let (messages, next_visible) = messages::receive(sqs, &request, now_ms())?;
        if !messages.is_empty() {
            return Ok(serde_json::json!({ "Messages": messages }));
        }
        if tokio::time::Instant::now() >= deadline {
            return Ok(serde_json::json!({}));
        }
        let until_visible = next_visible.map_or(Duration::MAX, |at| {
            Duration::from_millis(u64::try_from(at - now_ms()).unwrap_or(0) + 1)
        });
        let wait = until_visible.min(deadline - tokio::time::Instant::now());
        tokio::select! {
            () = rang => (),
            () = tokio::time::sleep(wait) => (),
        }
    }
}
