//! The order of the events of an entity with the real binaries. The events arrive shuffled, twice
//! or late, and some fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_ssm::types::ParameterType;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use futures::future::join_all;
use local::Options;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Row, State as Stand};
use shared::webhook::event::EventKey;

use super::here;
use super::support::{DEMO_SECRET, Inbox, headers, hex, options, unique};
use super::support::{failures, record, work_message};

const TOKEN: &str = "token-of-the-provider";

/// Plays the destination and the provider's API. The destination supports only idempotency keys.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// The requests that had an effect, in order.
    applied: Vec<Applied>,
    keys: BTreeSet<String>,
    /// The number of times that each body arrived.
    requests: BTreeMap<String, u32>,
    /// The current states at the provider.
    states: BTreeMap<String, Value>,
}

#[derive(Clone, Debug)]
struct Applied {
    source: String,
    body: Value,
    headers: BTreeMap<String, String>,
}

impl World {
    fn router(&self) -> Router {
        Router::new()
            .route("/{source}", post(destination))
            .route("/state/{entity}", get(provider))
            .with_state(self.clone())
    }

    /// Returns the versions of an entity that had an effect, in order.
    fn versions(&self, source: &str, entity: &str) -> Vec<u64> {
        let seen = self.0.lock().unwrap();
        let of = |applied: &&Applied| applied.source == source && applied.body["entity"] == entity;
        let applied = seen.applied.iter().filter(of);
        applied
            .map(|one| one.body["version"].as_u64().unwrap())
            .collect()
    }

    fn applied(&self, source: &str) -> Vec<Applied> {
        let seen = self.0.lock().unwrap();
        let of = |applied: &&Applied| applied.source == source;
        seen.applied.iter().filter(of).cloned().collect()
    }
}

async fn destination(
    State(world): State<World>,
    Path(source): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let text = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let key = text("idempotency-key").unwrap();
    let body_text = String::from_utf8(body.to_vec()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    // The delay is long enough for other requests to arrive in between.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let mut seen = world.0.lock().unwrap();
    let requests = seen.requests.entry(body_text).or_default();
    *requests += 1;
    if body["flaky"] == true && *requests == 1 {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    if body["dead"] == true {
        return StatusCode::UNPROCESSABLE_ENTITY;
    }
    if seen.keys.insert(key) {
        let names = [
            "mitt-entity",
            "mitt-entity-version",
            "mitt-entity-state",
            "content-type",
        ];
        let named = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), text(name)?)));
        let headers = named.collect();
        seen.applied.push(Applied {
            source,
            body,
            headers,
        });
    }
    StatusCode::OK
}

async fn provider(
    State(world): State<World>,
    Path(entity): Path<String>,
    headers: HeaderMap,
) -> (StatusCode, String) {
    let token = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap());
    if token != Some(&format!("Bearer {TOKEN}")) {
        return (StatusCode::UNAUTHORIZED, String::new());
    }
    match world.0.lock().unwrap().states.get(&entity) {
        Some(state) => (StatusCode::OK, state.to_string()),
        None => (StatusCode::NOT_FOUND, String::new()),
    }
}

