//! A proxy in front of one service of the local stack. It counts requests, and delays each answer
//! by the assumed latency of AWS.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::tally::{Call, Service, Tally};
use crate::http::{self, Message};
use crate::item::Item;

/// The count that all proxies of a stand share.
#[derive(Clone, Default)]
pub(super) struct Count {
    tally: Arc<Mutex<Tally>>,
    /// The items of every scan.
    items: Arc<Mutex<Vec<Item>>>,
}

impl Count {
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        locked(&self.tally)
    }

    /// Returns the count since the last call of this function.
    pub(super) fn take(&self) -> Tally {
        std::mem::take(&mut *self.tally()).closed()
    }

    pub(super) fn take_items(&self) -> Vec<Item> {
        std::mem::take(&mut locked(&self.items))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Proxy {
    pub(super) url: String,
    upstream: Arc<OnceLock<String>>,
}

impl Proxy {
    /// Starts the proxy. The address of the service is set later, when the service runs.
    pub(super) fn start(service: Service, takes: Duration, count: &Count) -> std::io::Result<Self> {
        let upstream = Arc::<OnceLock<String>>::default();
        let (count, behind) = (count.clone(), Arc::clone(&upstream));
        let address = http::serve(move |request| {
            let began = Instant::now();
            let request = match service {
                Service::Table => asking_for_capacity(request),
                _ => request.clone(),
            };
            let response = request.send(behind.get()?).ok()?;
            pause(began + takes);
            note(service, &count, &request, &response, began)?;
            Some(response)
        })?;
        let url = format!("http://{address}");
        Ok(Self { url, upstream })
    }

    pub(super) fn forward_to(&self, url: &str) {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        // A second call would set the same address.
        let _ = self.upstream.set(address.to_owned());
    }
}

/// Sleeps until the given time.
pub(super) fn pause(until: Instant) {
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
}

/// Counts a request. Returns `None` if the answer of a scan has unknown values.
fn note(
    service: Service,
    count: &Count,
    request: &Message,
    response: &Message,
    began: Instant,
) -> Option<()> {
    let operation = request
        .operation()
        .map_or(request.method(), |(_, name)| name);
    if operation == "Scan" {
        let page: Page = serde_json::from_slice(&response.body).ok()?;
        locked(&count.items).extend(page.items);
    }
    let call = Call {
        operation,
        request: &request.body,
        answer: &response.body,
        refused: (400..500).contains(&response.status()),
    };
    count.tally().call(service, &call, (began, Instant::now()));
    Some(())
}

/// The answer of a scan.
#[derive(Deserialize)]
struct Page {
    #[serde(rename = "Items")]
    items: Vec<Item>,
}

/// Adds a request for the consumed capacity to a request for DynamoDB.
fn asking_for_capacity(request: &Message) -> Message {
    let mut request = request.clone();
    if let Ok(Value::Object(mut body)) = serde_json::from_slice(&request.body) {
        body.insert("ReturnConsumedCapacity".to_owned(), "INDEXES".into());
        request.body = Value::Object(body).to_string().into();
    }
    request
}
