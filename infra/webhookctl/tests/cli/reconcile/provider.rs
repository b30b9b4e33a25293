//! Emulates lists of objects, as the providers document them, and a user's own endpoint.
//! <https://docs.stripe.com/api/subscriptions/list>
//! <https://docs.github.com/en/rest/repos/webhooks>

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

pub(crate) const API_KEY: &str = "rk_test_4eC39HqLyjWDarjtT1zdp7dc";
pub(crate) const APP_TOKEN: &str = "app-token-9f8e7d6c5b4a";

/// A function that runs when a certain request arrives, before the answer. It can return an answer
/// of its own.
type Then = Box<dyn FnOnce(&mut Objects) -> Option<Response> + Send>;
pub(crate) type Objects = BTreeMap<String, Value>;
type Params = Query<HashMap<String, String>>;

#[derive(Clone, Default)]
pub(crate) struct Api(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    objects: Objects,
    requests: Vec<String>,
    then: HashMap<usize, Then>,
}

impl Api {
    pub(crate) fn put(&self, id: &str, object: Value) {
        self.inner().objects.insert(id.to_owned(), object);
    }

    /// Runs a function before the request with this number. The first request has number 1.
    pub(crate) fn at(
        &self,
        request: usize,
        then: impl FnOnce(&mut Objects) -> Option<Response> + Send + 'static,
    ) {
        self.inner().then.insert(request, Box::new(then));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner().objects.is_empty()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.inner().requests.clone()
    }

    pub(crate) fn forget_requests(&self) {
        self.inner().requests.clear();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Records the request. Returns the answer that replaces the normal answer, if there is one.
    fn note(&self, what: String, headers: &HeaderMap, key: &str) -> Option<Response> {
        let mut inner = self.inner();
        inner.requests.push(what);
        let number = inner.requests.len();
        let then = inner.then.remove(&number);
        if let Some(answer) = then.and_then(|then| then(&mut inner.objects)) {
            return Some(answer);
        }
        let bearer = format!("Bearer {key}");
        let given = headers.get(header::AUTHORIZATION);
        let known = given.is_some_and(|value| value.as_bytes() == bearer.as_bytes());
        (!known).then(|| StatusCode::UNAUTHORIZED.into_response())
    }
}

/// Answers like Stripe's list of subscriptions: newest first. The list has canceled subscriptions
/// only if `status` requests them.
pub(crate) fn stripe(api: &Api) -> Router {
    Router::new()
        .route("/v1/subscriptions", get(subscriptions))
        .route("/v1/subscriptions/{id}", get(subscription))
        .with_state(api.clone())
}

async fn subscriptions(
    State(api): State<Api>,
    headers: HeaderMap,
    Query(query): Params,
) -> Response {
    let what = format!(
        "list {:?}",
        query.get("starting_after").or(query.get("customer"))
    );
    if let Some(answer) = api.note(what, &headers, API_KEY) {
        return answer;
    }
    let inner = api.inner();
    let all = query.get("status").is_some_and(|status| status == "all");
    let limit: usize = query
        .get("limit")
        .map_or(10, |limit| limit.parse().unwrap());
    let mut found: Vec<&Value> = inner.objects.values().rev().collect();
    found.retain(|object| all || object["status"] != "canceled");
    if let Some(customer) = query.get("customer") {
        found.retain(|object| object["customer"] == json!(customer));
    }
    if let Some(after) = query.get("starting_after") {
        let Some(at) = found.iter().position(|object| object["id"] == json!(after)) else {
            return (
                StatusCode::BAD_REQUEST,
                r#"{"error":{"code":"resource_missing"}}"#,
            )
                .into_response();
        };
        found.drain(..=at);
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let list =
        json!({"object": "list", "url": "/v1/subscriptions", "has_more": more, "data": found});
    list.to_string().into_response()
}

async fn subscription(
    State(api): State<Api>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    if let Some(answer) = api.note(format!("one {id}"), &headers, API_KEY) {
        return answer;
    }
    let object = api.inner().objects.get(&id).map(Value::to_string);
    let missing = (
        StatusCode::NOT_FOUND,
        r#"{"error":{"code":"resource_missing"}}"#,
    );
    object.map_or(missing.into_response(), IntoResponse::into_response)
}

/// Answers like GitHub's list of a repository's hooks, with numbered pages.
pub(crate) fn github(api: &Api) -> Router {
    Router::new()
        .route("/repos/octo/hello/hooks", get(hooks))
        .route("/repos/octo/hello/hooks/{id}", get(hook))
        .with_state(api.clone())
}

async fn hooks(State(api): State<Api>, headers: HeaderMap, Query(query): Params) -> Response {
    if let Some(answer) = api.note(format!("list {:?}", query.get("page")), &headers, API_KEY) {
        return answer;
    }
    assert_eq!(headers["x-github-api-version"], "2022-11-28");
    let number = |name: &str, or: usize| query.get(name).map_or(or, |text| text.parse().unwrap());
    let (page, size) = (number("page", 1), number("per_page", 30).min(100));
    let inner = api.inner();
    let found: Vec<&Value> = inner
        .objects
        .values()
        .skip((page - 1) * size)
        .take(size)
        .collect();
    json!(found).to_string().into_response()
}

async fn hook(State(api): State<Api>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if let Some(answer) = api.note(format!("one {id}"), &headers, API_KEY) {
        return answer;
    }
    let object = api.inner().objects.get(&id).map(Value::to_string);
    object.map_or(
        StatusCode::NOT_FOUND.into_response(),
        IntoResponse::into_response,
    )
}

/// Returns a user's application that lists its state. A page has two items, and a cursor names the
/// next page.
pub(crate) fn app(api: &Api) -> Router {
    Router::new()
        .route("/state", get(state))
        .with_state(api.clone())
}

async fn state(State(api): State<Api>, headers: HeaderMap, Query(query): Params) -> Response {
    let what = format!("state {:?}", query.get("cursor").or(query.get("id")));
    if let Some(answer) = api.note(what, &headers, APP_TOKEN) {
        return answer;
    }
    let inner = api.inner();
    if let Some(id) = query.get("id") {
        let found: Vec<_> = inner.objects.get(id).into_iter().collect();
        return json!({"items": found}).to_string().into_response();
    }
    let from: usize = query
        .get("cursor")
        .map_or(0, |cursor| cursor.parse().unwrap());
    let page: Vec<_> = inner.objects.values().skip(from).take(2).collect();
    let next = (from + 2 < inner.objects.len()).then(|| (from + 2).to_string());
    json!({"items": page, "next": next})
        .to_string()
        .into_response()
}
