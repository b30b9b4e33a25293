//! The connection between the command and the services. A test can cut it after a number of
//! requests.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

use crate::support::forward::forward;

#[derive(Clone)]
pub(crate) struct Line {
    /// The number of requests to any service that still pass.
    left: Arc<AtomicI64>,
    /// Whether the last request is executed and only its answer is lost.
    carried_out: Arc<AtomicBool>,
    http: reqwest::Client,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            left: Arc::new(AtomicI64::new(i64::MAX)),
            carried_out: Arc::default(),
            http: shared::aws::outbound::unguarded(Duration::from_secs(30)).unwrap(),
        }
    }

    /// Returns the address of a service behind this proxy.
    pub(crate) fn to(&self, service: &str) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let router = Router::new()
            .fallback(pass)
            .with_state((self.clone(), service.trim_end_matches('/').to_owned()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    /// Cuts the connection after this number of requests. Later requests get no answer.
    pub(crate) fn cut_after(&self, requests: i64, carried_out: bool) {
        self.carried_out.store(carried_out, Ordering::SeqCst);
        self.left.store(requests, Ordering::SeqCst);
    }

    pub(crate) fn mend(&self) {
        self.left.store(i64::MAX, Ordering::SeqCst);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

async fn pass(
    State((line, to)): State<(Line, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let left = line.left.fetch_sub(1, Ordering::SeqCst);
    if left <= 0 && !(left == 0 && line.carried_out.load(Ordering::SeqCst)) {
        return std::future::pending().await;
    }
    let response = forward(&line.http, &to, &uri, &headers, body).await;
    if left == 0 {
        return std::future::pending().await;
    }
    response
}
