//! The HTTP API in front of the functions. It behaves like an HTTP API of API Gateway with payload
//! format 2.0.

mod answer;
mod caller;
mod event;
mod routes;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};

use super::{
    lambda::{Functions, MAX_PAYLOAD, Outcome},
    runtime,
    template::Route,
};
use routes::Routes;

/// The maximum size of a request body for an HTTP API, in bytes.
const MAX_BODY: usize = 10 * 1024 * 1024;

/// The server of the HTTP API and its port.
pub(crate) struct Front {
    pub(crate) port: u16,
    task: JoinHandle<()>,
}

impl Front {
    pub(crate) fn serve(
        engine: &Handle,
        port: u16,
        routes: &[Route],
        functions: Functions,
    ) -> anyhow::Result<Self> {
        let (listener, port) = runtime::listen(port)?;
        let state = Arc::new(Gate {
            routes: Routes::new(routes),
            functions,
            port,
        });
        Ok(Self {
            port,
            task: runtime::serve(
                engine,
                listener,
                Router::new().fallback(handle).with_state(state),
            )?,
        })
    }

    /// Stops accepting connections.
    pub(crate) fn close(&self) {
        self.task.abort();
    }
}

struct Gate {
    routes: Routes,
    functions: Functions,
    port: u16,
}

async fn handle(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Some(matched) = gate.routes.find(parts.method.as_str(), parts.uri.path()) else {
        return message(StatusCode::NOT_FOUND, "Not Found");
    };
    let Some(body) = read(&parts.headers, body).await else {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
    };
    let arrival = event::Arrival {
        parts: &parts,
        body: &body,
        peer,
        port: gate.port,
        now_ms: super::names::now_ms(),
        request_id: super::names::random_hex(8),
    };
    let payload = event::event(&arrival, &matched).to_string();
    if payload.len() > MAX_PAYLOAD {
        return message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
    }
    let invocation = gate
        .functions
        .invoke(&matched.route.function, payload.into());
    match timeout(matched.route.timeout, invocation).await {
        Err(_) => message(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable"),
        Ok(Err(error)) => {
            tracing::error!(error = format!("{error:#}"), "cannot invoke a function");
            message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
        }
        Ok(Ok(invocation)) => match invocation.outcome {
            Outcome::Answered(payload) => answer::response(&payload).unwrap_or_else(|| {
                message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
            }),
            Outcome::Failed(error) => {
                let function = &matched.route.function;
                tracing::warn!(%function, %error, "{function} failed");
                message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
            }
        },
    }
}

/// Reads the body. Returns `None` if it is too large. With `Content-Length`, checks the size before
/// it reads.
async fn read(headers: &axum::http::HeaderMap, body: Body) -> Option<bytes::Bytes> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|it| it.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > MAX_BODY) {
        return None;
    }
    axum::body::to_bytes(body, MAX_BODY).await.ok()
}

/// Returns a response of the gateway itself.
fn message(status: StatusCode, text: &str) -> Response {
    let body = serde_json::json!({ "message": text }).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
