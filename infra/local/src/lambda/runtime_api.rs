//! The Runtime API of one process: it asks for the next event and reports what came of it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::json;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use super::{MAX_PAYLOAD, process::Phase};
use crate::runtime;

/// One invocation on its way to a process.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) request_id: String,
    pub(super) payload: Bytes,
    pub(super) deadline_ms: i64,
    pub(super) arn: String,
    pub(super) trace: String,
}

#[derive(Debug)]
pub(super) enum Answer {
    Response(Bytes),
    Error(Bytes),
}

type Queue = mpsc::Receiver<(Work, oneshot::Sender<Answer>)>;

/// Serves until it is dropped.
pub(super) struct Server {
    /// `host:port`, as `AWS_LAMBDA_RUNTIME_API` has it.
    pub(super) address: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Api {
    queue: tokio::sync::Mutex<Queue>,
    current: Mutex<Option<(String, oneshot::Sender<Answer>)>>,
    phase: watch::Sender<Phase>,
}

pub(super) fn serve(
    engine: &Handle,
    queue: Queue,
    phase: watch::Sender<Phase>,
) -> anyhow::Result<Server> {
    let (listener, port) = runtime::listen(0)?;
    let api = Arc::new(Api {
        queue: tokio::sync::Mutex::new(queue),
        current: Mutex::new(None),
        phase,
    });
    let router = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route(
            "/2018-06-01/runtime/invocation/{id}/response",
            post(response),
        )
        .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
        .route("/2018-06-01/runtime/init/error", post(init_error))
        // One more byte than allowed, to tell a large answer from one that is too large.
        .layer(DefaultBodyLimit::max(2 * MAX_PAYLOAD))
        .with_state(api);
    let address = SocketAddr::from(([127, 0, 0, 1], port)).to_string();
    Ok(Server {
        address,
        task: runtime::serve(engine, listener, router)?,
    })
}

async fn next(State(api): State<Arc<Api>>) -> Response {
    let mut queue = api.queue.lock().await;
    api.phase.send_if_modified(|phase| {
        let alive = !matches!(phase, Phase::Gone(_) | Phase::InitFailed(_));
        if alive {
            *phase = Phase::Idle;
        }
        alive
    });
    let Some((work, answer)) = queue.recv().await else {
        return StatusCode::GONE.into_response();
    };
    api.phase.send_replace(Phase::Busy);
    // An event that was never answered loses its sender here, and so fails.
    *api.current.lock().unwrap_or_else(PoisonError::into_inner) =
        Some((work.request_id.clone(), answer));
    let headers = [
        ("lambda-runtime-aws-request-id", work.request_id),
        ("lambda-runtime-deadline-ms", work.deadline_ms.to_string()),
        ("lambda-runtime-invoked-function-arn", work.arn),
        ("lambda-runtime-trace-id", work.trace),
    ];
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (headers, kind, work.payload).into_response()
}

impl Api {
    /// Passes the answer on, if this is the invocation that is under way.
    fn settle(&self, id: &str, answer: Answer) -> Response {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, waiting)) = current.take_if(|(current, _)| current == id) else {
            let body =
                json!({ "errorType": "InvalidRequestID", "errorMessage": "Invalid request ID" });
            return (StatusCode::BAD_REQUEST, body.to_string()).into_response();
        };
        // Nobody waits any more after a timeout.
        let _ = waiting.send(answer);
        (StatusCode::ACCEPTED, r#"{"status":"OK"}"#).into_response()
    }
}

async fn response(State(api): State<Arc<Api>>, Path(id): Path<String>, body: Bytes) -> Response {
    if body.len() > MAX_PAYLOAD {
        let error = json!({
            "errorType": "Function.ResponseSizeTooLarge",
            "errorMessage": format!("Response payload size exceeded maximum allowed payload size ({MAX_PAYLOAD} bytes)."),
        });
        let error = error.to_string();
        api.settle(&id, Answer::Error(error.clone().into()));
        return (StatusCode::PAYLOAD_TOO_LARGE, error).into_response();
    }
    api.settle(&id, Answer::Response(body))
}

async fn error(State(api): State<Arc<Api>>, Path(id): Path<String>, body: Bytes) -> Response {
    api.settle(&id, Answer::Error(body))
}

async fn init_error(State(api): State<Arc<Api>>, _headers: HeaderMap, body: Bytes) -> Response {
    api.phase.send_replace(Phase::InitFailed(body));
    (StatusCode::ACCEPTED, r#"{"status":"OK"}"#).into_response()
}
