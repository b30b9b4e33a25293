//! Sources that an operator applies while the functions run.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::json;
use shared::inbox::current_sources::LOOK_AGAIN;
use shared::inbox::ledger::{AuditAction, Through};
use shared::inbox::source_versions::{Applied, NewVersion, SourceVersions};
use shared::sources::Config;
use shared::webhook::event::EventKey;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Interval, interval};

use super::budget::{Fault, Shaky};
use super::support::{DEMO_SECRET, Inbox, failures, options, record, s, unique, work_message};
use testkit::inbox::{Answer, headers, hex};

/// The sources that the functions contain.
const BUILT_IN: &[&str] = &["github-main"];

/// Returns a sources file with these sources. All of them have the secret of `github-main`.
fn file(names: &[&str]) -> String {
    let sources = names.iter().map(|name| {
        format!(
            "[[source]]\nname = \"{name}\"\npreset = \"github\"\nsecret = \"github-main\"\n\
             action = [{{ kind = \"keep\" }}]\n"
        )
    });
    format!("schema = 1\n{}", sources.collect::<String>())
}

fn following() -> Options {
    let folder = std::env::temp_dir().join(format!("mitt-run-time-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("sources.toml");
    std::fs::write(&path, file(BUILT_IN)).unwrap();
    Options {
        sources_file: Some(path),
        parameters: [("Sources".to_owned(), "table".to_owned())].into(),
        ..options()
    }
}

fn versions(inbox: &Inbox) -> SourceVersions {
    let table = inbox.stack.table().unwrap();
    SourceVersions::new(inbox.stack.clients().dynamodb, table)
}

pub(crate) async fn apply(inbox: &Inbox, text: &str, seen: u64) {
    let new = NewVersion {
        text,
        seen,
        audit: AuditAction {
            through: Through::Cli,
            what: "sources.apply",
            who: "alice".to_owned(),
            why: "why".to_owned(),
            selection: String::new(),
            count: 0,
        },
    };
    let now = shared::base::clock::UnixMillis::now();
    let applied = versions(inbox).apply(&new, now).await.unwrap();
    assert_eq!(applied, Applied::Version(seen + 1));
}

async fn deliver(inbox: &Inbox, source: &str, id: &str) -> Answer {
    let body = format!(r#"{{"id":"{id}"}}"#);
    let signature = hex(DEMO_SECRET.as_bytes(), &[body.as_bytes()]);
    let headers = headers(&[
        ("content-type", "application/json"),
        ("x-github-delivery", id),
        ("x-github-event", "push"),
        ("x-hub-signature-256", &format!("sha256={signature}")),
    ]);
    inbox.post(source, &headers, body.as_bytes()).await
}

async fn status(inbox: &Inbox, source: &str) -> u16 {
    deliver(inbox, source, &unique()).await.status
}

fn log(inbox: &Inbox) -> String {
    let path = inbox.stack.log_file("Catcher").unwrap();
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The functions may only read these items, and each of them uses the permission.
#[tokio::test]
async fn a_new_source_is_served_and_processed_without_a_deployment() {
    let inbox = Inbox::start(following()).await;
    assert_eq!(status(&inbox, "github-main").await, 200);
    let text = file(&["github-main", "shop"]);
    apply(&inbox, &text, 0).await;
    let id = unique();
    let answer = deliver(&inbox, "shop", &id).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let key = EventKey::new("shop", &id);
    let row = inbox.row(&key).await;
    assert_eq!(row["cfg"], s(Config::hash_of(&text)));
    let rung = [record("1", &work_message(&key))];
    assert_eq!(failures(&inbox, &rung).await, [""; 0]);
    assert_eq!(inbox.row(&key).await["st"], s("done"));
    inbox
        .invoke("BackupSync", &json!({ "task": "drain" }))
        .await;
    let table = inbox.stack.table().unwrap();
    let ledger = shared::inbox::ledger::Ledger::new(inbox.stack.clients().dynamodb, table, None);
    let (_, report) = ledger.operations().sources_report().await.unwrap().unwrap();
    assert_eq!((report.from_table, report.version), (true, Some(1)));
    assert_eq!(report.hash, Config::hash_of(&text));
    inbox.is_unharmed();
}

#[tokio::test]
async fn requests_during_an_apply_see_no_404_and_each_event_has_one_key() {
    let inbox = Inbox::start(following()).await;
    let mut keys = BTreeSet::new();
    for seen in 0..4_u64 {
        let name = format!("new-{seen}");
        let text = file(&["github-main", &name]);
        let (id, other) = (unique(), unique());
        let ((), first, second) = tokio::join!(
            apply(&inbox, &text, seen),
            deliver(&inbox, "github-main", &id),
            deliver(&inbox, "github-main", &other),
        );
        // The provider delivers the first event again.
        let again = deliver(&inbox, "github-main", &id).await;
        for answer in [first, second, again] {
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        keys.extend([id, other]);
        // A new process begins with the newest version.
        inbox.kill_catcher().await;
        assert_eq!(status(&inbox, &name).await, 200);
    }
    for id in keys {
        let row = inbox.row(&EventKey::new("github-main", &id)).await;
        assert!(matches!(row["cfg"], AttributeValue::S(_)), "{row:?}");
    }
    inbox.tells_nothing();
}

/// Returns the highest rate at which the load test posts, in requests a second. `make load` sets
/// it to 200.
fn rate() -> usize {
    #[expect(clippy::disallowed_methods, reason = "a setting of this test")]
    let rate = std::env::var("MITT_RATE").ok();
    rate.map_or(50, |rate| rate.parse().unwrap())
}

/// The time between two applies, in seconds. Webhooks of the new source arrive in the first one.
/// [`LOOK_AGAIN`] follows, because a process looks for an unknown source only once in this time.
const BETWEEN: usize = 11;

/// The processes of the catcher in the load test. As many requests are sent at a time, so that a
/// slow machine gets fewer requests in a second, and no request waits for a process.
const PROCESSES: usize = 4;

/// The webhooks of the load test.
struct Load {
    inbox: Arc<Inbox>,
    free: Arc<Semaphore>,
    ticks: Interval,
    posts: Vec<JoinHandle<Answer>>,
    /// The source and the id of each webhook.
    sent: Vec<(String, String)>,
}

impl Load {
    async fn start() -> Self {
        let options = Options {
            max_processes: PROCESSES,
            ..following()
        };
        let rate = u32::try_from(rate()).unwrap();
        Self {
            inbox: Arc::new(Inbox::start(options).await),
            free: Arc::new(Semaphore::new(PROCESSES)),
            ticks: interval(Duration::from_secs(1) / rate),
            posts: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Posts a webhook as soon as a process is free. Every second one repeats the one before it, if
    /// that has the same source.
    async fn post(&mut self, source: &str, turn: usize) {
        self.ticks.tick().await;
        let permit = Arc::clone(&self.free).acquire_owned().await.unwrap();
        let id = match self.sent.last() {
            Some((known, id)) if turn % 2 == 1 && known == source => id.clone(),
            _ => unique(),
        };
        let source = source.to_owned();
        self.sent.push((source.clone(), id.clone()));
        let inbox = Arc::clone(&self.inbox);
        self.posts.push(tokio::spawn(async move {
            let answer = deliver(&inbox, &source, &id).await;
            drop(permit);
            answer
        }));
    }

    /// Posts webhooks between two applies. Those of the new source begin when `is_applied` is set.
    async fn post_between(&mut self, added: &str, is_applied: &Cell<bool>) {
        let mut looked = Instant::now();
        for turn in 0..BETWEEN * rate() {
            if turn == rate() {
                // All processes that got a webhook of the new source have looked for it.
                let others = u32::try_from(PROCESSES - 1).unwrap();
                drop(self.free.acquire_many(others).await.unwrap());
                looked = Instant::now();
            }
            let is_new = is_applied.get() && turn < rate() && turn % 4 < 2;
            let source = if is_new { added } else { BUILT_IN[0] };
            self.post(source, turn).await;
        }
        tokio::time::sleep_until((looked + LOOK_AGAIN).into()).await;
    }
}

/// Applies three versions while webhooks arrive, many of them twice. Webhooks of a new source
/// arrive as soon as its version is applied.
#[tokio::test]
async fn applies_under_load_lose_and_double_nothing() {
    let mut load = Load::start().await;
    let inbox = Arc::clone(&load.inbox);
    let begun = Instant::now();
    let mut names = vec![BUILT_IN[0].to_owned()];
    for seen in 0..3_u64 {
        let added = format!("new-{seen}");
        names.push(added.clone());
        let text = file(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let is_applied = Cell::new(false);
        let applying = async {
            apply(&inbox, &text, seen).await;
            is_applied.set(true);
        };
        tokio::join!(applying, load.post_between(&added, &is_applied));
    }
    let mut wrong = Vec::new();
    for (post, (source, _)) in load.posts.into_iter().zip(&load.sent) {
        let answer = post.await.unwrap();
        if answer.status != 200 {
            wrong.push((source, answer.status, answer.body));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}\n{}", log(&inbox));
    let rate = load.sent.len() as u64 / begun.elapsed().as_secs();
    println!("{} requests, {rate} in a second", load.sent.len());
    let got = |name| load.sent.iter().any(|(source, _)| source == name);
    assert!(names.iter().all(got), "each new source gets webhooks");
    // A request that found no time for the table is in the spill queue.
    inbox
        .invoke("BackupSync", &json!({ "task": "drain" }))
        .await;
    let expected: BTreeSet<_> = load
        .sent
        .iter()
        .map(|(source, id)| EventKey::new(source, id).pk())
        .collect();
    let stored = state_rows(&inbox).await;
    assert_eq!(stored.len(), expected.len(), "an event has two rows");
    assert_eq!(stored.into_iter().collect::<BTreeSet<_>>(), expected);
    inbox.tells_nothing();
}

/// Returns the partition key of each event.
async fn state_rows(inbox: &Inbox) -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "a test may read the whole table")]
    let scan = inbox.stack.clients().dynamodb.scan();
    let rows = scan
        .table_name(inbox.stack.table().unwrap())
        .filter_expression("sk = :state AND begins_with(pk, :event)")
        .expression_attribute_values(":state", s("M"))
        .expression_attribute_values(":event", s("E#"))
        .into_paginator()
        .items()
        .send()
        .collect::<Result<Vec<_>, _>>()
        .await
        .unwrap();
    rows.iter()
        .map(|row| row["pk"].as_s().unwrap().clone())
        .collect()
}

#[tokio::test]
async fn a_removed_source_is_unknown_to_a_new_process() {
    let inbox = Inbox::start(following()).await;
    apply(&inbox, &file(&["shop"]), 0).await;
    assert_eq!(status(&inbox, "shop").await, 200);
    assert_eq!(status(&inbox, "github-main").await, 404);
}

#[tokio::test]
async fn a_version_with_a_newer_schema_changes_nothing() {
    let inbox = Inbox::start(following()).await;
    let newer = file(&["shop"]).replace("schema = 1", "schema = 2");
    apply(&inbox, &newer, 0).await;
    assert_eq!(status(&inbox, "github-main").await, 200);
    assert_eq!(status(&inbox, "shop").await, 503, "the source may exist");
    let log = log(&inbox);
    assert!(log.contains("version 1 cannot be used"), "{log}");
    assert!(log.contains("schema 2 is not supported"), "{log}");
    assert!(log.contains("keeps the built-in file"), "{log}");
}

#[tokio::test]
async fn while_the_table_is_down_no_source_is_answered_with_404() {
    let mut shaky = Shaky::start_with(Options {
        rights: None,
        ..following()
    })
    .await;
    shaky.dynamodb.break_down(Fault::Error).await;
    assert_eq!(status(&shaky.inbox, "shop").await, 503);
    let id = unique();
    let spilled = deliver(&shaky.inbox, "github-main", &id).await;
    assert_eq!(spilled.status, 200, "the event is spilled: {spilled:?}");
    shaky.dynamodb.break_down(Fault::Silent).await;
    let answer = deliver(&shaky.inbox, "github-main", &unique()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(shaky.waiting().await, 2);
    shaky.dynamodb.mend().await;
    apply(&shaky.inbox, &file(&["github-main", "shop"]), 0).await;
    shaky.inbox.kill_catcher().await;
    assert_eq!(status(&shaky.inbox, "shop").await, 200);
}

/// Without the parameter, the functions neither read the items nor may read them.
#[tokio::test]
async fn with_embedded_sources_the_table_is_ignored() {
    let inbox = Inbox::start(Options {
        parameters: [].into(),
        ..following()
    })
    .await;
    apply(&inbox, &file(&["shop"]), 0).await;
    assert_eq!(status(&inbox, "shop").await, 404);
    assert_eq!(status(&inbox, "github-main").await, 200);
    inbox.is_unharmed();
}
