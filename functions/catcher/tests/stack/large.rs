//! Bodies of the maximum size that Lambda accepts, unchanged from the sender to the destination.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use aws_sdk_ssm::types::ParameterType;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use local::Options;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, State as Stand};
use shared::webhook::event::{Event, EventKey, Fetched, Via};

use super::{
    bad_input::noise,
    budget::{Fault, Shaky},
    support::{DEMO_SECRET, Inbox, failures, options, record, s, unique, with, work_message},
};

/// The maximum body limit of a source.
const LARGEST: usize = 4 * 1024 * 1024;

/// Records the bodies that it receives.
#[derive(Clone, Default)]
struct Downstream(Arc<Mutex<Vec<Bytes>>>);

impl Downstream {
    async fn start() -> (Self, String) {
        let downstream = Self::default();
        let router = Router::new()
            .fallback(async |State(it): State<Self>, body: Bytes| it.0.lock().unwrap().push(body))
            .layer(DefaultBodyLimit::disable())
            .with_state(downstream.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        (downstream, url)
    }

    fn took(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A sources file that is deleted at the end of the test.
struct Sources(PathBuf);

impl Sources {
    fn write(url: &str) -> Self {
        let text = format!(
            "schema = 1\n[forward]\nallow_loopback = true\n[[source]]\nname = \"github-main\"\n\
             preset = \"github\"\nmax_body = {LARGEST}\n[[source.action]]\nkind = \"http\"\n\
             name = \"downstream\"\nurl = \"{url}\"\nsecret = \"downstream\"\n"
        );
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.toml", unique()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn options(&self) -> Options {
        Options {
            sources_file: Some(self.0.clone()),
            // The check of permissions would take a part of the time for a large body.
            rights: None,
            ..options()
        }
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn give_secret(inbox: &Inbox) {
    let path = inbox.stack.secrets_path("Processor").unwrap();
    let put = inbox.stack.clients().ssm.put_parameter();
    put.name(format!("{path}/downstream/current"))
        .value(DEMO_SECRET)
        .r#type(ParameterType::SecureString)
        .send()
        .await
        .unwrap();
}

async fn post(inbox: &Inbox, body: &[u8]) -> (EventKey, u16) {
    let id = unique();
    let headers = with(
        inbox.github(&id, body),
        "content-type",
        "application/octet-stream",
    );
    let answer = inbox.post("github-main", &headers, body).await;
    (EventKey::new("github-main", &id), answer.status)
}

#[tokio::test]
async fn four_mebibytes_arrive_downstream_as_they_were_sent() {
    let (downstream, url) = Downstream::start().await;
    let sources = Sources::write(&url);
    let inbox = Inbox::start(sources.options()).await;
    give_secret(&inbox).await;
    let compressible = [unique().as_bytes(), &vec![b' '; LARGEST - 16]].concat();
    // Incompressible bodies, one byte below the limit and exactly at the limit; and a body that
    // zstd compresses well.
    for body in [noise(LARGEST - 1), noise(LARGEST), compressible] {
        let (key, status) = post(&inbox, &body).await;
        assert_eq!(status, 200);
        let rung = [record("1", &work_message(&key))];
        assert_eq!(failures(&inbox, &rung).await, [""; 0]);
        assert_eq!(inbox.row(&key).await["st"], s("done"));
        let took = downstream.took();
        assert_eq!(took.len(), 1);
        assert!(
            took[0] == body,
            "{} bytes for {}",
            took[0].len(),
            body.len()
        );
    }
    // The catcher rejects a larger body. Above 6 MB as base64, the gateway rejects it.
    for (length, from_gateway) in [(LARGEST + 1, false), (5_000_000, true), (11_000_000, true)] {
        let body = noise(length);
        let headers = with(inbox.github(&unique(), &body), "content-type", "image/png");
        let answer = inbox.post("github-main", &headers, &body).await;
        assert_eq!(answer.status, 413, "{length}");
        assert_eq!(
            answer.text().contains("Request Entity Too Large"),
            from_gateway,
            "{length}"
        );
    }
    inbox.is_unharmed();
}

/// Ten of the largest bodies need more memory than the processor has.
#[tokio::test]
async fn of_bodies_that_only_a_sync_brings_one_is_in_memory() {
    let (downstream, url) = Downstream::start().await;
    let sources = Sources::write(&url);
    let inbox = Inbox::start(sources.options()).await;
    give_secret(&inbox).await;
    let clients = inbox.stack.clients();
    let bucket = inbox.stack.bucket("Bodies").unwrap().to_owned();
    let table = inbox.stack.table().unwrap();
    let ledger = Ledger::new(clients.dynamodb, table, Some((clients.s3, bucket)));
    let mut keys = Vec::new();
    for id in [unique(), unique(), unique()] {
        let event = Event::fetched(Fetched {
            source: "github-main",
            provider: "github",
            preset: "github",
            id: &id,
            kind: "push",
            body: noise(5 * 1024 * 1024).into(),
            now: UnixMillis::now(),
            via: Via::BackupSync,
            config: "test",
        });
        ledger.receive(&event, UnixMillis::now()).await.unwrap();
        keys.push(event.key().clone());
    }
    let records: Vec<_> = keys
        .iter()
        .map(|key| record(key.id(), &work_message(key)))
        .collect();
    assert_eq!(failures(&inbox, &records).await, [""; 0]);
    let (mut done, mut deferred) = (0, 0);
    for key in &keys {
        let row = ledger.event(key).await.unwrap().unwrap();
        match row.state {
            Stand::Done => done += 1,
            // The deferral costs no attempt.
            _ if row.is_open() && row.attempts == 0 => deferred += 1,
            other => panic!("{key} is {other}: {:?}", row.history),
        }
    }
    assert_eq!((done, deferred), (1, 2));
    assert_eq!(downstream.took().len(), 1);
    inbox.is_unharmed();
}

#[tokio::test]
async fn the_body_is_in_the_bucket_before_anything_points_to_it() {
    let (downstream, url) = Downstream::start().await;
    let sources = Sources::write(&url);
    let mut shaky = Shaky::start_with(sources.options()).await;
    give_secret(&shaky.inbox).await;
    let body = noise(LARGEST - 1_000);
    shaky.expect_kept("healthy, cold", b"").await;

    // Without the ledger, the spilled message refers to the stored body, and the destination still
    // gets the body.
    shaky.dynamodb.break_down(Fault::Silent).await;
    let key = shaky.expect_spilled("dynamodb silent, 4 MB", &body).await;
    assert_eq!(
        failures(&shaky.inbox, &[record("1", &work_message(&key))]).await,
        [""; 0]
    );
    assert!(downstream.took()[0].ends_with(&body));

    // If the catcher crashes after it stored the body and before it stored the row, an object
    // without a row remains.
    let before = objects(&shaky.inbox).await;
    let (killed, ()) = tokio::join!(shaky.inbox_post(&body), async {
        while objects(&shaky.inbox).await == before {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        shaky.inbox.kill_catcher().await;
    });
    assert_ne!(killed.1, 200);
    assert_eq!(shaky.inbox.find(&killed.0).await, None);

    // A body that is too large for a message can only be stored in the bucket.
    shaky.s3.break_down(Fault::Error).await;
    shaky.expect_another_try("neither, 4 MB", &body).await;
    shaky.dynamodb.mend().await;
    shaky.expect_another_try("no bucket, 4 MB", &body).await;
    assert_eq!(shaky.waiting().await, 0);
}

impl Shaky {
    async fn inbox_post(&self, body: &[u8]) -> (EventKey, u16) {
        post(&self.inbox, body).await
    }
}

async fn objects(inbox: &Inbox) -> usize {
    let bucket = inbox.stack.bucket("Bodies").unwrap();
    let list = inbox.stack.clients().s3.list_objects_v2().bucket(bucket);
    list.send().await.unwrap().contents().len()
}
