//! The Runtime API of one process. Through it, the process requests the next event and posts the
//! result.

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

/// An invocation for a process.
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

/// A server that runs until this value is dropped.
pub(super) struct Server {
    /// The value of `AWS_LAMBDA_RUNTIME_API`, in the form `host:port`.
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
        // This is more than the payload limit, so that the handler can report a response that is
        // too large.
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
    // This drops the sender of an event without a response, so the invocation of that event fails.
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
    /// Forwards the response if `id` is the current invocation.
    fn settle(&self, id: &str, answer: Answer) -> Response {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, waiting)) = current.take_if(|(current, _)| current == id) else {
            let body =
                json!({ "errorType": "InvalidRequestID", "errorMessage": "Invalid request ID" });
            return (StatusCode::BAD_REQUEST, body.to_string()).into_response();
        };
        // After a timeout, no caller waits for the response.
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
