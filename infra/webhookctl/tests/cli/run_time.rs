//! Runs of backup-sync in real time: the real binary, a hard timeout as in Lambda, and more work
//! than one run can do. The timeout is a twenty-fifth of that in the template. The amount of work
//! is not reduced.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::folder::Folder;
use aws_sdk_sqs::types::DeleteMessageBatchRequestEntry;
use aws_sdk_ssm::types::ParameterType;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use futures::stream::{self, StreamExt as _};
use local::{Options, Outcome, Stack};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::base::timing::BACKUP_SYNC;
use shared::inbox::ledger::{FoundBy, Ledger};
use shared::inbox::queue::WorkMessage;
use shared::webhook::event::{Event, EventKey, Fetched, Via};

/// The timeout of the function, in seconds.
const TIMEOUT: u64 = 12;

/// A lock that makes the tests run one at a time, because they measure time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

struct World {
    stack: Stack,
    ledger: Ledger,
    _folder: Folder,
}

impl World {
    async fn start(name: &str, sources: &str) -> Self {
        let folder = Folder::new(name).unwrap();
        folder.write("sources.toml", sources).unwrap();
        let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
        let template = std::fs::read_to_string(template).unwrap();
        let whole = format!("Timeout: {}\n", BACKUP_SYNC.as_secs());
        assert_eq!(template.matches(&whole).count(), 1, "{whole}");
        let template = template.replace(&whole, &format!("Timeout: {TIMEOUT}\n"));
        folder.write("template.yaml", &template).unwrap();
        let binaries = Path::new(env!("CARGO_BIN_EXE_webhookctl"))
            .parent()
            .unwrap();
        let stack = Stack::start(Options {
            sources_file: Some(folder.path().join("sources.toml")),
            mappings: false,
            ..Options::new(folder.path().join("template.yaml"), binaries)
        });
        let stack = stack.await.unwrap();
        Self {
            ledger: Ledger::new(stack.clients().dynamodb, stack.table().unwrap(), None),
            stack,
            _folder: folder,
        }
    }

    /// Runs a task once, and checks that it does not time out. Returns its report or its error, and
    /// its duration.
    async fn run(&self, task: &str) -> (Result<Value, String>, Duration) {
        let began = Instant::now();
        let task = json!({ "task": task });
        let outcome = self
            .stack
            .invoke("BackupSync", &task)
            .await
            .unwrap()
            .outcome;
        let took = began.elapsed();
        let done = match outcome {
            Outcome::Answered(report) => Ok(serde_json::from_slice(&report).unwrap()),
            Outcome::Failed(error) => {
                let error = error.to_string();
                assert!(!error.contains("timed out after"), "{task} was killed");
                Err(error)
            }
        };
        (done, took)
    }

    async fn beat(&self, task: &str) -> Option<UnixMillis> {
        let beats = self.ledger.operations().heartbeats().await.unwrap();
        beats.get(task).copied()
    }

    /// Receives messages as fast as possible, like an idle processor.
    async fn hear(&self, heard: &Mutex<BTreeSet<EventKey>>) {
        let (sqs, url) = (
            self.stack.clients().sqs,
            self.stack.queue_url("WorkQueue").unwrap(),
        );
        loop {
            let receive = sqs.receive_message().queue_url(url);
            let answer = receive.max_number_of_messages(10).send().await.unwrap();
            let messages = answer.messages.unwrap_or_default();
            if messages.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            let entries = messages.iter().enumerate().map(|(index, message)| {
                let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
                let entry = entry.receipt_handle(message.receipt_handle().unwrap());
                entry.build().unwrap()
            });
            let delete = sqs.delete_message_batch().queue_url(url);
            delete
                .set_entries(Some(entries.collect()))
                .send()
                .await
                .unwrap();
            let keys = messages.iter().map(|message| {
                WorkMessage::from_message(message.body().unwrap())
                    .unwrap()
                    .key
            });
            heard.lock().unwrap().extend(keys);
        }
    }
}

/// Stores an event that was received at this time, without a queue message.
async fn lost(ledger: &Ledger, id: String, at: UnixMillis) {
    let event = Event::fetched(Fetched {
        source: "bulk",
        provider: "stripe",
        preset: "stripe",
        id: &id,
        kind: "a.b",
        body: b"{}".as_slice().into(),
        now: at,
        via: Via::Webhook,
        config: "c",
    });
    let placed = ledger.store_body(&event).await.unwrap();
    let received = ledger.receive_stored(&event, &placed, FoundBy::TimeIndex, at);
    received.await.unwrap();
}