struct Running {
    inbox: Inbox,
    world: World,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Running {
    async fn start() -> Self {
        let world = World::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = world.router();
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        let folder = std::env::temp_dir().join(format!("mitt-order-{}", unique()));
        std::fs::create_dir_all(&folder).unwrap();
        let sources_file = folder.join("sources.toml");
        let text = std::fs::read_to_string(here().join("order.toml")).unwrap();
        std::fs::write(&sources_file, text.replace("{downstream}", &url)).unwrap();
        let inbox = Inbox::start(Options {
            sources_file: Some(sources_file),
            max_processes: 3,
            ..options()
        })
        .await;
        let path = inbox.stack.secrets_path("Processor").unwrap();
        for (name, value) in [("orders", DEMO_SECRET), ("provider", TOKEN)] {
            let put = inbox.stack.clients().ssm.put_parameter();
            let put = put.name(format!("{path}/{name}/current")).value(value);
            let put = put.r#type(ParameterType::SecureString);
            put.send().await.unwrap();
        }
        inbox.must_not_log(TOKEN);
        Self {
            inbox,
            world,
            folder,
        }
    }

    async fn post(&self, source: &str, event: &Value) -> EventKey {
        let body = event.to_string();
        let signature = hex(DEMO_SECRET.as_bytes(), &[body.as_bytes()]);
        let headers = headers(&[
            ("content-type", "application/json"),
            ("x-signature", &signature),
        ]);
        let answer = self.inbox.post(source, &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        EventKey::new(source, event["id"].as_str().unwrap())
    }

    async fn event(&self, key: &EventKey) -> Row {
        let clients = self.inbox.stack.clients();
        let ledger = Ledger::new(clients.dynamodb, self.inbox.stack.table().unwrap(), None);
        ledger.event(key).await.unwrap().unwrap()
    }

    /// Sends messages for events, in parallel batches, until all of them are settled.
    async fn process_batch(&self, keys: &[EventKey]) -> Vec<Row> {
        let patience = UnixMillis::now() + Duration::from_secs(60);
        loop {
            let batches = keys.chunks(10).map(async |keys| {
                let records: Vec<_> = keys
                    .iter()
                    .map(|key| record(key.id(), &work_message(key)))
                    .collect();
                assert_eq!(failures(&self.inbox, &records).await, [""; 0]);
            });
            join_all(batches).await;
            let rows = join_all(keys.iter().map(|key| self.event(key))).await;
            if rows.iter().all(|row| !row.is_open()) {
                return rows;
            }
            let open: Vec<_> = rows.iter().filter(|row| row.is_open()).collect();
            assert!(UnixMillis::now() < patience, "still open: {open:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn event(entity: &str, version: u64) -> Value {
    json!({ "id": format!("{entity}-{version}-{}", unique()), "entity": entity, "version": version })
}

fn with(mut event: Value, field: &str) -> Value {
    event[field] = json!(true);
    event
}

fn shuffled<T>(mut list: Vec<T>) -> Vec<T> {
    list.sort_by_cached_key(|_| unique());
    list
}

fn note(row: &Row) -> &str {
    row.history.last().map_or("", |moment| &moment.note)
}

#[tokio::test]
async fn the_last_effect_of_each_entity_is_its_newest_version() {
    let running = Running::start().await;
    let entities = ["one", "two", "three", "four"];
    let mut events: Vec<Value> = Vec::new();
    for entity in entities {
        events.extend((1..=5).map(|version| event(entity, version)));
        // The newest event fails at first, and is retried after older events.
        events.push(with(event(entity, 6), "flaky"));
    }
    let twice = shuffled([events.clone(), events.clone()].concat());
    join_all(twice.iter().map(|event| running.post("latest", event))).await;
    let keys = events
        .iter()
        .map(|event| EventKey::new("latest", event["id"].as_str().unwrap()));
    let keys = shuffled(keys.collect());
    let rows = running.process_batch(&keys).await;

    assert!(rows.iter().all(|row| row.state == Stand::Done));
    let mut effects = 0;
    for entity in entities {
        let versions = running.world.versions("latest", entity);
        assert!(versions.is_sorted(), "{entity}: {versions:?}");
        assert_eq!(versions.last(), Some(&6), "{entity}: {versions:?}");
        effects += versions.len();
    }
    let skipped = rows
        .iter()
        .filter(|row| note(row) == "skipped_stale")
        .count();
    assert_eq!(effects + skipped, events.len());

    // An older event that arrives at the end has no effect. An event that is as new as the newest
    // one has an effect.
    let old = running.post("latest", &event("one", 5)).await;
    let same = running.post("latest", &event("one", 6)).await;
    let rows = running.process_batch(&[old, same]).await;
    assert_eq!(
        rows.iter().map(note).collect::<Vec<_>>(),
        ["skipped_stale", ""]
    );
    let versions = running.world.versions("latest", "one");
    assert!(versions.ends_with(&[6, 6]), "{versions:?}");
    let last = running.world.applied("latest").pop().unwrap();
    assert_eq!(last.headers["mitt-entity"], "one");
    assert_eq!(last.headers["mitt-entity-version"], "6");

    // An event that does not name its entity is processed too.
    let unnamed = json!({ "id": unique(), "version": 1 });
    let key = running.post("latest", &unnamed).await;
    let rows = running.process_batch(&[key]).await;
    assert_eq!((rows[0].state, note(&rows[0])), (Stand::Done, "unordered"));
    running.inbox.tells_nothing();
}

#[tokio::test]
async fn what_is_fetched_is_the_current_state_whatever_the_event_says() {
    let running = Running::start().await;
    let at = |version: u64| format!("2026-11-20T10:14:{version:02}Z");
    let state =
        |version: u64| json!({ "entity": "a/b", "version": version, "updated_at": at(version) });
    let set = |version: u64| {
        let mut seen = running.world.0.lock().unwrap();
        seen.states.insert("a/b".into(), state(version));
    };
    set(7);
    let keys = join_all((1..=3).map(|version| {
        let event = event("a/b", version);
        let running = &running;
        async move { running.post("fetched", &event).await }
    }))
    .await;
    let rows = running.process_batch(&keys).await;
    assert!(
        rows.iter()
            .all(|row| row.state == Stand::Done && note(row).is_empty())
    );
    let applied = running.world.applied("fetched");
    assert_eq!(applied.len(), 3);
    for one in &applied {
        assert_eq!(one.body, state(7));
        assert_eq!(one.headers["mitt-entity"], "a/b");
        assert_eq!(one.headers["mitt-entity-version"], at(7));
        assert_eq!(one.headers["mitt-entity-state"], "current");
        assert_eq!(one.headers["content-type"], "application/json");
    }

    // The fetched state is older than a state that was already sent, because another worker was
    // faster.
    set(6);
    let key = running.post("fetched", &event("a/b", 4)).await;
    let rows = running.process_batch(&[key]).await;
    assert_eq!(
        (rows[0].state, note(&rows[0])),
        (Stand::Done, "skipped_stale")
    );
    assert_eq!(running.world.applied("fetched").len(), 3);

    // The provider no longer has the entity: the action gets the event's own body, marked as gone.
    let gone = event("c", 1);
    let key = running.post("fetched", &gone).await;
    running.process_batch(&[key]).await;
    let last = running.world.applied("fetched").pop().unwrap();
    assert_eq!(
        (&last.body, last.headers["mitt-entity-state"].as_str()),
        (&gone, "gone")
    );
    running.inbox.tells_nothing();
}

#[tokio::test]
async fn in_strict_order_each_waits_for_those_before_it_that_have_arrived() {
    let running = Running::start().await;
    let events: Vec<Value> = [
        (1..=8).map(|version| event("plain", version)).collect(),
        vec![
            with(event("fails", 1), "flaky"),
            event("fails", 2),
            event("fails", 3),
        ],
        vec![
            event("dies", 1),
            with(event("dies", 2), "dead"),
            event("dies", 3),
        ],
    ]
    .concat();
    let twice = shuffled([events.clone(), events.clone()].concat());
    join_all(twice.iter().map(|event| running.post("strict", event))).await;
    let keys = events
        .iter()
        .map(|event| EventKey::new("strict", event["id"].as_str().unwrap()));
    let rows = running.process_batch(&shuffled(keys.collect())).await;
    let versions = |entity: &str| running.world.versions("strict", entity);
    assert_eq!(versions("plain"), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(versions("fails"), [1, 2, 3]);
    // When an event becomes a dead letter, the events behind it are processed.
    assert_eq!(versions("dies"), [1, 3]);
    let dead = rows
        .iter()
        .filter(|row| row.state == Stand::DeadLetter)
        .count();
    assert_eq!(dead, 1);
    assert!(rows.iter().all(|row| note(row) != "out_of_order"));
    // A waiting event does not lose an attempt.
    let attempts = rows.iter().map(|row| row.attempts).max();
    assert_eq!(attempts, Some(2));
    assert_eq!(running.line().await, 0);

    // An event that has not arrived cannot be ordered. It is processed late, with a flag.
    let key = running.post("strict", &event("plain", 0)).await;
    let rows = running.process_batch(&[key]).await;
    assert_eq!(
        (rows[0].state, note(&rows[0])),
        (Stand::Done, "out_of_order")
    );
    assert_eq!(versions("plain").last(), Some(&0));
    running.inbox.tells_nothing();
}

/// The event is not the cause of these crashes, because it had not run.
#[tokio::test]
async fn who_stood_in_line_has_all_its_attempts_left() {
    let running = Running::start().await;
    running.post("strict", &event("crowd", 1)).await;
    let second = running.post("strict", &event("crowd", 2)).await;
    running.has_crashed(&second, 2).await;
    let rows = running.process_batch(&[second]).await;
    let row = &rows[0];
    assert_eq!((row.state, row.attempts, row.died), (Stand::Done, 1, 2));
    assert_eq!(running.world.versions("strict", "crowd"), [1, 2]);
    running.inbox.tells_nothing();
}

impl Running {
    /// Changes the row as if this many workers had crashed since its last deferral.
    async fn has_crashed(&self, key: &EventKey, times: u32) {
        let times = AttributeValue::N(times.to_string());
        let update = self.inbox.stack.clients().dynamodb.update_item();
        let update = update
            .table_name(self.inbox.stack.table().unwrap())
            .key("pk", AttributeValue::S(key.pk()))
            .key("sk", AttributeValue::S("M".into()))
            .update_expression("SET att = :times, cr = :times")
            .expression_attribute_values(":times", times);
        update.send().await.unwrap();
    }

    /// Returns the number of order entries of all entities.
    async fn line(&self) -> usize {
        #[expect(clippy::disallowed_methods, reason = "a test may read the whole table")]
        let scan = self.inbox.stack.clients().dynamodb.scan();
        let scan = scan.table_name(self.inbox.stack.table().unwrap());
        let items = scan.send().await.unwrap().items.unwrap_or_default();
        let in_line = |item: &&super::support::Item| item["sk"].as_s().unwrap().starts_with("P#");
        items.iter().filter(in_line).count()
    }
}
