//! Emulates a provider with one old subscription and no webhook endpoint, and an application
//! without subscriptions.

use std::net::{Ipv4Addr, TcpListener};

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

pub(crate) fn serve() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let list = |data: Value| Json(json!({"object": "list", "data": data, "has_more": false}));
    let router = Router::new()
        .route(
            "/v1/subscriptions",
            get(async move || list(json!([subscription()]))),
        )
        .route("/v1/subscriptions/{id}", get(async || Json(subscription())))
        .route("/v1/events", get(async move || list(json!([]))))
        .route("/v1/webhook_endpoints", get(async move || list(json!([]))))
        .route(
            "/state",
            get(async || Json(json!({"items": [], "next": null}))),
        );
    // The task ends with the test's runtime.
    tokio::spawn(async { axum::serve(listener, router).await });
    url
}

fn subscription() -> Value {
    json!({"id": "sub_1", "object": "subscription", "created": 1_700_000_000, "status": "active"})
}
