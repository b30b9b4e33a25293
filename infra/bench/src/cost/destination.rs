//! Plays the services outside AWS: a destination that accepts every event, and a provider whose
//! list is empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::proxy::{Count, pause};
use crate::http::{self, Message};

pub(super) struct Outside {
    pub(super) url: String,
    bytes: Arc<AtomicU64>,
}

impl Outside {
    pub(super) fn start(takes: Duration, count: &Count) -> std::io::Result<Self> {
        let bytes = Arc::<AtomicU64>::default();
        let (count, received) = (count.clone(), Arc::clone(&bytes));
        let address = http::serve(move |request| {
            let began = Instant::now();
            received.fetch_add(request.bytes().len() as u64, Ordering::Relaxed);
            pause(began + takes);
            count.tally().outside(began, Instant::now());
            let empty_list = r#"{"object":"list","data":[],"has_more":false}"#;
            let body = if request.method() == "GET" {
                empty_list
            } else {
                ""
            };
            Some(Message::response(200, body).with("content-type", "application/json"))
        })?;
        let url = format!("http://{address}");
        Ok(Self { url, bytes })
    }

    /// Returns the bytes received since the last call of this function.
    pub(super) fn take_bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }
}
