//! What the answer of a destination means for an event: no attempt, six attempts or the end.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use shared::base::clock::UnixMillis;

use super::{World, end_wait_of_breaker, s};
use crate::destinations::server::Answer;

impl World {
    async fn error(&self, key: &shared::webhook::event::EventKey) -> String {
        let row = self.inbox.row(key).await;
        row["err"].as_s().unwrap().clone()
    }
}

#[tokio::test]
async fn a_refused_event_has_six_attempts() {
    let world = World::start(&[]).await;
    let answers = [404, 401, 302, 403, 400, 404].map(Answer::status);
    world.server.answers("/refused", &answers);
    let key = world.push("refused").await;
    for attempt in 1..=5 {
        world.ring(&[&key]).await;
        world.fate(&key).await.is("failed", attempt, 0);
        world.make_due(&key).await;
    }
    assert_eq!(
        world.error(&key).await,
        "orders: the destination answered 400 (attempt 5 of 6)"
    );
    world.ring(&[&key]).await;
    let fate = world.fate(&key).await;
    fate.is("dead_letter", 6, 0);
    assert_eq!(fate.reason, "refused");
    assert_eq!(
        world.error(&key).await,
        "orders: the destination answered 404 (attempt 6 of 6)"
    );
    // One event says nothing about the destination.
    assert!(world.item("BRK#refused").await.is_none());
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_missing_destination_costs_an_event_two_attempts() {
    let world = World::start(&[]).await;
    world.server.answers("/refused", &[Answer::status(404)]);
    let key = world.push("refused").await;
    world.ring(&[&key]).await;
    world.make_due(&key).await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 2, 0);
}

#[tokio::test]
async fn a_permanent_status_ends_an_event_at_once() {
    let world = World::start(&[]).await;
    for (source, status, state, reason) in [
        ("refused", 410, "dead_letter", "permanent"),
        ("refused", 413, "dead_letter", "permanent"),
        ("refused", 422, "dead_letter", "permanent"),
        ("refused", 409, "failed", ""),
        ("with-rules", 409, "done", ""),
        ("with-rules", 400, "dead_letter", "permanent"),
        ("with-rules", 422, "failed", ""),
    ] {
        let place = format!("/{source}");
        world.server.answers(&place, &[Answer::status(status)]);
        let key = world.push(source).await;
        world.ring(&[&key]).await;
        let fate = world.fate(&key).await;
        fate.is(state, 1, 0);
        assert_eq!(fate.reason, reason, "{source} {status}");
    }
    // Within a minute of the first attempt, one more can begin.
    let answers = vec![Answer::status(404); 2];
    world.server.answers("/with-rules", &answers);
    let key = world.push("with-rules").await;
    world.ring(&[&key]).await;
    world.make_due(&key).await;
    world.ring(&[&key]).await;
    let fate = world.fate(&key).await;
    fate.is("dead_letter", 2, 0);
    assert_eq!(fate.reason, "refused");
}

