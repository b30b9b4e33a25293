//! The destination of the events. It counts the calls by key, and answers as configured.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

/// A status that means that the destination sends no answer.
pub(crate) const NEVER: u16 = 0;

#[derive(Clone)]
pub(crate) struct Downstream {
    pub(crate) url: String,
    told: Arc<Told>,
}

struct Told {
    /// The number of requests for each idempotency key.
    keys: Mutex<BTreeMap<String, usize>>,
    status: AtomicU16,
    /// The number of successful requests until the configured status applies.
    well: AtomicUsize,
}

impl Downstream {
    pub(crate) async fn start() -> Self {
        let told = Arc::new(Told {
            keys: Mutex::default(),
            status: AtomicU16::new(200),
            well: AtomicUsize::new(0),
        });
        let router = Router::new().fallback(take).with_state(Arc::clone(&told));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await });
        Self { url, told }
    }

    /// Sets the status of the following answers.
    pub(crate) fn answers(&self, status: u16) {
        self.answers_after(0, status);
    }

    /// Makes the destination accept requests and send no answer from now on.
    pub(crate) fn answers_never(&self) {
        self.answers(NEVER);
    }

    /// Sets the status of the answers that follow after this number of successful requests.
    pub(crate) fn answers_after(&self, well: usize, status: u16) {
        self.told.well.store(well, Ordering::SeqCst);
        self.told.status.store(status, Ordering::SeqCst);
    }

    /// Returns the number of keys and the number of requests.
    pub(crate) fn heard(&self) -> (usize, usize) {
        let keys = self.told.keys.lock().unwrap();
        (keys.len(), keys.values().sum())
    }
}

async fn take(State(told): State<Arc<Told>>, headers: HeaderMap) -> StatusCode {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    *told.keys.lock().unwrap().entry(key).or_default() += 1;
    let one_less = |well: usize| well.checked_sub(1);
    let well = told
        .well
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    if well.is_ok() {
        return StatusCode::OK;
    }
    match told.status.load(Ordering::SeqCst) {
        NEVER => std::future::pending().await,
        status => StatusCode::from_u16(status).unwrap(),
    }
}
