//! The health report of the sweep. An alarm fires on this log line, and also if the line is
//! missing.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{AuditAction, FlagKind, Ledger, OperatorFlag, Through};
use shared::inbox::source_versions::{NewVersion, SourceVersions};
use shared::monitoring::missing_paths::Noted;
use shared::webhook::missing::{MissingPath, PathUse};
use testkit::sources::SourcesFile;

use super::support::{Inbox, options, unique};

const MINUTE: Duration = Duration::from_secs(60);

/// An operator applied a version that the functions cannot use.
#[tokio::test]
async fn a_sweep_names_sources_that_cannot_be_used() {
    let inbox = Inbox::start(Options {
        parameters: [("Sources".to_owned(), "table".to_owned())].into(),
        ..options()
    })
    .await;
    assert_eq!(health(&inbox).await, (0, String::new()));
    let clients = inbox.stack.clients();
    let versions = SourceVersions::new(clients.dynamodb, inbox.stack.table().unwrap());
    let new = NewVersion {
        text: "schema = 99",
        seen: 0,
        audit: AuditAction {
            through: Through::Cli,
            what: "sources.apply",
            who: "alice".to_owned(),
            why: "why".to_owned(),
            selection: String::new(),
            count: 0,
        },
    };
    versions.apply(&new, UnixMillis::now()).await.unwrap();
    assert_eq!(health(&inbox).await, (1, "sources".to_owned()));
}

/// A source with the destination `erp`.
const DESTINATIONS: &str = "\
schema = 1