#[tokio::test]
async fn ten_thousand_due_events_are_sent_by_runs_that_end_before_they_are_killed() {
    const EVENTS: usize = 10_000;
    /// The maximum number of runs. The limit of the queue alone requires three runs, and a busy
    /// machine needs more. No run may time out.
    const RUNS: usize = 30;
    /// The maximum number of consecutive runs without a message. On a busy machine, the consumers
    /// of the test can be slower than the runs, and a run sends nothing to a full queue.
    const IDLE: usize = 5;
    let _alone = ALONE.lock().await;
    let sources = "schema = 1\n[[source]]\nname = \"bulk\"\npreset = \"stripe\"\n\
                   action = [{ kind = \"keep\" }]\n";
    let world = World::start("due", sources).await;
    let at = UnixMillis::now() - Duration::from_secs(180);
    stream::iter(0..EVENTS)
        .for_each_concurrent(16, |n| lost(&world.ledger, format!("evt_{n:05}"), at))
        .await;
    let heard: Mutex<BTreeSet<EventKey>> = Mutex::default();
    let rounds = async {
        let mut idle = 0;
        for run in 1..=RUNS {
            let before = heard.lock().unwrap().len();
            let began = UnixMillis::now();
            let (report, took) = world.run("sweep").await;
            let report = report.unwrap();
            assert!(took < Duration::from_secs(TIMEOUT), "{run}: {took:?}");
            assert_eq!(report["failed"], 0, "{run}: {report}");
            // A process records a heartbeat in every second run of a five-minute schedule.
            let beat = world.beat("sweep").await.unwrap();
            assert!(began.since(beat) < BACKUP_SYNC, "{run}");
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = heard.lock().unwrap().len();
            println!("run {run}: {} events in {took:?}", now - before);
            if now == EVENTS {
                return;
            }
            idle = if now > before { 0 } else { idle + 1 };
            assert!(idle < IDLE, "{run}: nothing was sent: {report}");
        }
        panic!("{} of {EVENTS} were sent", heard.lock().unwrap().len());
    };
    tokio::select! {
        () = rounds => {}
        () = world.hear(&heard) => {}
        () = world.hear(&heard) => {}
    }
    world.stack.stop().await;
}

/// Emulates Stripe's list of events. The API key identifies the source.
/// <https://docs.stripe.com/api/events/list>
#[derive(Clone, Default)]
struct Providers(Arc<AtomicU64>);

async fn list(
    State(Providers(listed)): State<Providers>,
    uri: Uri,
    headers: HeaderMap,
) -> impl IntoResponse {
    assert_eq!(uri.path(), "/v1/events");
    let later = [("retry-after", "70")];
    match headers["authorization"].to_str().unwrap() {
        "Bearer key-of-silent" => std::future::pending().await,
        "Bearer key-of-throttled" => (StatusCode::TOO_MANY_REQUESTS, later, String::new()),
        "Bearer key-of-well" => {
            let number = listed.fetch_add(1, Ordering::Relaxed);
            let event = json!({
                "id": format!("evt_{number}"), "object": "event", "type": "a.b",
                "created": UnixMillis::now().secs() - 60,
            });
            let page = json!({ "object": "list", "data": [event], "has_more": false });
            (StatusCode::OK, [("retry-after", "0")], page.to_string())
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_provider_that_never_answers_keeps_no_other_from_its_turn() {
    let _alone = ALONE.lock().await;
    let providers = Providers::default();
    let router = Router::new().fallback(list).with_state(providers.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    let names = ["silent", "throttled", "well"];
    let sources = names.map(|name| {
        format!(
            "[[source]]\nname = \"{name}\"\npreset = \"stripe\"\nparams = {{ api = \"{url}\" }}\n\
             action = [{{ kind = \"keep\" }}]\n[source.sync]\n"
        )
    });
    let sources = format!(
        "schema = 1\n[forward]\nallow_loopback = true\n{}",
        sources.concat()
    );
    let world = World::start("slow", &sources).await;
    for name in names {
        let path = world.stack.secrets_path("BackupSync").unwrap();
        let put = world.stack.clients().ssm.put_parameter();
        let put = put.name(format!("{path}/{name}/current"));
        let put = put
            .value(format!("key-of-{name}"))
            .r#type(ParameterType::SecureString);
        put.send().await.unwrap();
    }
    for run in 0..3 {
        let (report, took) = world.run("sync").await;
        assert!(took < Duration::from_secs(TIMEOUT), "{run}: {took:?}");
        let error = report.unwrap_err();
        assert!(error.contains("silent"), "{error}");
        assert!(!error.contains("well"), "{error}");
        let listed = providers.0.load(Ordering::Relaxed);
        assert!(
            listed > run,
            "the other provider was not called in run {run}"
        );
        let key = EventKey::new("well", &format!("evt_{run}"));
        assert!(world.ledger.event(&key).await.unwrap().is_some(), "{run}");
        assert!(world.beat("sync").await.is_some(), "{run}");
    }
    world.stack.stop().await;
}
