//! An emulation of Stripe's API: the lists of events and subscriptions, as documented.
//! <https://docs.stripe.com/api/events/list>
//! <https://docs.stripe.com/api/subscriptions/list>

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use serde_json::{Value, json};

/// The emulated provider, with its events and subscriptions.
#[derive(Clone)]
pub struct Provider(Arc<Inner>);

struct Inner {
    api_key: String,
    log: Mutex<Log>,
    /// The status of each subscription.
    subscriptions: Mutex<BTreeMap<String, String>>,
}

#[derive(Default)]
struct Log {
    /// The time of creation, the id and the JSON of each event, oldest first.
    events: Vec<(i64, String, Bytes)>,
    requests: u64,
    /// The failures by the number of the request. The first request has number 1.
    failures: HashMap<u64, Failure>,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Status 429 with `Retry-After: 1`.
    TooMany,
    ServerError,
    /// A truncated page.
    BadPage,
    /// Status 400: the event in `starting_after` is no longer known.
    NoSuchPage,
}

impl Provider {
    pub fn new(api_key: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            api_key: api_key.into(),
            log: Mutex::default(),
            subscriptions: Mutex::default(),
        }))
    }

    pub fn router(&self) -> Router {
        Router::new()
            .route("/v1/events", get(events))
            .route("/v1/subscriptions", get(subscriptions))
            .route("/v1/subscriptions/{id}", get(subscription))
            .with_state(self.clone())
    }

    /// Sets the status of a subscription.
    pub fn subscribe(&self, id: &str, status: &str) {
        let mut all = self.subscriptions();
        all.insert(id.to_owned(), status.to_owned());
    }

    fn subscriptions(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        let all = self.0.subscriptions.lock();
        all.unwrap_or_else(PoisonError::into_inner)
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let bearer = format!("Bearer {}", self.0.api_key);
        let given = headers.get(header::AUTHORIZATION);
        given.is_some_and(|value| value.as_bytes() == bearer.as_bytes())
    }

    /// Adds an event. Its JSON must have `id` and `created`.
    pub fn happen(&self, event: &Bytes) -> anyhow::Result<()> {
        let json: Value = serde_json::from_slice(event)?;
        let (Some(created), Some(id)) = (json["created"].as_i64(), json["id"].as_str()) else {
            anyhow::bail!("the JSON of a Stripe event must have id and created");
        };
        self.log()
            .events
            .push((created, id.to_owned(), event.clone()));
        Ok(())
    }

    /// Removes all events from the list.
    pub fn forget(&self) {
        self.log().events.clear();
    }

    /// Makes the next requests fail, one request for each of these failures.
    pub fn fail_with(&self, failures: &[Failure]) {
        let next = self.requests() + 1;
        self.fail_from_request(next, failures);
    }

    /// Makes the requests from this number on fail, one request for each of these failures.
    pub fn fail_from_request(&self, first: u64, failures: &[Failure]) {
        self.log()
            .failures
            .extend((first..).zip(failures.iter().copied()));
    }

    pub fn requests(&self) -> u64 {
        self.log().requests
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists the events, newest first. `created[gte]` is inclusive, and `starting_after` is the id of
/// the last event of the previous page.
async fn events(
    State(provider): State<Provider>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    if !provider.knows(&headers) {
        return (
            StatusCode::UNAUTHORIZED,
            r#"{"error":{"type":"invalid_request_error"}}"#,
        )
            .into_response();
    }
    let mut log = provider.log();
    log.requests += 1;
    let number = log.requests;
    let failure = log.failures.remove(&number);
    match failure {
        Some(Failure::TooMany) => {
            let wait = [(header::RETRY_AFTER, "1")];
            return (
                StatusCode::TOO_MANY_REQUESTS,
                wait,
                r#"{"error":{"code":"rate_limit"}}"#,
            )
                .into_response();
        }
        Some(Failure::ServerError) => return StatusCode::BAD_GATEWAY.into_response(),
        Some(Failure::NoSuchPage) => return StatusCode::BAD_REQUEST.into_response(),
        Some(Failure::BadPage) => return r#"{"object":"list","data":[{"id":"evt_"#.into_response(),
        None => {}
    }
    match log.page(&query) {
        Some(page) => ([(header::CONTENT_TYPE, "application/json")], page).into_response(),
        None => (
            StatusCode::BAD_REQUEST,
            r#"{"error":{"code":"resource_missing"}}"#,
        )
            .into_response(),
    }
}

impl Log {
    /// Returns the page that the query requests. `None` means that `starting_after` is an unknown
    /// event.
    fn page(&self, query: &HashMap<String, String>) -> Option<String> {
        let number = |name: &str| query.get(name).and_then(|n| n.parse::<i64>().ok());
        let limit = number("limit").unwrap_or(10).clamp(1, 100);
        let since = number("created[gte]").unwrap_or(0);
        let events = self.events.iter();
        let mut matching: Vec<_> = events.filter(|(created, ..)| *created >= since).collect();
        matching.reverse();
        if let Some(after) = query.get("starting_after") {
            let position = matching.iter().position(|(_, id, _)| id == after)?;
            matching.drain(..=position);
        }
        let limit = usize::try_from(limit).unwrap_or(100);
        let more = matching.len() > limit;
        let page = matching.into_iter().take(limit);
        let page = page.map(|(_, _, json)| String::from_utf8_lossy(json).into_owned());
        Some(format!(
            r#"{{"object":"list","url":"/v1/events","has_more":{more},"data":[{}]}}"#,
            page.collect::<Vec<_>>().join(",")
        ))
    }
}

/// Returns all subscriptions on one page.
async fn subscriptions(State(provider): State<Provider>, headers: HeaderMap) -> Response {
    if !provider.knows(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let all = provider.subscriptions();
    let data = all.iter().map(|(id, status)| object(id, status));
    let data: Vec<Value> = data.collect();
    Json(json!({"object": "list", "url": "/v1/subscriptions", "has_more": false, "data": data}))
        .into_response()
}

async fn subscription(
    State(provider): State<Provider>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    if !provider.knows(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    match provider.subscriptions().get(&id) {
        Some(status) => Json(object(&id, status)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn object(id: &str, status: &str) -> Value {
    json!({"id": id, "object": "subscription", "created": 1_700_000_000, "status": status})
}
