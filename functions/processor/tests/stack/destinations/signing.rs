//! The modes in which requests to HTTP destinations are signed.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::webhook::event::EventKey;

use super::World;
use crate::support::{hex, unique};

/// The secret of the destinations, as the test stores it.
pub(super) const SECRET: &str = "whsec_b3JkZXJzLW9yZGVycy1vcmRlcnM=";

#[tokio::test]
async fn a_destination_gets_the_signature_of_the_provider_made_anew() {
    let world = World::start(&[]).await;
    let key = world.push("as-provider").await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 1, 0);
    let seen = world.server.only("/as-provider/push");
    let signature = format!("sha256={}", hex(SECRET.as_bytes(), &[seen.body()]));
    assert_eq!(seen.header("x-hub-signature-256"), signature);
    assert_eq!(seen.header("x-github-delivery"), key.id());
    assert_eq!(seen.header("x-github-event"), "push");
    assert_eq!(seen.header("mitt-proven"), "body");
    assert_eq!(seen.find("webhook-signature"), None);
    let kept = world.inbox.kept(&key).await.unwrap();
    assert_eq!(seen.body(), kept);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_destination_without_a_signature_gets_none() {
    let world = World::start(&[]).await;
    let key = world.push("unsigned").await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 1, 0);
    let seen = world.server.only("/unsigned");
    for name in ["x-hub-signature-256", "webhook-signature", "webhook-id"] {
        assert_eq!(seen.find(name), None, "{name}");
    }
    assert_eq!(seen.header("x-github-event"), "push");
    assert!(seen.find("idempotency-key").is_some());
}

#[tokio::test]
async fn a_received_signature_that_is_too_old_ends_the_event() {
    let world = World::start(&[]).await;
    let (key, signature) = stripe_event(&world).await;
    world.ring(&[&key]).await;
    world.fate(&key).await.is("done", 1, 0);
    let seen = world.server.only("/as-received");
    assert_eq!(seen.header("stripe-signature"), signature);

    world.server.forget();
    let (key, _) = stripe_event(&world).await;
    let mut row = world.inbox.row(&key).await;
    let received: i64 = row["rcv"].as_n().unwrap().parse().unwrap();
    let earlier = (received - 300_000).to_string();
    row.insert("rcv".into(), AttributeValue::N(earlier));
    world.inbox.put(row).await;
    world.ring(&[&key]).await;
    let fate = world.fate(&key).await;
    fate.is("dead_letter", 1, 0);
    assert_eq!(fate.reason, "stale_signature");
    let row = world.inbox.row(&key).await;
    let error = row["err"].as_s().unwrap();
    assert!(error.contains("sign = \"provider\""), "{error}");
    assert_eq!(world.server.all("/as-received").len(), 0);
    // Nothing was sent, so no effect is in doubt.
    assert!(row["fx"].as_m().unwrap().is_empty());
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn an_event_that_makes_no_path_ends_without_a_call() {
    let world = World::start(&[]).await;
    let key = world.push("by-account").await;
    world.ring(&[&key]).await;
    let fate = world.fate(&key).await;
    fate.is("dead_letter", 1, 0);
    assert_eq!(fate.reason, "bad_path");
    let typed = world
        .event("as-provider", "..", &json!({ "word": unique() }))
        .await;
    world.ring(&[&typed]).await;
    assert_eq!(world.fate(&typed).await.reason, "bad_path");
    assert!(world.server.all("/as-provider/..").is_empty());
}

/// Adds a received event of Stripe. Returns its signature, too.
async fn stripe_event(world: &World) -> (EventKey, String) {
    let id = unique();
    let body = json!({ "id": id, "type": "invoice.paid" }).to_string();
    let at = UnixMillis::now().secs().to_string();
    let headers = world.inbox.timed("stripe-main", &id, &at, body.as_bytes());
    let answer = world
        .inbox
        .post("as-received", &headers, body.as_bytes())
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut signature = headers
        .iter()
        .filter(|(name, _)| name == "stripe-signature");
    let (_, signature) = signature.next().unwrap();
    (EventKey::new("as-received", &id), signature.clone())
}
