//! The services outside AWS: a destination that accepts every event, and a provider whose list is
//! empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::IntoResponse as _;
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;

use super::proxy::Count;

#[derive(Clone)]
pub(super) struct Outside {
    pub(super) url: String,
    bytes: Arc<AtomicU64>,
}

struct Served {
    takes: Duration,
    count: Count,
    bytes: Arc<AtomicU64>,
}

impl Outside {
    pub(super) async fn start(takes: Duration, count: &Count) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let bytes = Arc::<AtomicU64>::default();
        let served = Served {
            takes,
            count: count.clone(),
            bytes: Arc::clone(&bytes),
        };
        let router = Router::new().fallback(take).with_state(Arc::new(served));
        // The task ends with the program.
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, bytes })
    }

    /// Bytes received since the last call.
    pub(super) fn take_bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }
}

async fn take(
    State(served): State<Arc<Served>>,
    request: Request,
) -> impl axum::response::IntoResponse {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .unwrap_or_default();
    let head: usize = parts
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum();
    let first = format!("{} {} HTTP/1.1\r\n\r\n", parts.method, parts.uri);
    let sent = u64::try_from(first.len() + head + body.len()).unwrap_or_default();
    served.bytes.fetch_add(sent, Ordering::Relaxed);
    tokio::time::sleep_until((began + served.takes).into()).await;
    served.count.tally().outside(began, Instant::now());
    if parts.method == Method::GET {
        Json(json!({"object": "list", "data": [], "has_more": false})).into_response()
    } else {
        ().into_response()
    }
}
