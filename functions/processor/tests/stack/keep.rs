//! Events that Mitt only keeps. They have no effect, so the processor records them as done without
//! a lease.

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::webhook::event::EventKey;
use testkit::sources::SourcesFile;

use super::support::work_message;
use super::support::{Inbox, Item, failures, options, record, s, seconds_from_now, unique};

const SOURCES: &str = r#"
schema = 1

[[source]]
name = "stripe-main"
preset = "stripe"
action = [{ kind = "keep", name = "all" }]
"#;

async fn receive(inbox: &Inbox) -> EventKey {
    let id = format!("evt_{}", unique());
    let body = json!({"id": id, "type": "invoice.paid"}).to_string();
    let now = seconds_from_now(0);
    let signed = inbox.timed("stripe-main", "", &now, body.as_bytes());
    let answer = inbox.post("stripe-main", &signed, body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    EventKey::new("stripe-main", &id)
}

async fn process(inbox: &Inbox, key: &EventKey) -> Item {
    let records = [record(key.id(), &work_message(key))];
    assert_eq!(failures(inbox, &records).await, [""; 0]);
    inbox.row(key).await
}

fn number(row: &Item, name: &str) -> i64 {
    row[name].as_n().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_kept_event_is_done_once_and_a_crashed_attempt_is_taken_over() {
    let sources = SourcesFile::new("keep", SOURCES);
    let inbox = Inbox::start(Options {
        sources_file: Some(sources.path()),
        ..options()
    })
    .await;

    let key = receive(&inbox).await;
    let row = process(&inbox, &key).await;
    assert_eq!(row["st"], s("done"));
    assert_eq!([number(&row, "epoch"), number(&row, "att")], [1, 1]);
    // The event was claimed and settled at the same time, which two writes cannot do.
    let entry = row["h"].as_l().unwrap()[0].as_s().unwrap();
    let fields: Vec<&str> = entry.split('|').collect();
    let [at, until] = [0, 3].map(|field| UnixMillis(fields[field].parse().unwrap()));
    assert_eq!(until, at + LEASE, "{entry}");
    // The queue may deliver the message again.
    assert_eq!(process(&inbox, &key).await, row);
    let log = std::fs::read_to_string(inbox.stack.log_file("Processor").unwrap()).unwrap();
    assert_eq!(
        log.matches("\"message\":\"attempt 1: done\"").count(),
        1,
        "{log}"
    );

    // A worker of an earlier release claimed this event, and crashed.
    let key = receive(&inbox).await;
    let mut row = inbox.row(&key).await;
    let long_ago = UnixMillis::now() - std::time::Duration::from_secs(3_600);
    for (name, value) in [
        ("st", s("processing")),
        ("own", s("processor/1")),
        ("lu", AttributeValue::N(long_ago.0.to_string())),
        ("epoch", AttributeValue::N("1".into())),
        ("att", AttributeValue::N("1".into())),
    ] {
        row.insert(name.into(), value);
    }
    inbox.put(row).await;
    let row = process(&inbox, &key).await;
    assert_eq!(row["st"], s("done"));
    assert_eq!([number(&row, "epoch"), number(&row, "att")], [2, 2]);
    inbox.tells_nothing();
}
