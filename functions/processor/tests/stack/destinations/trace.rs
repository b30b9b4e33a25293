//! The trace of an event at its destinations.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::delivery::effects::idempotency_key;
use shared::inbox::ledger::{Again, Ledger, Replayed};
use shared::inbox::trace::{SpanId, TraceId};
use shared::webhook::event::EventKey;

use super::World;
use super::server::{Answer, Seen};
use crate::support::{failures, record, unique, with};

/// Returns the `traceparent` that a destination must get in this run.
fn parent(key: &EventKey, effect: &str, run: u64) -> String {
    let span = SpanId::of_effect(key, &idempotency_key(key, effect, 0), run);
    TraceId::of(key).traceparent(span)
}

#[tokio::test]
async fn each_kind_of_destination_gets_the_trace() {
    let world = World::start(&["SQS"]).await;
    let key = world
        .event("every-kind", "push", &json!({ "customer": "cus_1" }))
        .await;
    world.server.forget();
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 1, 0);

    let http = world.server.only("/http");
    assert_eq!(http.header("traceparent"), parent(&key, "http", 0));
    let id = http.header("mitt-event-id");
    assert_eq!(http.header("mitt-run-id"), format!("{id}.0.1"));

    let of_lambda = "/2015-03-31/functions/orders%3Alive/invocations";
    let lambda = world.server.only(of_lambda).json();
    let put = world.server.only("AWSEvents.PutEvents").json();
    let started = world.server.only("AWSStepFunctions.StartExecution").json();
    let parsed = |text: &Value| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap();
    for (name, document) in [
        ("lambda", lambda),
        ("eventbridge", parsed(&put["Entries"][0]["Detail"])),
        ("step-functions", parsed(&started["input"])),
    ] {
        assert_eq!(document["event"]["trace"], parent(&key, name, 0));
        assert_eq!(document["event"]["runId"], format!("{id}.0.1"), "{name}");
    }

    let sent = world.server.all("AmazonSQS.SendMessage");
    let parents = sent.iter().map(Seen::json).map(|sent| {
        let attributes = &sent["MessageAttributes"];
        assert!(attributes.as_object().unwrap().len() <= 10);
        let value = attributes["traceparent"]["StringValue"].as_str();
        value.unwrap().to_owned()
    });
    let mut parents: Vec<String> = parents.collect();
    parents.sort();
    let mut expected = ["sqs", "in-order"].map(|name| parent(&key, name, 0));
    expected.sort();
    assert_eq!(parents, expected);

    let log = world.inbox.stack.log_file("Processor").unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    let field = format!("\"trace_id\":\"{}\"", TraceId::of(&key));
    assert!(log.contains(&field), "{log}");
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_replay_has_the_same_trace_and_another_span() {
    let world = World::start(&[]).await;
    world.server.answers("/two/first", &[Answer::status(500)]);
    let key = world.push("two").await;
    world.ring(&[&key]).await;
    let mut row = world.inbox.row(&key).await;
    row.insert("due".into(), AttributeValue::N("1".into()));
    world.inbox.put(row).await;
    world.server.answers("/two/first", &[Answer::status(422)]);
    world.ring(&[&key]).await;
    world.fate(&key).await.is("dead_letter", 2, 0);
    replay(&world, &key).await;
    world.fate(&key).await.is("done", 1, 0);

    let seen = world.server.all("/two/first");
    let parents: Vec<&str> = seen.iter().map(|seen| seen.header("traceparent")).collect();
    let [first, second] = [0, 1].map(|run| parent(&key, "first", run));
    assert_eq!(parents, [&first, &first, &second]);
    assert_eq!(first[..36], second[..36], "both are in the same trace");
    assert_ne!(first, second);
    let runs: Vec<&str> = seen.iter().map(|seen| seen.header("mitt-run-id")).collect();
    let [one, two, three] = runs[..] else {
        panic!("{runs:?}")
    };
    assert!(one != two && two != three, "{runs:?}");
}

#[tokio::test]
async fn a_senders_traceparent_reaches_no_destination() {
    let world = World::start(&[]).await;
    let theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (source, path) in [
        ("as-provider", "/as-provider/push"),
        ("unsigned", "/unsigned"),
    ] {
        let id = unique();
        let body = json!({ "word": unique() }).to_string();
        let headers = world.inbox.github(&id, body.as_bytes());
        let headers = with(headers, "x-github-event", "push");
        let headers = with(headers, "traceparent", theirs);
        let answer = world.inbox.post(source, &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let key = EventKey::new(source, &id);
        world.ring(&[&key]).await;
        let seen = world.server.only(path);
        let sent = seen.header("traceparent");
        assert!(
            sent.starts_with(&format!("00-{}-", TraceId::of(&key))),
            "{sent}"
        );
    }
}

/// Runs an event again, and keeps the effects that are done.
async fn replay(world: &World, key: &EventKey) {
    let clients = world.inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, world.inbox.stack.table().unwrap(), None);
    let epoch: u64 = world.inbox.row(key).await["epoch"]
        .as_n()
        .unwrap()
        .parse()
        .unwrap();
    let plan = format!("rp_{}", unique());
    let now = UnixMillis::now();
    let expires = UnixMillis(now.0 + 3_600_000);
    let events = [(key.clone(), epoch)];
    let plans = ledger.plans();
    plans.plan_events(&plan, &events, expires).await.unwrap();
    let again = Again {
        plan: &plan,
        seen: epoch,
        new_effects: false,
    };
    let replayed = ledger.plans().replay(key, &again, now).await.unwrap();
    assert_eq!(replayed, Replayed::Again);
    let message = json!({ "v": 1, "key": key.pk(), "run": 1 }).to_string();
    assert_eq!(
        failures(&world.inbox, &[record("1", &message)]).await,
        [""; 0]
    );
}
