//! An emulation of the user's own services. It checks signatures, honours idempotency keys, and can
//! emulate failures.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::webhook::envelope::{Envelope, Headers};
use shared::webhook::preset::Preset;
use shared::webhook::verify::{Trust, Verifier};
use tokio::sync::oneshot;

use super::trouble::Trouble;

/// The number of requests and effects for one idempotency key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The number of requests, including failed ones.
    pub requests: u32,
    /// The number of effects, at most one for each key.
    pub effects: u32,
    /// The short id of the event, from the request.
    pub event: String,
}

/// The downstream and its records, which tests can query.
#[derive(Clone)]
pub struct Downstream(Arc<Inner>);

struct Inner {
    secret: Secret,
    /// The token that a client needs to read the subscriptions.
    token: Secret,
    seen: Mutex<HashMap<String, Seen>>,
    /// The status of each subscription, as the downstream knows it.
    subscriptions: Mutex<BTreeMap<String, String>>,
    trouble: Mutex<Option<Trouble>>,
}

impl Downstream {
    /// Creates the downstream. Mitt signs its requests with `secret`, and sends `token` when it
    /// reads the subscriptions.
    pub fn new(secret: Secret, token: Secret) -> Self {
        Self(Arc::new(Inner {
            secret,
            token,
            seen: Mutex::default(),
            subscriptions: Mutex::default(),
            trouble: Mutex::default(),
        }))
    }

    pub fn router(&self) -> Router {
        Router::new()
            .route("/good", post(good))
            .route("/flaky-on-push", post(flaky))
            .route("/poison", post(poison))
            .route("/issues", post(issues))
            .route("/subscriptions", get(subscriptions))
            .layer(DefaultBodyLimit::disable())
            .with_state(self.clone())
    }

    /// Sets or clears the fault.
    pub fn suffer(&self, trouble: Option<Trouble>) {
        *self.trouble() = trouble;
    }

    /// Stores the status of a subscription.
    pub fn keep(&self, id: &str, status: &str) {
        self.subscriptions()
            .insert(id.to_owned(), status.to_owned());
    }

    /// Applies the status of a subscription from a repair event.
    fn mend(&self, body: &Bytes) {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let status = &body["fields"][0]["there"][0];
        if let (true, Some(id), Some(status)) = (
            body["type"] == "mitt.reconcile.different",
            body["object"].as_str(),
            status.as_str(),
        ) {
            self.keep(id, status);
        }
    }

    fn subscriptions(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        let all = self.0.subscriptions.lock();
        all.unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Trouble>> {
        let trouble = self.0.trouble.lock();
        trouble.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counts for an event, summed over all its keys.
    pub fn seen(&self, event: &str) -> Seen {
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.values()
            .filter(|seen| seen.event == event)
            .fold(Seen::default(), |sum, one| Seen {
                requests: sum.requests + one.requests,
                effects: sum.effects + one.effects,
                event: event.to_owned(),
            })
    }

    /// Applies the effect for a key, subject to the current fault, and returns the status.
    async fn answer(&self, key: &str, event: &str, failures: u32) -> StatusCode {
        let is_out = match &mut *self.trouble() {
            Some(Trouble::Outage(outage)) => outage.meets(Instant::now()),
            _ => false,
        };
        let failures = if is_out { u32::MAX } else { failures };
        let (status, is_done_now) = self.take(key, event, failures);
        let trouble = self.trouble().clone().filter(|_| is_done_now);
        match trouble {
            Some(Trouble::Slow(time)) => tokio::time::sleep(time).await,
            Some(Trouble::Crash(tell)) => {
                let (dead, wait) = oneshot::channel();
                if tell.send(dead).is_ok() {
                    // The processor has stopped, so the answer has no receiver.
                    let _ = wait.await;
                }
            }
            Some(Trouble::Outage(_)) | None => {}
        }
        status
    }

    /// Applies the effect for a key once, after `failures` failed requests. Returns the status, and
    /// whether this request applied the effect.
    fn take(&self, key: &str, event: &str, failures: u32) -> (StatusCode, bool) {
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let one = seen.entry(key.to_owned()).or_default();
        one.requests += 1;
        event.clone_into(&mut one.event);
        if one.requests <= failures {
            return (StatusCode::BAD_GATEWAY, false);
        }
        let is_done_now = one.effects == 0;
        one.effects = 1;
        (StatusCode::OK, is_done_now)
    }

    /// Verifies a forwarded event as a receiver of Standard Webhooks does.
    fn is_genuine(&self, headers: &HeaderMap, body: &Bytes) -> bool {
        let Ok(preset) = Preset::embedded("standard-webhooks", &BTreeMap::new()) else {
            return false;
        };
        let verifier = Verifier {
            source: "mitt".into(),
            preset,
            variant: "default".into(),
            trust: Trust::default(),
            config: String::new(),
        };
        let headers: Headers = headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        let envelope = Envelope {
            method: "POST".into(),
            url: String::new(),
            headers,
            body: body.clone(),
            received_at: UnixMillis::now(),
        };
        verifier
            .verify(&envelope, std::slice::from_ref(&self.0.secret))
            .is_ok()
    }

    async fn forwarded(&self, headers: &HeaderMap, body: &Bytes, failures: u32) -> StatusCode {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        match (text("idempotency-key"), text("mitt-event-id")) {
            (Some(key), Some(event)) if self.is_genuine(headers, body) => {
                self.answer(key, event, failures).await
            }
            _ => StatusCode::UNAUTHORIZED,
        }
    }
}

async fn good(State(downstream): State<Downstream>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let status = downstream.forwarded(&headers, &body, 0).await;
    if status.is_success() {
        downstream.mend(&body);
    }
    status
}

/// Returns all subscriptions, or the subscription with the given `id`.
async fn subscriptions(
    State(downstream): State<Downstream>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let bearer = format!("Bearer {}", downstream.0.token.expose());
    let given = headers.get(AUTHORIZATION);
    if given.is_none_or(|value| value.as_bytes() != bearer.as_bytes()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let all = downstream.subscriptions();
    let wanted = query.get("id");
    let items = all
        .iter()
        .filter(|(id, _)| wanted.is_none_or(|wanted| wanted == *id));
    let items = items.map(|(id, status)| json!({ "id": id, "status": status }));
    let items: Vec<Value> = items.collect();
    Json(json!({ "items": items })).into_response()
}

async fn flaky(
    State(downstream): State<Downstream>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let push = headers
        .get("mitt-event-type")
        .is_some_and(|kind| kind == "push");
    let failures = if push { 2 } else { 0 };
    downstream.forwarded(&headers, &body, failures).await
}

async fn poison(
    State(downstream): State<Downstream>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    downstream.forwarded(&headers, &body, u32::MAX).await
}

/// Emulates an issue tracker. A request with a known key returns the existing issue.
async fn issues(
    State(downstream): State<Downstream>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let key = headers
        .get("idempotency-key")
        .and_then(|value| value.to_str().ok());
    let issue: Result<Value, _> = serde_json::from_slice(&body);
    match (key, issue) {
        (Some(key), Ok(issue)) if issue["title"].is_string() => {
            let event = issue["event"].as_str().unwrap_or_default();
            let status = downstream.answer(key, event, 0).await;
            (status, r#"{"number":4417}"#.to_owned())
        }
        _ => (StatusCode::BAD_REQUEST, String::new()),
    }
}
