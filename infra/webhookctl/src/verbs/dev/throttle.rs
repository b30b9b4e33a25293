//! A proxy between the functions and the table. The proxy rejects some writes, as DynamoDB does
//! when it throttles.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use crate::demo::serve;

/// The operations that DynamoDB can throttle because of the write capacity of a table.
const WRITES: [&str; 5] = [
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "BatchWriteItem",
    "TransactWriteItems",
];

/// The answer to a rejected write.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html>
const REFUSAL: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"chaos: one write in three is rejected"}"#;

pub(super) struct Throttle {
    pub(super) url: String,
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    /// The URL of the table.
    table: OnceLock<String>,
    refuses: AtomicBool,
}

impl Throttle {
    /// Starts the proxy. The table's URL is not known yet; [`Throttle::stand_before`] sets it.
    pub(super) fn start() -> anyhow::Result<Self> {
        let http =
            shared::aws::outbound::to_this_machine("http://127.0.0.1", Duration::from_secs(30))?;
        let inner = Arc::new(Inner {
            http,
            table: OnceLock::new(),
            refuses: AtomicBool::new(false),
        });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        // The server runs until the program ends.
        let (url, _) = serve(0, router)?;
        Ok(Self { url, inner })
    }

    pub(super) fn stand_before(&self, url: &str) {
        // There is only one table, so a second call can only set the same URL.
        let _ = self.inner.table.set(url.trim_end_matches('/').to_owned());
    }

    /// Turns the rejections of writes on or off.
    pub(super) fn turn(&self, refuses: bool) {
        self.inner.refuses.store(refuses, Ordering::Relaxed);
    }
}

async fn pass(State(throttle): State<Arc<Inner>>, request: Request) -> Response {
    throttle
        .answer(request)
        .await
        .unwrap_or_else(|error| (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response())
}

impl Inner {
    async fn answer(&self, request: Request) -> anyhow::Result<Response> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await?;
        if is_write(&parts.headers) && self.refuses() {
            let kind = [(header::CONTENT_TYPE, "application/x-amz-json-1.0")];
            return Ok((StatusCode::BAD_REQUEST, kind, REFUSAL).into_response());
        }
        self.pass(parts, body).await
    }

    /// Returns whether to reject a write. The choice is random, so that sometimes a write and its
    /// retry are both rejected.
    fn refuses(&self) -> bool {
        let mut dice = [0_u8];
        self.refuses.load(Ordering::Relaxed)
            && getrandom::fill(&mut dice).is_ok()
            && dice[0].is_multiple_of(3)
    }

    async fn pass(&self, parts: Parts, body: Bytes) -> anyhow::Result<Response> {
        let table = self.table.get().context("the table's URL is not set")?;
        let path = parts.uri.path_and_query();
        let url = format!("{table}{}", path.map_or("/", |path| path.as_str()));
        let asked = self.http.request(parts.method, url);
        let asked = asked.headers(passed_on(parts.headers)).body(body);
        let answer = asked.send().await.context("call the table")?;
        let (status, headers) = (answer.status(), passed_on(answer.headers().clone()));
        let answer = answer.bytes().await.context("read the table's answer")?;
        Ok((status, headers, answer).into_response())
    }
}

fn is_write(headers: &HeaderMap) -> bool {
    let target = headers.get("x-amz-target");
    let target = target.and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.rsplit('.').next());
    operation.is_some_and(|operation| WRITES.contains(&operation))
}

/// Removes the headers that apply only to one connection.
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

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: u32 = 300;

    async fn refused(throttle: &Throttle, operation: &str) -> u32 {
        let http = &throttle.inner.http;
        let mut refused = 0;
        for _ in 0..ASKED {
            let target = format!("DynamoDB_20120810.{operation}");
            let asked = http.post(&throttle.url).header("x-amz-target", target);
            let answer = asked.body("{}").send().await.unwrap();
            match answer.status() {
                StatusCode::OK => assert_eq!(answer.text().await.unwrap(), "{}"),
                StatusCode::BAD_REQUEST => {
                    let body = answer.text().await.unwrap();
                    assert!(body.contains("ProvisionedThroughputExceeded"), "{body}");
                    refused += 1;
                }
                other => panic!("{other}"),
            }
        }
        refused
    }

    #[tokio::test]
    async fn about_a_third_of_the_writes_and_no_read_is_refused() {
        let echo = Router::new().fallback(|body: Bytes| async move { body });
        let (table, _) = serve(0, echo).unwrap();
        let throttle = Throttle::start().unwrap();
        throttle.stand_before(&table);
        assert_eq!(
            refused(&throttle, "PutItem").await,
            0,
            "the throttle is off"
        );
        throttle.turn(true);
        for write in WRITES {
            let refused = refused(&throttle, write).await;
            assert!(
                (ASKED / 6..ASKED / 2).contains(&refused),
                "{write}: {refused}"
            );
        }
        for read in ["GetItem", "Query", "BatchGetItem"] {
            assert_eq!(refused(&throttle, read).await, 0, "{read}");
        }
    }
}
