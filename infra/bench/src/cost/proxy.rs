//! A proxy in front of one service of the local stack. It counts requests, and delays each answer
//! to the assumed latency of AWS.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::cost::tally::{Call, Service, Tally};

/// The common count of all proxies of a stand.
#[derive(Clone, Default)]
pub(super) struct Count {
    tally: Arc<Mutex<Tally>>,
    /// The items of every scan.
    items: Arc<Mutex<Vec<Value>>>,
}

impl Count {
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The count since the last call.
    pub(super) fn take(&self) -> Tally {
        std::mem::take(&mut *self.tally()).closed()
    }

    pub(super) fn take_items(&self) -> Vec<Value> {
        let items = self.items.lock();
        std::mem::take(&mut items.unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) url: String,
    inner: Arc<Inner>,
}

struct Inner {
    service: Service,
    takes: Duration,
    count: Count,
    http: reqwest::Client,
    upstream: OnceLock<String>,
}

impl Proxy {
    /// The proxied service is set later, when it runs.
    pub(super) async fn start(
        service: Service,
        takes: Duration,
        count: &Count,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let inner = Arc::new(Inner {
            service,
            takes,
            count: count.clone(),
            http: shared::aws::outbound::to_this_machine(&url, Duration::from_secs(30))?,
            upstream: OnceLock::new(),
        });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        // The task ends with the program.
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, inner })
    }

    pub(super) fn stand_before(&self, url: &str) {
        // A second call would set the same URL.
        let _ = self
            .inner
            .upstream
            .set(url.trim_end_matches('/').to_owned());
    }
}

async fn pass(State(proxy): State<Arc<Inner>>, request: Request) -> Response {
    proxy
        .pass(request)
        .await
        .unwrap_or_else(|error| (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response())
}

impl Inner {
    async fn pass(&self, request: Request) -> anyhow::Result<Response> {
        let began = Instant::now();
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await?;
        let operation = operation(&parts.headers, parts.method.as_str());
        let body = match self.service {
            Service::Table => asking(&body),
            _ => body,
        };
        let upstream = self
            .upstream
            .get()
            .context("the proxy has no upstream service")?;
        let target = parts.uri.path_and_query();
        let url = format!("{upstream}{}", target.map_or("/", PathAndQuery::as_str));
        let asked = self.http.request(parts.method, url);
        let asked = asked.headers(passed_on(parts.headers)).body(body.clone());
        let answer = asked
            .send()
            .await
            .context("send the request to the service")?;
        let (status, headers) = (answer.status(), passed_on(answer.headers().clone()));
        let answer = answer
            .bytes()
            .await
            .context("read the answer of the service")?;
        self.note_items(&operation, &answer);
        tokio::time::sleep_until((began + self.takes).into()).await;
        let call = Call {
            operation: &operation,
            request: &body,
            answer: &answer,
            refused: status.is_client_error(),
        };
        self.count
            .tally()
            .call(self.service, &call, (began, Instant::now()));
        Ok((status, headers, answer).into_response())
    }

    fn note_items(&self, operation: &str, answer: &[u8]) {
        if operation != "Scan" {
            return;
        }
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        if let Value::Array(found) = &answer["Items"] {
            let items = self.count.items.lock();
            let mut items = items.unwrap_or_else(PoisonError::into_inner);
            items.extend(found.iter().cloned());
        }
    }
}

/// `PutItem` for `DynamoDB_20120810.PutItem`; the method if no header names an operation.
fn operation(headers: &HeaderMap, method: &str) -> String {
    let target = headers.get("x-amz-target");
    let target = target.and_then(|target| target.to_str().ok());
    let name = target.and_then(|target| target.rsplit('.').next());
    name.unwrap_or(method).to_owned()
}

/// Adds the request for consumed capacity to a DynamoDB request.
fn asking(request: &Bytes) -> Bytes {
    let Ok(Value::Object(mut body)) = serde_json::from_slice(request) else {
        return request.clone();
    };
    body.insert("ReturnConsumedCapacity".to_owned(), "INDEXES".into());
    Value::Object(body).to_string().into()
}

/// Removes the headers of the connection, and the length, which may change.
fn passed_on(mut headers: HeaderMap) -> HeaderMap {
    for name in [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
    ] {
        headers.remove(name);
    }
    headers
}
