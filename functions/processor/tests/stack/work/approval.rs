//! Roles that approve and reject held events over the API.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Through};
use shared::webhook::event::EventKey;

use super::World;
use crate::support::{failures, record, s, seconds_from_now, unique, work_message};

const SOURCES: &str = r#"
schema = 1

[[source]]
name = "stripe-main"
preset = "stripe"

[[source.action]]
kind = "pull"
name = "refund"
queue = "refunds"
workers = ["arn:aws:iam::000000000000:role/one"]

[[source.policy]]
name = "large"
amount = { path = "amount", above = 5 }
decide = "hold"
approvers = ["arn:aws:iam::000000000000:role/people/oncall", "arn:aws:iam::000000000000:role/cfo"]

[[source.policy]]
name = "huge"
amount = { path = "amount", above = 100 }
decide = "hold"
approvers = ["arn:aws:iam::000000000000:role/cfo"]

[[source]]
name = "free"
preset = "stripe"
action = [{ kind = "keep" }]
"#;

impl World {
    /// Stores an event with this amount, and lets the processor hold it. Returns the id of the hold.
    async fn held(&self, amount: u32) -> (EventKey, String) {
        let id = format!("evt_{}", unique());
        let body = json!({ "id": id, "type": "refund.created", "amount": amount }).to_string();
        let now = seconds_from_now(0);
        let signed = self.inbox.timed("stripe-main", "", &now, body.as_bytes());
        let answer = self
            .inbox
            .post("stripe-main", &signed, body.as_bytes())
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let key = EventKey::new("stripe-main", &id);
        self.process(&key).await;
        let row = self.inbox.row(&key).await;
        let hold = row["hld"].as_m().unwrap();
        (key, hold["id"].as_s().unwrap().clone())
    }

    async fn process(&self, key: &EventKey) {
        let records = [record(key.id(), &work_message(key))];
        assert_eq!(failures(&self.inbox, &records).await, [""; 0]);
    }

    async fn decide(&self, role: &str, op: &str, body: &Value) -> (u16, Value) {
        self.call(role, &format!("stripe-main/{op}"), body).await
    }
}

fn decision(key: &EventKey, hold: &str) -> Value {
    json!({ "key": key.to_string(), "hold": hold, "reason": "the customer called" })
}

#[tokio::test]
async fn an_approver_decides_over_the_api_and_the_worker_gets_the_event() {
    let world = World::with("approval", SOURCES).await;
    let (key, hold) = world.held(10).await;
    let asked = decision(&key, &hold);
    let nothing = world.ok_in("refunds", "one", "next", &json!({})).await;
    assert_eq!(nothing["events"], json!([]));
    let (status, approved) = world.decide("oncall", "approve", &asked).await;
    assert_eq!((status, &approved["status"]), (200, &json!("received")));
    // The answer can be lost, so the request can come again.
    let (status, again) = world.decide("oncall", "approve", &asked).await;
    assert_eq!((status, &again), (200, &approved));
    assert!(!world.inbox.row(&key).await.contains_key("hld"));

    let now = UnixMillis::now();
    let clients = world.inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, world.inbox.stack.table().unwrap(), None);
    let log = ledger.operations();
    let log = log.audit_log(UnixMillis(now.0 - 600_000), now, 10, |_| true);
    let log = log.await.unwrap().found;
    let [entry] = log.as_slice() else {
        panic!("one decision was made: {log:?}");
    };
    assert_eq!(
        (entry.what.as_str(), entry.through),
        ("hold.approve", Through::Api)
    );
    assert_eq!(entry.who, approved["by"]);
    assert!(entry.who.contains("role/oncall"), "{}", entry.who);

    world.process(&key).await;
    let taken = world.ok_in("refunds", "one", "next", &json!({})).await;
    assert_eq!(taken["events"][0]["key"], key.to_string());
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn only_an_approver_of_each_rule_decides() {
    let world = World::with("approval-roles", SOURCES).await;
    let (key, hold) = world.held(1_000).await;
    let before = world.inbox.row(&key).await;
    assert_eq!(before["hld"].as_m().unwrap()["rule"], s("large, huge"));
    let asked = decision(&key, &hold);
    for op in ["approve", "reject"] {
        // A worker of the source, another role, and an approver of one of the two rules.
        for role in ["one", "two", "oncall"] {
            let (status, answer) = world.decide(role, op, &asked).await;
            assert_eq!(
                (status, &answer["error"]),
                (403, &json!("not_allowed")),
                "{role}"
            );
        }
        let (status, answer) = world.call("cfo", &format!("free/{op}"), &asked).await;
        assert_eq!((status, &answer["error"]), (403, &json!("not_allowed")));
        let (status, answer) = world.call("cfo", &format!("gone/{op}"), &asked).await;
        assert_eq!((status, &answer["error"]), (404, &json!("unknown_source")));
        for (field, value, status, code) in [
            ("hold", json!("0123456789ab"), 409, "moved"),
            ("key", json!("stripe-main:evt_other"), 404, "unknown_event"),
            ("key", json!("free:evt_other"), 400, "invalid_request"),
            ("key", json!("stripe-main"), 400, "invalid_request"),
            ("key", json!("stripe-main:a#b"), 400, "invalid_request"),
            ("reason", json!(" "), 400, "invalid_request"),
            ("reason", json!(7), 400, "invalid_request"),
        ] {
            let mut other = asked.clone();
            other[field] = value;
            let (its, answer) = world.decide("cfo", op, &other).await;
            assert_eq!(
                (its, &answer["error"]),
                (status, &json!(code)),
                "{field}: {answer}"
            );
        }
    }
    assert_eq!(world.inbox.row(&key).await, before);
    let (status, rejected) = world.decide("cfo", "reject", &asked).await;
    assert_eq!((status, &rejected["status"]), (200, &json!("dead_letter")));
    let (status, again) = world.decide("cfo", "reject", &asked).await;
    assert_eq!((status, &again["error"]), (409, &json!("moved")));
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_hold_that_has_expired_cannot_be_approved() {
    let world = World::with("approval-expired", SOURCES).await;
    let (key, hold) = world.held(10).await;
    let mut row = world.inbox.row(&key).await;
    let mut changed = row["hld"].as_m().unwrap().clone();
    let past = UnixMillis::now().0 - 1_000;
    changed.insert("exp".to_owned(), AttributeValue::N(past.to_string()));
    row.insert("hld".to_owned(), AttributeValue::M(changed));
    world.inbox.put(row.clone()).await;
    for op in ["approve", "reject"] {
        let (status, answer) = world.decide("oncall", op, &decision(&key, &hold)).await;
        assert_eq!((status, &answer["error"]), (409, &json!("expired")));
    }
    assert_eq!(world.inbox.row(&key).await, row);
}
