//! A provider that rejects every request.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

/// A provider that repeats the content of a request in each part of its response.
pub(super) struct Provider {
    pub(super) base: String,
    said: Arc<Mutex<Said>>,
}

struct Said {
    base: String,
    status: StatusCode,
    /// Whether the provider returns an empty list of objects to any caller.
    lists: bool,
    heard: String,
}

impl Provider {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let said = Arc::new(Mutex::new(Said {
            base: base.clone(),
            status: StatusCode::UNAUTHORIZED,
            lists: false,
            heard: String::new(),
        }));
        let router = Router::new().fallback(refuse).with_state(said.clone());
        // The server ends when the runtime of the test ends.
        tokio::spawn(async { axum::serve(listener, router).await });
        Self { base, said }
    }

    pub(super) fn refuses(&self, status: u16) {
        let status = StatusCode::from_u16(status).unwrap();
        self.said.lock().unwrap().status = status;
    }

    pub(super) fn lists_objects(&self) {
        self.said.lock().unwrap().lists = true;
    }

    /// Returns all requests, with the keys in them.
    pub(super) fn heard(&self) -> String {
        self.said.lock().unwrap().heard.clone()
    }
}

async fn refuse(State(said): State<Arc<Mutex<Said>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let shown = ["authorization", "private-token"];
    let shown = shown.iter().filter_map(|name| head.headers.get(*name));
    let shown: Vec<&str> = shown.map(|value| value.to_str().unwrap()).collect();
    let body = String::from_utf8_lossy(&body);
    let heard = format!("{} {} {body}", head.uri, shown.join(" "));
    let mut said = said.lock().unwrap();
    said.heard.push_str(&heard);
    if said.lists && head.uri.path() == "/v1/subscriptions" {
        let none = json!({ "object": "list", "data": [], "has_more": false });
        return none.to_string().into_response();
    }
    let again = format!("{}/?again={}", said.base, heard.replace(' ', "+"));
    let headers = [
        ("www-authenticate", format!("Bearer error=\"{heard}\"")),
        ("link", format!("<{again}>; rel=\"next\"")),
        ("location", again),
        ("x-request-id", heard.clone()),
    ];
    let body = json!({ "error": { "message": format!("no such key: {heard}") } });
    (said.status, headers, body.to_string()).into_response()
}
