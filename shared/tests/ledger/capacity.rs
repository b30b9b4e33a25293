//! Measures the cost of an event, in requests and in bytes.

use aws_sdk_dynamodb::types::AttributeValue;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{Item, Received, Settlement};
use shared::webhook::event::{Event, Via};

use crate::proxy::Proxy;
use crate::support::{ATTEMPTS, NOW, Table, event, event_with, leased, noise, signed};

/// Returns the number of requests by operation.
fn counts(proxy: &Proxy) -> Vec<(String, usize)> {
    proxy.count().into_iter().collect()
}

fn expect(list: &[(&str, usize)]) -> Vec<(String, usize)> {
    list.iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

/// Processes an event without errors, in the same way as the catcher and the processor.
async fn live(table: &Table, event: &Event) -> Proxy {
    let (proxy, ledger) = table.through_proxy().await;
    assert_eq!(ledger.receive(event, NOW).await.unwrap(), Received::New);
    let claim = ledger
        .claim(event.key(), "processor", NOW, LEASE, ATTEMPTS)
        .await;
    let lease = leased(claim.unwrap());
    let body = ledger.leased_body(&lease).await.unwrap().unwrap();
    assert_eq!(body.0, event.body());
    ledger
        .settle(lease, Settlement::Done, &[], NOW)
        .await
        .unwrap();
    proxy
}

#[tokio::test]
async fn a_small_event_costs_one_put_and_two_updates() {
    let table = Table::fresh().await;
    let proxy = live(&table, &event("evt_1")).await;
    assert_eq!(counts(&proxy), expect(&[("PutItem", 1), ("UpdateItem", 2)]));
}

#[tokio::test]
async fn a_body_of_its_own_costs_a_put_and_a_get_more() {
    let table = Table::fresh().await;
    let event = event_with("evt_1", Via::Webhook, noise(2_048));
    let proxy = live(&table, &event).await;
    assert_eq!(
        counts(&proxy),
        expect(&[("GetItem", 1), ("PutItem", 2), ("UpdateItem", 2)])
    );
}

#[tokio::test]
async fn a_body_in_the_bucket_costs_the_table_nothing() {
    let table = Table::with_bucket().await;
    let event = event_with("evt_1", Via::Webhook, noise(40_000));
    let proxy = live(&table, &event).await;
    assert_eq!(counts(&proxy), expect(&[("PutItem", 1), ("UpdateItem", 2)]));
}

#[tokio::test]
async fn an_unsigned_id_costs_a_marker() {
    let table = Table::fresh().await;
    let proxy = live(&table, &crate::support::github("72d3162e", "{}")).await;
    assert_eq!(counts(&proxy), expect(&[("PutItem", 2), ("UpdateItem", 2)]));
}

#[tokio::test]
async fn what_is_not_to_be_done_costs_one_refused_request() {
    let table = Table::fresh().await;
    let event = event("evt_1");
    let key = table.receive(&event).await;
    let (proxy, ledger) = table.through_proxy().await;
    ledger.receive(&event, NOW).await.unwrap();
    assert_eq!(counts(&proxy), expect(&[("PutItem", 1)]));
    table.lease(&key, NOW).await;
    ledger
        .claim(&key, "processor", NOW, LEASE, ATTEMPTS)
        .await
        .unwrap();
    assert_eq!(counts(&proxy), expect(&[("PutItem", 1), ("UpdateItem", 1)]));
}

/// Returns requests as the providers send them. The bodies are too large for the state row.
fn realistic() -> Vec<Event> {
    let json = |fields: &str| {
        let filler = hex::encode(noise(1_500));
        format!("{{{fields},\"data\":\"{filler}\"}}")
    };
    let kind = ("content-type", "application/json");
    let github = [
        kind,
        ("user-agent", "GitHub-Hookshot/044aadd"),
        ("x-github-event", "pull_request_review_comment"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-github-hook-id", "292430182"),
    ];
    let stripe = [
        ("content-type", "application/json; charset=utf-8"),
        (
            "user-agent",
            "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        ),
    ];
    let slack = [
        kind,
        ("user-agent", "Slackbot 1.0 (+https://api.slack.com/robots)"),
    ];
    let fireflies = [kind, ("user-agent", "axios/1.7.7")];
    vec![
        signed("github", &github, json("\"action\":\"created\"")),
        signed(
            "stripe",
            &stripe,
            json(
                "\"id\":\"evt_3PxA5bLkdIwHu7ix1Zk0Qw2e\",\"type\":\"customer.subscription.pending_update_applied\"",
            ),
        ),
        signed(
            "slack",
            &slack,
            json("\"event_id\":\"Ev08MFMKH6AB\",\"event\":{\"type\":\"app_home_opened\"}"),
        ),
        signed(
            "fireflies",
            &fireflies,
            json(
                "\"meetingId\":\"01JD5Q3V0A8ZCMB3X2Q3T9RVJX\",\"eventType\":\"Transcription completed\"",
            ),
        ),
    ]
}

#[tokio::test]
async fn the_state_row_of_a_real_event_is_one_write_unit() {
    let table = Table::fresh().await;
    for event in realistic() {
        let key = table.receive(&event).await;
        let received = size(&table.row(&key).await);
        let lease = table.lease(&key, NOW).await;
        let claimed = size(&table.row(&key).await);
        let lease = {
            table.settle(lease, crate::support::retry_at(NOW)).await;
            table.lease(&key, NOW).await
        };
        table.settle(lease, Settlement::Done).await;
        let done = size(&table.row(&key).await);
        println!("{key}: {received} received, {claimed} claimed, {done} done after a retry");
        for bytes in [received, claimed, done] {
            assert!(bytes <= 1_024, "{key}: {bytes} bytes");
        }
    }
}

#[tokio::test]
async fn a_row_with_its_body_is_one_write_unit() {
    let table = Table::fresh().await;
    let mut inline = None;
    for bytes in 0..800 {
        let event = event_with(&format!("evt_{bytes}"), Via::Webhook, noise(bytes));
        let key = table.receive(&event).await;
        let row = table.row(&key).await;
        if row.contains_key("b") {
            inline = Some((key, size(&row)));
        } else {
            break;
        }
    }
    // The largest row with an inline body has space for all values that Mitt writes to it until the
    // event is done.
    let (key, received) = inline.unwrap();
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, crate::support::retry_at(NOW)).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, Settlement::Done).await;
    let done = size(&table.row(&key).await);
    assert!(received > 700, "{received}");
    assert!((900..=1_024).contains(&done), "{done}");
}

/// Returns the number of bytes that DynamoDB counts for an item.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>
fn size(item: &Item) -> usize {
    item.iter()
        .map(|(name, value)| name.len() + value_size(value))
        .sum()
}

fn value_size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(blob) => blob.as_ref().len(),
        // A number takes approximately one byte for every two digits, plus one byte.
        AttributeValue::N(digits) => {
            let digits = digits.trim_start_matches('-').trim_end_matches('0');
            digits.len().div_ceil(2) + 1
        }
        AttributeValue::L(list) => {
            3 + list
                .iter()
                .map(|value| 1 + value_size(value))
                .sum::<usize>()
        }
        AttributeValue::M(map) => {
            let entries = map
                .iter()
                .map(|(name, value)| 1 + name.len() + value_size(value));
            3 + entries.sum::<usize>()
        }
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        other => panic!("no size for {other:?}"),
    }
}