[[source]]
name = \"github-main\"
preset = \"github\"
action = [{ kind = \"http\", url = \"https://erp.example.com/hook\", secret = \"hook\", destination = \"erp\" }]

[forward]
allow_hosts = [\"erp.example.com\"]
";

/// An open breaker uses no attempts, so no dead letter tells an operator of it.
#[tokio::test]
async fn a_sweep_names_a_destination_that_is_down() {
    let folder = std::env::temp_dir().join(format!("mitt-health-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sources.toml");
    std::fs::write(&file, DESTINATIONS).unwrap();
    let inbox = Inbox::start(Options {
        sources_file: Some(file),
        ..options()
    })
    .await;
    assert_eq!(health(&inbox).await, (0, String::new()));

    let now = UnixMillis::now();
    let breaker = async |name: &str, until: UnixMillis, written: UnixMillis| {
        let number = |at: UnixMillis| AttributeValue::N(at.0.to_string());
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let item = [
            ("pk", text("SYS")),
            ("sk", text(&format!("BRK#{name}"))),
            ("rev", AttributeValue::N("1".to_owned())),
            ("n", AttributeValue::N("1".to_owned())),
            ("til", number(until)),
            ("wat", number(written)),
        ];
        let item = item.map(|(name, value)| (name.to_owned(), value));
        inbox.put(item.into()).await;
    };
    breaker("removed.example.com", now + MINUTE, now).await;
    assert_eq!(health(&inbox).await, (0, String::new()), "not configured");
    breaker("erp", now + MINUTE, now).await;
    assert_eq!(health(&inbox).await, (1, "down.erp".to_owned()));
    // Between two probes, the breaker stays open.
    breaker("erp", now - MINUTE, now - MINUTE).await;
    assert_eq!(health(&inbox).await, (1, "down.erp".to_owned()));
    // No event waits for the destination.
    breaker("erp", now - MINUTE, now - MINUTE * 16).await;
    assert_eq!(health(&inbox).await, (0, String::new()));
    inbox.is_unharmed();
}

/// Without the id, a repeated delivery can become a second event.
#[tokio::test]
async fn a_sweep_names_a_source_whose_events_lack_their_id() {
    let inbox = Inbox::start(options()).await;
    let clients = inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, inbox.stack.table().unwrap(), None);
    let now = UnixMillis::now();
    let lacks = async |source: &str, used_for, at| {
        let noted = Noted {
            source: source.to_owned(),
            kind: "push".to_owned(),
            missing: MissingPath::new(used_for, "json:id"),
            events: 1,
        };
        ledger.statistics().keep_missing(&noted, at).await.unwrap();
    };
    lacks("github-main", PathUse::Type, now).await;
    lacks("github-main", PathUse::Filter, now).await;
    lacks("removed", PathUse::Id, now).await;
    lacks("github-main", PathUse::Id, now - MINUTE * 121).await;
    assert_eq!(health(&inbox).await, (0, String::new()));
    lacks("github-main", PathUse::Id, now - MINUTE * 110).await;
    lacks("stripe-main", PathUse::Order, now).await;
    let said = "paths.github-main paths.stripe-main".to_owned();
    assert_eq!(health(&inbox).await, (2, said));
    inbox.is_unharmed();
}

/// A destination can answer each call with a status that asks for another try.
#[tokio::test]
async fn a_sweep_names_events_that_wait_too_long() {
    let inbox = Inbox::start(options()).await;
    let key = inbox.new_event().await;
    let now = UnixMillis::now();
    let open = async |received: UnixMillis, run: &str, look: UnixMillis| {
        let number = |at: UnixMillis| AttributeValue::N(at.0.to_string());
        let mut row = inbox.row(&key).await;
        row.insert("st".into(), AttributeValue::S("failed".into()));
        row.insert("gpk".into(), AttributeValue::S("W#0".into()));
        row.insert("gsk".into(), number(look));
        row.insert("due".into(), number(look));
        row.insert("rcv".into(), number(received));
        row.insert("run".into(), AttributeValue::N(run.to_owned()));
        inbox.put(row).await;
    };
    let waiting = (1, "waiting".to_owned());
    let later = now + MINUTE * 60;
    open(now - MINUTE * 29, "0", later).await;
    assert_eq!(health(&inbox).await, (0, String::new()));
    open(now - MINUTE * 31, "0", later).await;
    assert_eq!(health(&inbox).await, waiting);
    // An old event that an operator has just replayed does not wait.
    open(now - MINUTE * 31, "1", later).await;
    assert_eq!(health(&inbox).await, (0, String::new()));

    open(now - MINUTE * 31, "0", later).await;
    let clients = inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, inbox.stack.table().unwrap(), None);
    let flag = OperatorFlag::new("alice", "a bad release", String::new(), now).unwrap();
    let pause = FlagKind::Pause("github-main");
    ledger.operations().set_flag(pause, &flag).await.unwrap();
    assert_eq!(health(&inbox).await, (0, String::new()), "it is paused");
    inbox.is_unharmed();
}

/// A source whose events workers take from a queue.
const QUEUE: &str = "\
schema = 1

[[source]]
name = \"github-main\"
preset = \"github\"
action = [{ kind = \"pull\", queue = \"triage\" }]
";

#[tokio::test]
async fn a_sweep_names_queues_whose_events_no_worker_takes() {
    let sources = SourcesFile::new("queue", QUEUE);
    let inbox = Inbox::start(Options {
        sources_file: Some(sources.path()),
        ..options()
    })
    .await;
    let key = inbox.new_event().await;
    let now = UnixMillis::now();
    let available = async |since: UnixMillis| {
        let mut row = inbox.row(&key).await;
        row.insert("pul".into(), AttributeValue::S("triage".into()));
        row.insert("sv".into(), AttributeValue::N("4".into()));
        row.insert("gpk".into(), AttributeValue::S("P#github-main".into()));
        row.insert("gsk".into(), AttributeValue::N(since.0.to_string()));
        inbox.put(row).await;
    };
    available(now - MINUTE * 29).await;
    assert_eq!(health(&inbox).await, (0, String::new()));
    available(now - MINUTE * 31).await;
    assert_eq!(health(&inbox).await, (1, "pull.triage".to_owned()));
    // The sweep sends no message for the event, and the row does not change.
    let row = inbox.row(&key).await;
    assert_eq!(row["st"], AttributeValue::S("received".into()));
    assert!(!row.contains_key("enq_n"));
    inbox.is_unharmed();
}

/// Returns how many checks fail, and which. A new process reports them with its first sweep.
async fn health(inbox: &Inbox) -> (u64, String) {
    let killed = inbox.stack.kill_function_processes("BackupSync").await;
    killed.unwrap();
    let sweep = json!({ "task": "sweep" });
    inbox.invoke("BackupSync", &sweep).await.json().unwrap();
    let log = std::fs::read_to_string(inbox.stack.log_file("BackupSync").unwrap()).unwrap();
    let lines = log.lines();
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut told = lines.map(|line| line["fields"].clone());
    let told = told.rfind(|fields| fields["metric"] == "health").unwrap();
    let words = told["violated"].as_str().unwrap_or_default();
    (told["violated_checks"].as_u64().unwrap(), words.to_owned())
}

#[tokio::test]
async fn a_sweep_names_each_check_that_is_violated() {
    let inbox = Inbox::start(options()).await;
    assert_eq!(health(&inbox).await, (0, String::new()), "the inbox is new");

    let clients = inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, inbox.stack.table().unwrap(), None);
    let now = UnixMillis::now();
    ledger
        .operations()
        .beat("drain", now - MINUTE)
        .await
        .unwrap();
    ledger
        .operations()
        .beat("sync", now - MINUTE * 46)
        .await
        .unwrap();
    assert_eq!(health(&inbox).await, (1, "late.sync".to_owned()));

    ledger
        .operations()
        .beat("drain", now - MINUTE * 16)
        .await
        .unwrap();
    ledger.operations().beat("sync", now).await.unwrap();
    let key = inbox.new_event().await;
    let mut row = inbox.row(&key).await;
    row.insert("gpk".into(), AttributeValue::S("D#0".into()));
    row.insert("gsk".into(), AttributeValue::N(now.0.to_string()));
    inbox.put(row).await;
    let said = (2, "late.drain dead_letters".to_owned());
    assert_eq!(health(&inbox).await, said);
    ledger
        .operations()
        .beat("drain", UnixMillis::now())
        .await
        .unwrap();

    // A captured request of GitHub, sent again under new ids.
    let body = inbox.canary().into_bytes();
    for id in [unique(), unique(), unique()] {
        let sent = inbox.github(&id, &body);
        let answer = inbox.post("github-main", &sent, &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let said = (2, "dead_letters quarantined".to_owned());
    assert_eq!(health(&inbox).await, said);
    // The alarm counts the conflict once, whatever the number of copies.
    let log = std::fs::read_to_string(inbox.stack.log_file("Catcher").unwrap()).unwrap();
    let told = |word: &str| log.matches(&format!("\"received\":\"{word}\"")).count();
    assert_eq!((told("conflict"), told("repeated_conflict")), (1, 1));
    inbox.is_unharmed();
}
