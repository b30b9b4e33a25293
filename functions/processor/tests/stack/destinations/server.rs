//! A server that plays every destination. The path selects a receiver of webhooks or Lambda. The
//! header `X-Amz-Target` selects EventBridge, Step Functions or SQS.
//!
//! <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>
//! <https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html>
//! <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html>

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;

pub(super) struct Server {
    pub(super) url: String,
    told: Arc<Mutex<Told>>,
}

/// The requests that the server received, and the responses that it sends.
#[derive(Default)]
struct Told {
    seen: Vec<Seen>,
    answers: BTreeMap<String, VecDeque<Answer>>,
    /// The statuses that are stored under the first key that arrives, for each path or target.
    remembers: BTreeMap<String, u16>,
    keys: Vec<String>,
}

/// A request, with its path or its target.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) place: String,
    pub(super) at: UnixMillis,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Says(u16, Vec<(&'static str, String)>, Value),
    /// An answer with this status whose body never ends.
    Endless(u16),
    /// The server accepts the request and never answers.
    Never,
}

impl Answer {
    pub(super) fn status(status: u16) -> Self {
        Self::Says(status, Vec::new(), Value::Null)
    }

    /// Returns an error of an AWS service.
    pub(super) fn aws(status: u16, code: &str) -> Self {
        let headers = vec![("x-amzn-errortype", code.to_owned())];
        Self::Says(status, headers, json!({ "__type": code, "message": "no" }))
    }

    pub(super) fn function_error() -> Self {
        let headers = vec![("x-amz-function-error", "Unhandled".to_owned())];
        Self::Says(200, headers, json!({ "errorMessage": "no" }))
    }

    pub(super) fn entry_failed(code: &str) -> Self {
        let entry = json!({ "ErrorCode": code, "ErrorMessage": "no" });
        let answer = json!({ "FailedEntryCount": 1, "Entries": [entry] });
        Self::Says(200, Vec::new(), answer)
    }
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(super) fn find(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Server {
    pub(super) async fn start() -> Self {
        let told = Arc::new(Mutex::new(Told::default()));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&told));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, told }
    }

    /// Sets the responses to the next requests to a path or target. Later requests succeed.
    pub(super) fn answers(&self, place: &str, answers: &[Answer]) {
        let answers = answers.iter().cloned().collect();
        self.told
            .lock()
            .unwrap()
            .answers
            .insert(place.to_owned(), answers);
    }

    /// Makes the server answer the first request with a key with this status, and repeat the status
    /// for the same key.
    pub(super) fn remembers(&self, place: &str, status: u16) {
        self.told
            .lock()
            .unwrap()
            .remembers
            .insert(place.to_owned(), status);
    }

    /// Records an earlier request with this key.
    pub(super) fn call_before(&self, key: &str) {
        self.told.lock().unwrap().keys.push(key.to_owned());
    }

    pub(super) fn forget(&self) {
        self.told.lock().unwrap().seen.clear();
    }

    pub(super) fn all(&self, place: &str) -> Vec<Seen> {
        let told = self.told.lock().unwrap();
        let seen = told.seen.iter().filter(|seen| seen.place == place);
        seen.cloned().collect()
    }

    pub(super) fn only(&self, place: &str) -> Seen {
        let mut all = self.all(place);
        let places: Vec<_> = self
            .told
            .lock()
            .unwrap()
            .seen
            .iter()
            .map(|seen| seen.place.clone())
            .collect();
        assert_eq!(all.len(), 1, "{place} of {places:?}");
        all.remove(0)
    }
}

impl Told {
    fn next(&mut self, place: &str, key: Option<String>) -> Answer {
        if let (Some(status), Some(key)) = (self.remembers.get(place), key) {
            let replayed = self.keys.contains(&key);
            let headers = vec![("idempotent-replayed", replayed.to_string())];
            self.keys.push(key);
            return Answer::Says(*status, headers, Value::Null);
        }
        let planned = self.answers.get_mut(place).and_then(VecDeque::pop_front);
        planned.unwrap_or_else(|| {
            let all_is_well = match place {
                "AWSEvents.PutEvents" => {
                    json!({ "FailedEntryCount": 0, "Entries": [{ "EventId": "1" }] })
                }
                "AWSStepFunctions.StartExecution" => {
                    json!({ "executionArn": "arn:aws:states:us-east-1:000000000000:execution:orders:1", "startDate": 1.0 })
                }
                "AmazonSQS.SendMessage" => {
                    json!({ "MessageId": "1", "MD5OfMessageBody": "0" })
                }
                _ => json!({}),
            };
            Answer::Says(200, Vec::new(), all_is_well)
        })
    }
}

async fn answer(
    State(told): State<Arc<Mutex<Told>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |name: &str| Some(headers.get(name)?.to_str().unwrap().to_owned());
    let place = text("x-amz-target").unwrap_or_else(|| uri.path().to_owned());
    let answer = {
        let mut told = told.lock().unwrap();
        let key = text("idempotency-key");
        told.seen.push(Seen {
            place: place.clone(),
            at: UnixMillis::now(),
            headers,
            body,
        });
        told.next(&place, key)
    };
    let (status, headers, body) = match answer {
        Answer::Says(status, headers, body) => (status, headers, body),
        Answer::Endless(status) => return endless(status),
        Answer::Never => return std::future::pending().await,
    };
    let mut response = axum::Json(body).into_response();
    *response.status_mut() = status.try_into().unwrap();
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

fn endless(status: u16) -> Response {
    let chunk = || Ok::<_, std::convert::Infallible>(Bytes::from_static(b"there is more. "));
    let chunks = futures::stream::repeat_with(chunk);
    let mut response = Response::new(axum::body::Body::from_stream(chunks));
    *response.status_mut() = status.try_into().unwrap();
    response
}
