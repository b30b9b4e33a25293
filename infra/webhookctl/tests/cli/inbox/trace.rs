//! `inbox trace` shows an event as a trace, from its row.

use std::time::Duration;

use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::delivery::effects::idempotency_key;
use shared::inbox::ledger::{Claim, EffectRow, EffectState, Settlement};
use shared::inbox::trace::{SpanId, TraceId};
use shared::webhook::event::EventKey;

use super::context::event;
use super::world::{World, stderr, stdout};

const THEIRS: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Stores an event whose sender names a trace. Its only attempt begins a second later, and calls a
/// destination.
async fn traced(name: &str) -> (World, EventKey, String) {
    let world = World::start(name).await;
    let at = world.ago(5);
    let event = event("a", "acct_1", "north", at);
    world.ledger.receive(&event, at).await.unwrap();
    let key = event.key().clone();
    let claimed = at + Duration::from_secs(1);
    let lease = Duration::from_secs(35);
    let claim = world.ledger.claim(&key, "processor", claimed, lease, 10);
    let Claim::Leased(lease) = claim.await.unwrap() else {
        panic!("the event is not leased")
    };
    let owner = lease.owner().to_owned();
    let called = claimed + Duration::from_secs(2);
    let effect = EffectRow {
        state: EffectState::Done,
        key: idempotency_key(&key, "orders", 0),
        keyed: true,
        at: called,
        run: 0,
        note: "200".into(),
        lease: None,
    };
    let effects = [("orders".to_owned(), effect)];
    let settled = world
        .ledger
        .settle(*lease, Settlement::Done, &effects, called);
    settled.await.unwrap();
    (world, key, owner)
}

#[tokio::test]
async fn an_event_is_shown_as_a_trace() {
    let (world, key, owner) = traced("trace").await;
    let trace = world.json(&["inbox", "trace", "stripe-main:a"]).await;
    assert_eq!(trace["schema"], "webhookctl/inbox.trace/v1");
    assert_eq!(trace["trace_id"], TraceId::of(&key).to_string());
    let spans = trace["spans"].as_array().unwrap();
    let ids: Vec<&Value> = spans.iter().map(|span| &span["span_id"]).collect();
    let effect = SpanId::of_effect(&key, &idempotency_key(&key, "orders", 0), 0);
    let expected = [
        SpanId::of_receipt(&key),
        SpanId::of_wait(&key, &owner),
        SpanId::of_attempt(&key, &owner),
        effect,
    ];
    assert_eq!(ids, expected.map(|id| json!(id.to_string())).each_ref());
    assert_eq!(spans[3]["parent_span_id"], spans[2]["span_id"]);
    assert_eq!(spans[2]["outcome"], "done");
    let text = stdout(&world.run(&["inbox", "trace", "stripe-main:a"]).await);
    for part in [" 1.0s ", " 2.0s ", "attempt 1", "orders", "committed: 200"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_senders_trace_is_a_link_and_never_the_parent() {
    let (world, key, _) = traced("trace-link").await;
    let trace = world.json(&["inbox", "trace", "stripe-main:a"]).await;
    assert_eq!(trace["link"]["trace_id"], THEIRS);
    assert_ne!(trace["trace_id"], THEIRS);
    for span in trace["spans"].as_array().unwrap() {
        assert_ne!(span["parent_span_id"], trace["link"]["span_id"]);
    }
    let output = world
        .run(&["inbox", "trace", "stripe-main:a", "-o", "otlp"])
        .await;
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let spans = &document["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!(spans[0]["links"][0]["traceId"], THEIRS);
    assert_eq!(spans.as_array().unwrap().len(), 4);
    for span in spans.as_array().unwrap() {
        assert_eq!(span["traceId"], TraceId::of(&key).to_string());
        let nanos = span["startTimeUnixNano"].as_str().unwrap();
        let millis = nanos.parse::<i64>().unwrap() / 1_000_000;
        assert!(UnixMillis(millis) >= world.ago(6), "{nanos}");
    }
}

#[tokio::test]
async fn no_other_command_prints_otlp() {
    let world = World::start("trace-otlp").await;
    for line in [
        &["inbox", "list", "-o", "otlp"][..],
        &["inbox", "inspect", "a", "-o", "otlp"],
        &["status", "-o", "otlp"],
    ] {
        let output = world.run(line).await;
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        let said = stderr(&output);
        assert!(said.contains("usage.output"), "{line:?}: {said}");
    }
}
