//! The permissions of each function in the template. These tests cover the paths on which earlier
//! tests did not notice a missing permission.

use std::path::{Path, PathBuf};

use local::{Options, Rights};
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Ledger;
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use testkit::sources::SourcesFile;

use super::{
    bad_input::noise,
    budget::{Fault, Shaky},
    rights, root,
    support::{
        DEMO_SECRET, Inbox, failures, headers, hex, options, record, s, seconds_from_now, unique,
        with, work_message,
    },
};

/// Returns a template in which backup-sync may not read bodies.
fn without_get_object() -> PathBuf {
    let text = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let (before, role) = text.split_once("  BackupSyncRole:\n").unwrap();
    let role = role.replacen(
        "Action: s3:GetObject\n",
        "Action: s3:GetBucketLocation\n",
        1,
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.yaml", unique()));
    std::fs::write(&path, format!("{before}  BackupSyncRole:\n{role}")).unwrap();
    path
}

/// Spills a large and a small event of a source in strict order, and drains them. With `gone`, the
/// body of the large event is deleted before the drain.
async fn drained(template: PathBuf, rights: Rights, gone: bool) -> (Shaky, [EventKey; 2], Value) {
    let text =
        std::fs::read_to_string(root().join("functions/processor/tests/stack/order.toml")).unwrap();
    let sources = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.toml", unique()));
    // This test calls no destination.
    std::fs::write(&sources, text.replace("{downstream}", "http://127.0.0.1:9")).unwrap();
    let mut shaky = Shaky::start_with(Options {
        template,
        sources_file: Some(sources),
        rights: Some(rights),
        ..options()
    })
    .await;
    shaky.dynamodb.break_down(Fault::Error).await;
    let mut keys = Vec::new();
    for (version, filling) in [(1, hex::encode(noise(300_000))), (2, String::new())] {
        let id = unique();
        let body = json!({ "id": id, "entity": "one", "version": version, "filling": filling });
        let body = body.to_string();
        let signature = hex(DEMO_SECRET.as_bytes(), &[body.as_bytes()]);
        let headers = headers(&[
            ("content-type", "application/json"),
            ("x-signature", &signature),
        ]);
        let answer = shaky.inbox.post("strict", &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        keys.push(EventKey::new("strict", &id));
    }
    assert_eq!(shaky.waiting().await, 2);
    if gone {
        delete_bodies(&shaky.inbox).await;
    }
    let report = shaky.drain().await;
    (shaky, keys.try_into().unwrap(), report)
}

#[tokio::test]
async fn a_large_event_in_strict_order_is_drained() {
    for gone in [false, true] {
        let template = root().join("template.yaml");
        let (shaky, keys, report) = drained(template, rights::enforced(), gone).await;
        let figures = ["new", "failed", "stopped"].map(|name| &report[name]);
        assert_eq!(figures, [&json!(2), &json!(0), &json!(false)], "{report}");
        for key in &keys {
            shaky.inbox.row(key).await;
        }
        shaky.inbox.tells_nothing();
    }
}

async fn delete_bodies(inbox: &Inbox) {
    let (s3, bucket) = (
        inbox.stack.clients().s3,
        inbox.stack.bucket("Bodies").unwrap(),
    );
    let list = s3.list_objects_v2().bucket(bucket).send().await.unwrap();
    assert!(!list.contents().is_empty());
    for object in list.contents() {
        let delete = s3.delete_object().bucket(bucket).key(object.key().unwrap());
        delete.send().await.unwrap();
    }
}

/// A source whose action reads the body.
const READS_BODIES: &str = r#"
schema = 1
[[source]]
name = "github-main"
preset = "github"
action = [{ kind = "keep", where = [{ path = "action", equals = "opened" }] }]
"#;

/// S3 reports a missing object only to a caller that may list the bucket.
#[tokio::test]
async fn an_event_whose_body_is_gone_says_so() {
    let sources = SourcesFile::new("body-is-gone", READS_BODIES);
    let inbox = Inbox::start(Options {
        sources_file: Some(sources.path()),
        ..options()
    })
    .await;
    let (id, body) = (unique(), noise(100_000));
    let headers = with(inbox.github(&id, &body), "content-type", "image/png");
    assert_eq!(inbox.post("github-main", &headers, &body).await.status, 200);
    delete_bodies(&inbox).await;
    let key = EventKey::new("github-main", &id);
    let rung = [record("1", &work_message(&key))];
    assert_eq!(failures(&inbox, &rung).await, [""; 0]);
    let row = inbox.row(&key).await;
    assert_eq!(row["st"], s("dead_letter"));
    let error = row["err"].as_s().unwrap();
    assert!(error.contains("no longer exists"), "{error}");
}

/// The catcher may change only this attribute of an event, and the counts of repeated requests.
#[tokio::test]
async fn a_webhook_that_comes_after_the_sync_is_noted() {
    let inbox = Inbox::start(options()).await;
    let id = format!("evt_{}", unique());
    let body = json!({ "id": id, "type": "invoice.paid" }).to_string();
    let clients = inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, inbox.stack.table().unwrap(), None);
    let now = UnixMillis::now();
    let event = Event::fetched(Fetched {
        source: "stripe-main",
        provider: "stripe",
        preset: "stripe",
        id: &id,
        kind: "invoice.paid",
        body: body.clone().into(),
        now,
        via: Via::BackupSync,
        config: "test",
    });
    ledger.receive(&event, now).await.unwrap();
    let headers = inbox.timed("stripe-main", "", &seconds_from_now(0), body.as_bytes());
    let answer = inbox.post("stripe-main", &headers, body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let row = inbox.row(event.key()).await;
    assert!(row.contains_key("also_webhook"), "{row:?}");
}

#[tokio::test]
async fn a_request_that_comes_again_is_counted() {
    let inbox = Inbox::start(options()).await;
    let (id, other) = (format!("evt_{}", unique()), unique());
    let body = json!({ "id": id, "type": "invoice.paid" }).to_string();
    let (first, later) = (seconds_from_now(-2), seconds_from_now(0));
    for at in [&first, &first, &later] {
        let headers = inbox.timed("stripe-main", "", at, body.as_bytes());
        let answer = inbox.post("stripe-main", &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    for _ in 0..2 {
        let headers = inbox.github(&other, b"{}");
        assert_eq!(inbox.post("github-main", &headers, b"{}").await.status, 200);
    }
    let stripe = inbox.row(&EventKey::new("stripe-main", &id)).await;
    let github = inbox.row(&EventKey::new("github-main", &other)).await;
    for (row, name) in [(&stripe, "dr"), (&stripe, "dc"), (&github, "du")] {
        assert_eq!(row[name].as_n().unwrap(), "1", "{name}: {row:?}");
        assert!(row.contains_key("dat"), "{row:?}");
    }
    let log = std::fs::read_to_string(inbox.stack.log_file("Catcher").unwrap()).unwrap();
    for word in ["resent", "copied", "repeated"] {
        assert!(
            log.contains(&format!(r#""repeat":"{word}""#)),
            "{word}: {log}"
        );
    }
}

/// The local stack detects a permission that is missing in the template. One body that cannot be
/// read does not stop the drain.
#[tokio::test]
async fn a_body_that_cannot_be_read_does_not_stop_the_drain() {
    let template = without_get_object();
    let (shaky, [large, small], report) = drained(template, Rights::default(), false).await;
    let figures = ["new", "failed", "stopped"].map(|name| &report[name]);
    assert_eq!(figures, [&json!(1), &json!(1), &json!(false)], "{report}");
    assert_eq!(shaky.inbox.find(&large).await, None);
    shaky.inbox.row(&small).await;
    let log = std::fs::read_to_string(shaky.inbox.stack.log_file("BackupSync").unwrap()).unwrap();
    assert!(log.contains("AccessDenied"), "{log}");
}
