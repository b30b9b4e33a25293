//! An event that waits for a worker outside of Lambda, after the actions of the processor are done.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Again, Ledger, Replayed, Settlement, WorkClaim};
use shared::webhook::event::EventKey;
use testkit::sources::SourcesFile;

use super::support::work_message;
use super::support::{Inbox, Item, failures, options, record, s, seconds_from_now, unique};

const SOURCES: &str = r#"
schema = 1

[[source]]
name = "stripe-main"
preset = "stripe"

[[source.action]]
kind = "keep"
name = "audit"

[[source.action]]
kind = "pull"
name = "refund"
queue = "triage"
types = ["charge.*"]
destination = "erp"
"#;

const PLAN: &str = "rpl_7KQ2M4";

async fn receive(inbox: &Inbox, kind: &str) -> EventKey {
    let id = format!("evt_{}", unique());
    let body = json!({"id": id, "type": kind}).to_string();
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

#[tokio::test]
async fn an_event_is_parked_once_its_other_actions_are_done() {
    let sources = SourcesFile::new("pull", SOURCES);
    let inbox = Inbox::start(Options {
        sources_file: Some(sources.path()),
        ..options()
    })
    .await;
    let clients = inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, inbox.stack.table().unwrap(), None);

    // The filter of the action leaves the event to the processor alone.
    let other = receive(&inbox, "invoice.paid").await;
    assert_eq!(process(&inbox, &other).await["st"], s("done"));

    let key = receive(&inbox, "charge.refunded").await;
    let row = process(&inbox, &key).await;
    assert_eq!([&row["st"], &row["pul"]], [&s("received"), &s("triage")]);
    assert_eq!(row["gpk"], s("P#stripe-main"));
    assert_eq!(row["sv"], AttributeValue::N("4".into()));
    // The queue may deliver the message again.
    assert_eq!(process(&inbox, &key).await, row);

    // A worker does the last action.
    let now = UnixMillis::now();
    let until = now + Duration::from_secs(120);
    let claim = ledger.claim_work(&key, "triage", "w:1", now, until, 10);
    let WorkClaim::Leased(lease) = claim.await.unwrap() else {
        panic!("the event is available");
    };
    let row = inbox.row(&key).await;
    assert_eq!(process(&inbox, &key).await, row);
    let done = shared::delivery::effects::effect_row(
        &lease.row,
        "refund",
        shared::inbox::ledger::EffectState::Done,
        shared::sources::policy::IdempotencySupport::Honoured,
        "",
        now,
    );
    let effects = [("refund".to_owned(), done)];
    let settled = ledger.settle(*lease, Settlement::Done, &effects, now);
    settled.await.unwrap();

    // A replay that keeps the effects does not park the event again, and another one does.
    for (new_effects, state) in [(false, "done"), (true, "received")] {
        let seen = ledger.event(&key).await.unwrap().unwrap().epoch;
        let events = [(key.clone(), seen)];
        let plans = ledger.plans();
        let plan = format!("{PLAN}{seen}");
        plans.plan_events(&plan, &events, until).await.unwrap();
        let again = Again {
            plan: &plan,
            seen,
            new_effects,
        };
        let replayed = plans.replay(&key, &again, UnixMillis::now()).await;
        assert_eq!(replayed.unwrap(), Replayed::Again);
        let row = process(&inbox, &key).await;
        assert_eq!(row["st"], s(state));
        assert_eq!(row.contains_key("pul"), new_effects);
    }
    let log = std::fs::read_to_string(inbox.stack.log_file("Processor").unwrap()).unwrap();
    assert_eq!(log.matches("\"outcome\":\"parked\"").count(), 2, "{log}");
    inbox.tells_nothing();
}

#[tokio::test]
async fn an_event_that_only_workers_take_needs_no_run_of_the_processor() {
    let direct = SOURCES.replace("kind = \"keep\"\nname = \"audit\"\n", "");
    let direct = direct.replace("[[source.action]]\n\n[[", "[[");
    let sources = SourcesFile::new(
        "pull-direct",
        &direct.replace("types = [\"charge.*\"]\n", ""),
    );
    let inbox = Inbox::start(Options {
        sources_file: Some(sources.path()),
        ..options()
    })
    .await;
    let key = receive(&inbox, "charge.refunded").await;
    let row = inbox.row(&key).await;
    assert_eq!([&row["st"], &row["pul"]], [&s("received"), &s("triage")]);
    assert_eq!(row["gpk"], s("P#stripe-main"));
    assert!(!row.contains_key("enq"), "no message was sent: {row:?}");
    // A message of a replay, or of an older configuration, changes nothing.
    assert_eq!(process(&inbox, &key).await, row);
    inbox.tells_nothing();
}
