//! A reconciliation with a list that is in no preset.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use serde_json::{Value, json};

use super::provider::API_KEY;
use super::world::{World, serve};

const PAGE: &str = include_str!("../../../../docs/sync/reconcile.md");

/// The orders of a provider. A page has two of them.
#[derive(Clone, Default)]
struct Orders(Arc<Mutex<Vec<Value>>>);

impl Orders {
    fn put(&self, id: &str, status: &str) {
        let order = json!({"id": id, "status": status, "created_at": "2026-01-01T00:00:00Z"});
        self.0.lock().unwrap().push(order);
    }

    fn router(&self) -> Router {
        Router::new()
            .route("/v1/orders", get(list))
            .route("/v1/orders/{id}", get(one))
            .with_state(self.clone())
    }
}

fn knows(headers: &HeaderMap) -> bool {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{API_KEY}:X"));
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|given| given == value);
    is("x-api-key", API_KEY) || is("authorization", &format!("Basic {pair}"))
}

#[derive(serde::Deserialize)]
struct Params {
    cursor: Option<usize>,
    host: Option<String>,
}

async fn list(
    State(orders): State<Orders>,
    headers: HeaderMap,
    Query(params): Query<Params>,
) -> Response {
    if !knows(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let orders = orders.0.lock().unwrap();
    let from = params.cursor.unwrap_or(0);
    let end = (from + 2).min(orders.len());
    let next = (end < orders.len()).then(|| end.to_string());
    let host = params.host.unwrap_or_default();
    let url = next
        .as_ref()
        .map(|next| format!("{host}/v1/orders?cursor={next}"));
    json!({"data": orders[from..end], "next_cursor": next, "links": {"next": url}})
        .to_string()
        .into_response()
}

async fn one(State(orders): State<Orders>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if !knows(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let orders = orders.0.lock().unwrap();
    match orders.iter().find(|order| order["id"] == json!(id)) {
        Some(order) => {
            let mut answer = order.clone();
            answer["data"] = order.clone();
            answer.to_string().into_response()
        }
        None => StatusCode::GONE.into_response(),
    }
}

/// Returns the comparison as in the documentation, with the address of the test's provider.
fn documented(base: &str) -> String {
    let (_, after) = PAGE.split_once("## A list of your own").unwrap();
    let (_, after) = after.split_once("```toml\n").unwrap();
    let (lines, _) = after.split_once("```").unwrap();
    lines
        .replace("https://api.acme.example", base)
        .replace("app-orders", "app-subscriptions")
        .replace("\"order_id\"", "\"stripe_id\"")
}

/// Five orders: one differs, one is missing here, and one is gone there.
async fn compared(reconcile: impl Fn(&str) -> String) -> (World, Result<Vec<Value>, String>) {
    let orders = Orders::default();
    for id in ["o1", "o2", "o3", "o4", "o5"] {
        orders.put(id, "paid");
    }
    let base = serve(orders.router());
    let world = World::start(&reconcile(&base)).await;
    for (id, status) in [
        ("o1", "paid"),
        ("o2", "open"),
        ("o3", "paid"),
        ("o5", "paid"),
        ("o9", "paid"),
    ] {
        world.ours(&format!("ORDER#{id}"), id, status, "pro").await;
    }
    let reports = world.run("stripe-main").await;
    (world, reports)
}

fn drift(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let drift = report["drift"].as_array().unwrap().iter();
    drift
        .map(|one| (text(&one["object"]), text(&one["kind"])))
        .collect()
}

fn expected() -> Vec<(String, String)> {
    [("o2", "different"), ("o4", "missing"), ("o9", "gone")]
        .map(|(id, kind)| (id.to_owned(), kind.to_owned()))
        .to_vec()
}

#[tokio::test]
async fn the_documented_list_is_read_to_its_end() {
    let (world, reports) = compared(documented).await;
    let reports = reports.unwrap();
    assert_eq!(reports[0]["name"], "orders");
    assert_eq!(drift(&reports[0]), expected());
    world.end().await;
}

#[tokio::test]
async fn a_list_can_name_the_url_of_its_next_page() {
    let (world, reports) = compared(|base| by_url(base, "")).await;
    assert_eq!(drift(&reports.unwrap()[0]), expected());
    world.end().await;
}

#[tokio::test]
async fn a_list_cannot_send_the_key_to_another_host() {
    let (world, reports) = compared(|base| by_url(base, "?host=http://localhost:9")).await;
    let error = reports.unwrap_err();
    assert!(error.contains("another origin"), "{error}");
    world.end().await;
}

/// Returns a comparison whose list has Basic authentication and the URL of the next page.
fn by_url(base: &str, query: &str) -> String {
    documented(base)
        .replace(
            "auth = { kind = \"header\", name = \"x-api-key\" }",
            "auth = { kind = \"basic\", user = \"{secret}\", password = \"X\" }\none_at = \"data\"",
        )
        .replace("/v1/orders\"\n", &format!("/v1/orders{query}\"\n"))
        .replace(
            "page = { style = \"cursor\", param = \"cursor\", next = \"next_cursor\" }",
            "page = { style = \"next-url\", next = \"links.next\" }",
        )
}
