//! Emulates the subscriptions of four providers, according to their API documentation.
//! <https://docs.github.com/en/rest/repos/webhooks> <https://docs.stripe.com/api/webhook_endpoints>
//! <https://docs.gitlab.com/api/project_webhooks/>
//! <https://shopify.dev/docs/api/admin-graphql/latest/mutations/webhookSubscriptionCreate>

use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post, put};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::provider::API_KEY;

/// The providers' subscriptions to this inbox, and the recorded changes.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<Mutex<Inner>>);

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) github: Vec<Value>,
    pub(crate) stripe: Vec<Value>,
    pub(crate) gitlab: Vec<Value>,
    /// Each topic, and the URL that its subscription points to.
    pub(crate) shopify: Vec<(String, String)>,
    pub(crate) changes: Vec<String>,
}

impl Hooks {
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route("/repos/octo/hello/hooks", get(github))
            .route("/repos/octo/hello/hooks/{id}", patch(github_update))
            .route("/v1/webhook_endpoints", get(stripe))
            .route("/v1/webhook_endpoints/{id}", post(stripe_update))
            .route("/api/v4/projects/octo%2Fhello/hooks", get(gitlab))
            .route(
                "/api/v4/projects/octo%2Fhello/hooks/{id}",
                put(gitlab_update),
            )
            .route(
                "/api/v4/projects/octo%2Fhello/hooks/{id}/test/{trigger}",
                post(gitlab_test),
            )
            .route("/admin/api/2026-10/graphql.json", post(shopify))
            .with_state(self.clone())
    }
}

fn bearer(headers: &HeaderMap) {
    assert_eq!(headers["authorization"], format!("Bearer {API_KEY}"));
}

async fn github(State(hooks): State<Hooks>, headers: HeaderMap) -> Json<Value> {
    bearer(&headers);
    Json(json!(hooks.inner().github))
}

async fn github_update(
    State(hooks): State<Hooks>,
    Path(id): Path<u64>,
    headers: HeaderMap,
    Json(change): Json<Value>,
) -> Response {
    bearer(&headers);
    let known = |name: &String| ["active", "events"].contains(&name.as_str());
    assert!(change.as_object().unwrap().keys().all(known), "{change}");
    update(&mut hooks.inner(), "github", id, &change)
}

/// Changes a subscription. Attributes that are not in the request keep their values.
fn update(inner: &mut Inner, who: &str, id: u64, change: &Value) -> Response {
    inner.changes.push(format!("{who} {id} {change}"));
    let hooks = if who == "github" {
        &mut inner.github
    } else {
        &mut inner.gitlab
    };
    let Some(hook) = hooks.iter_mut().find(|hook| hook["id"] == id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    for (name, value) in change.as_object().unwrap() {
        hook[name] = value.clone();
    }
    Json(hook.clone()).into_response()
}

async fn stripe(State(hooks): State<Hooks>, headers: HeaderMap) -> Json<Value> {
    bearer(&headers);
    let data = &hooks.inner().stripe;
    Json(json!({"object": "list", "has_more": false, "data": data}))
}

async fn stripe_update(
    State(hooks): State<Hooks>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    bearer(&headers);
    assert_eq!(headers["content-type"], "application/x-www-form-urlencoded");
    let mut inner = hooks.inner();
    inner.changes.push(format!("stripe {id} {body}"));
    let Some(one) = inner.stripe.iter_mut().find(|one| one["id"] == json!(id)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if body == "disabled=false" {
        one["status"] = json!("enabled");
    } else {
        let events = body.split('&').map(|pair| {
            let event = pair.strip_prefix("enabled_events%5B%5D=").unwrap();
            let event = percent_encoding::percent_decode_str(event);
            event.decode_utf8().unwrap().into_owned()
        });
        one["enabled_events"] = json!(events.collect::<Vec<_>>());
    }
    Json(one.clone()).into_response()
}

async fn gitlab(State(hooks): State<Hooks>, headers: HeaderMap) -> Json<Value> {
    bearer(&headers);
    Json(json!(hooks.inner().gitlab))
}

/// Changes a hook. The request must have the URL.
async fn gitlab_update(
    State(hooks): State<Hooks>,
    Path(id): Path<u64>,
    headers: HeaderMap,
    Json(change): Json<Value>,
) -> Response {
    bearer(&headers);
    if !change["url"].is_string() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    update(&mut hooks.inner(), "gitlab", id, &change)
}

/// Answers the request to test a hook. The test succeeds, which enables the hook.
async fn gitlab_test(
    State(hooks): State<Hooks>,
    Path((id, trigger)): Path<(u64, String)>,
    headers: HeaderMap,
) -> Response {
    bearer(&headers);
    let mut inner = hooks.inner();
    inner.changes.push(format!("gitlab {id} {trigger}"));
    let Some(hook) = inner.gitlab.iter_mut().find(|hook| hook["id"] == id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    hook["alert_status"] = json!("executable");
    hook["disabled_until"] = Value::Null;
    (StatusCode::CREATED, Json(json!({"message": "201 Created"}))).into_response()
}

async fn shopify(State(hooks): State<Hooks>, headers: HeaderMap, body: Bytes) -> Json<Value> {
    assert_eq!(headers["x-shopify-access-token"], API_KEY);
    let question: Value = serde_json::from_slice(&body).unwrap();
    let mut inner = hooks.inner();
    let query = question["query"].as_str().unwrap();
    if query.starts_with("mutation") {
        let text = |at: &Value| at.as_str().unwrap().to_owned();
        let variables = &question["variables"];
        let (topic, uri) = (
            text(&variables["topic"]),
            text(&variables["webhookSubscription"]["uri"]),
        );
        inner.changes.push(format!("shopify {topic} {uri}"));
        inner.shopify.push((topic, uri));
        let made = json!({"webhookSubscription": {"id": "gid://shopify/WebhookSubscription/9"}, "userErrors": []});
        return Json(json!({"data": {"webhookSubscriptionCreate": made}}));
    }
    let nodes = inner.shopify.iter().map(|(topic, uri)| {
        json!({"id": format!("gid://shopify/WebhookSubscription/{topic}"), "topic": topic, "uri": uri})
    });
    let nodes: Vec<Value> = nodes.collect();
    let list = json!({"nodes": nodes, "pageInfo": {"hasNextPage": false}});
    Json(json!({"data": {"webhookSubscriptions": list}}))
}