#[tokio::test]
async fn a_wait_that_the_destination_asks_for_costs_no_attempt() {
    let world = World::start(&[]).await;
    let asks = |status| {
        let headers = vec![("retry-after", "60".to_owned())];
        Answer::Says(status, headers, json!(null))
    };
    let key = world.push("refused").await;
    for (round, status) in [(1, 429), (2, 503), (3, 403)] {
        world.server.answers("/refused", &[asks(status)]);
        let before = UnixMillis::now();
        world.ring(&[&key]).await;
        let fate = world.fate(&key).await;
        fate.is("failed", 0, round);
        let wait = fate.due.since(before);
        let range = Duration::from_secs(60)..Duration::from_secs(90);
        assert!(range.contains(&wait), "{wait:?}");
        let said = format!("orders: the destination answered {status} and asked to wait 60 s");
        assert_eq!(world.error(&key).await, said);
        world.make_due(&key).await;
    }
    // A day after the first attempt, the event has the attempts of a refused one.
    let mut row = world.inbox.row(&key).await;
    let first = row["fa"].as_s().unwrap().strip_prefix("0|").unwrap();
    let first: i64 = first.parse().unwrap();
    row.insert("fa".into(), s(format!("0|{}", first - 25 * 3_600_000)));
    world.inbox.put(row).await;
    world.server.answers("/refused", &[asks(429)]);
    world.ring(&[&key]).await;
    world.fate(&key).await.is("failed", 1, 3);
    let said = "orders: the destination answered 429 (attempt 1 of 6)";
    assert_eq!(world.error(&key).await, said);
    // A time of another run, or a damaged one, does not count.
    for other in ["7|1", "0|soon", "", "|"] {
        let mut row = world.inbox.row(&key).await;
        row.insert("fa".into(), s(other));
        row.insert("h".into(), AttributeValue::L(Vec::new()));
        row.insert("att".into(), AttributeValue::N("0".into()));
        row.insert("due".into(), AttributeValue::N("1".into()));
        world.inbox.put(row).await;
        world.server.answers("/refused", &[asks(429)]);
        world.ring(&[&key]).await;
        assert_eq!(world.fate(&key).await.attempts, 0, "{other}");
    }
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_destination_that_refuses_ten_events_is_spared() {
    let world = World::start(&[]).await;
    let answers = vec![Answer::status(404); 11];
    world.server.answers("/refused", &answers);
    let mut keys = Vec::new();
    for _ in 0..12 {
        keys.push(world.push("refused").await);
    }
    for key in &keys[..10] {
        world.ring(&[key]).await;
        world.fate(key).await.is("failed", 1, 0);
    }
    world.ring(&[&keys[10], &keys[11]]).await;
    assert_eq!(world.server.all("/refused").len(), 10);
    for key in &keys[10..] {
        world.fate(key).await.is("failed", 0, 1);
        let why = "refused is down: refuses every request, last 404";
        assert_eq!(world.error(key).await, why);
    }
    let item = world.item("BRK#refused").await.unwrap();
    assert!(item["rfs"].as_s().unwrap().ends_with("|404"), "{item:?}");
    assert!(
        world
            .breaker_log()
            .contains("refuses every request, last 404")
    );

    // The probe is refused too, and costs no attempt.
    end_wait_of_breaker(&world, "refused").await;
    for key in &keys[10..] {
        world.make_due(key).await;
    }
    world.ring(&[&keys[10], &keys[11]]).await;
    assert_eq!(world.server.all("/refused").len(), 11);
    for key in &keys[10..] {
        world.fate(key).await.is("failed", 0, 2);
    }

    // The destination is deployed: the next probe closes the breaker.
    end_wait_of_breaker(&world, "refused").await;
    for key in &keys {
        world.make_due(key).await;
    }
    world.ring(&[&keys[11]]).await;
    world.fate(&keys[11]).await.is("done", 1, 2);
    world.ring(&keys[..11].iter().collect::<Vec<_>>()).await;
    for key in &keys {
        assert_eq!(world.fate(key).await.state, "done");
    }
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn an_error_type_can_end_an_event_at_once() {
    let world = World::start(&[]).await;
    let place = "/2015-03-31/functions/throwing/invocations";
    let thrown = |body| {
        let headers = vec![("x-amz-function-error", "Unhandled".to_owned())];
        Answer::Says(200, headers, body)
    };
    for (body, state, error) in [
        (
            json!({ "errorType": "ValidationError", "errorMessage": "no name" }),
            "dead_letter",
            "lambda: the function failed with ValidationError",
        ),
        (
            json!({ "errorType": "KeyError", "errorMessage": "ValidationError" }),
            "failed",
            "lambda: the function failed: Unhandled",
        ),
        (
            json!(["ValidationError"]),
            "failed",
            "lambda: the function failed: Unhandled",
        ),
    ] {
        world.server.answers(place, &[thrown(body)]);
        let key = world.push("throwing").await;
        world.ring(&[&key]).await;
        world.fate(&key).await.is(state, 1, 0);
        assert_eq!(world.error(&key).await, error);
    }
}
