//! A proxy between the processor and a receiver. It records each request and its response, and can
//! change the body.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use bytes::Bytes;
use shared::aws::outbound::to_this_machine;

use super::WORD;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Pass,
    /// Changes one byte of the body.
    Change,
    /// Responds with 409, and does not call the receiver.
    Refuse,
}

/// A request, and the status of its response.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    headers: HeaderMap,
    pub(super) status: u16,
}

pub(super) struct Proxy {
    pub(super) url: String,
    inner: Arc<Inner>,
}

struct Inner {
    port: u16,
    mode: Mutex<Mode>,
    seen: Mutex<Vec<Seen>>,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Proxy {
    /// Starts a proxy for the receiver on this port.
    pub(super) async fn start(port: u16) -> Self {
        let inner = Arc::new(Inner {
            port,
            mode: Mutex::default(),
            seen: Mutex::default(),
        });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, inner }
    }

    pub(super) fn set(&self, mode: Mode) {
        *self.inner.mode.lock().unwrap() = mode;
    }

    /// Returns the requests after the first ones.
    pub(super) fn since(&self, first: usize) -> Vec<Seen> {
        self.inner.seen.lock().unwrap()[first..].to_vec()
    }
}

async fn pass(
    State(inner): State<Arc<Inner>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Bytes) {
    let mode = *inner.mode.lock().unwrap();
    let (status, answer) = match mode {
        Mode::Refuse => (409, Bytes::new()),
        Mode::Pass | Mode::Change => {
            forwarded(inner.port, &uri, headers.clone(), &body, mode).await
        }
    };
    inner.seen.lock().unwrap().push(Seen { headers, status });
    (StatusCode::from_u16(status).unwrap(), answer)
}

async fn forwarded(
    port: u16,
    uri: &Uri,
    headers: HeaderMap,
    body: &Bytes,
    mode: Mode,
) -> (u16, Bytes) {
    let body = match mode {
        Mode::Change => {
            let text = String::from_utf8(body.to_vec()).unwrap();
            assert!(text.contains(WORD));
            text.replace(WORD, "canarx").into()
        }
        _ => body.clone(),
    };
    let url = format!("http://127.0.0.1:{port}{uri}");
    let client = to_this_machine(&url, Duration::from_secs(15)).unwrap();
    let answer = client
        .post(&url)
        .headers(headers)
        .body(body)
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.bytes().await.unwrap())
}
