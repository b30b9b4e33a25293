//! Events that lack a value that the order of their source or the filter of an action needs.

use local::Options;
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Ledger;
use shared::monitoring::missing_paths::MissingRecord;
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use testkit::sources::SourcesFile;

use super::support::{Inbox, options, seconds_from_now, unique};
use super::support::{failures, record, work_message};

/// A source whose order was configured for the provider's older events.
const SOURCES: &str = r#"
schema = 1

[[source]]
name = "stripe-main"
preset = "stripe"
action = [
    { kind = "keep", name = "all" },
    { kind = "keep", name = "paid", types = ["v1.*"], where = [{ path = "data.object.status", equals = "paid" }] },
]
[source.order]
mode = "strict"
entity = "json:data.object.id"
"#;

async fn process(inbox: &Inbox, body: &serde_json::Value) {
    let text = body.to_string();
    let now = seconds_from_now(0);
    let signed = inbox.timed("stripe-main", "", &now, text.as_bytes());
    let answer = inbox.post("stripe-main", &signed, text.as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let key = EventKey::new("stripe-main", body["id"].as_str().unwrap());
    let records = [record(key.id(), &work_message(&key))];
    assert_eq!(failures(inbox, &records).await, [""; 0]);
}

/// Stores and processes an event of a repair, which has no path of the provider.
async fn repair(inbox: &Inbox) {
    let table = inbox.stack.table().unwrap();
    let ledger = Ledger::new(inbox.stack.clients().dynamodb, table, None);
    let (id, now) = (unique(), UnixMillis::now());
    let event = Event::fetched(Fetched {
        source: "stripe-main",
        provider: "stripe",
        preset: "stripe",
        id: &id,
        kind: "mitt.reconcile.missing",
        body: json!({"object": "sub_1"}).to_string().into(),
        now,
        via: Via::Recon,
        config: "test",
    });
    ledger.receive(&event, now).await.unwrap();
    let records = [record(&id, &work_message(event.key()))];
    assert_eq!(failures(inbox, &records).await, [""; 0]);
    let row = ledger.event(event.key()).await.unwrap().unwrap();
    assert!(!row.is_open());
}

async fn stored(inbox: &Inbox) -> Vec<MissingRecord> {
    let table = inbox.stack.table().unwrap();
    let ledger = Ledger::new(inbox.stack.clients().dynamodb, table, None);
    let now = UnixMillis::now();
    ledger.statistics().missing_paths(now).await.unwrap()
}

#[tokio::test]
async fn a_thin_event_lacks_what_its_order_and_filter_read() {
    let sources = SourcesFile::new("missing", SOURCES);
    let inbox = Inbox::start(Options {
        sources_file: Some(sources.path()),
        ..options()
    })
    .await;
    let snapshot = json!({"id": unique(), "type": "invoice.paid", "created": 1,
        "data": {"object": {"id": "in_1", "status": "paid"}}});
    process(&inbox, &snapshot).await;
    repair(&inbox).await;
    assert_eq!(stored(&inbox).await, []);

    for _ in 0..3 {
        let thin = json!({"id": unique(), "type": "v1.invoice.paid",
            "created": "2026-11-20T10:14:41Z", "related_object": {"id": "in_1"}});
        process(&inbox, &thin).await;
    }
    let stored = stored(&inbox).await;
    let told = stored.iter().map(|record| {
        let missing = &record.missing;
        let path = missing.path.as_str();
        (
            missing.used_for.as_str(),
            path,
            record.kind.as_str(),
            record.events,
        )
    });
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        [
            ("order", "json:data.object.id", "v1.invoice.paid", 1),
            ("filter", "json:data.object.status", "v1.invoice.paid", 1),
        ]
    );
    let log = std::fs::read_to_string(inbox.stack.log_file("Processor").unwrap()).unwrap();
    assert_eq!(log.matches("\"code\":\"path_missing\"").count(), 2);
    inbox.tells_nothing();
}
