//! Tests requests that arrive again. The row counts them by kind, with few writes.

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Received, Repetition, Settlement, State};
use shared::webhook::event::{Event, Via};

use crate::support::{NOW, Table, after, event_with, github, n, number, signed_at};

const BODY: &str = r#"{"id":"evt_1","type":"invoice.paid"}"#;

/// The attributes that count repeated requests.
const COUNTED: [&str; 4] = ["dr", "dc", "du", "dat"];

/// Returns a webhook of Stripe that is signed at this time.
fn stripe(ms: u64) -> Event {
    signed_at(after(ms), "stripe", &[], BODY)
}

/// Receives a request as the catcher does.
async fn request(ledger: &Ledger, event: &Event, now: UnixMillis) -> Option<Repetition> {
    let placed = ledger.store_body(event).await.unwrap();
    let received = ledger.receive_request(event, &placed, now).await;
    let (received, repetition) = received.unwrap();
    let is_new = matches!(received, Received::New);
    assert_ne!(is_new, repetition.is_some(), "{received:?}, {repetition:?}");
    repetition
}

#[tokio::test]
async fn each_kind_of_repetition_is_counted() {
    let table = Table::fresh().await;
    let first = stripe(0);
    assert_eq!(request(&table.ledger, &first, NOW).await, None);
    let stored = table.row(first.key()).await;
    assert_eq!(stored["sgt"], n(NOW.0));
    assert!(COUNTED.iter().all(|name| !stored.contains_key(*name)));
    for (again, now, kind) in [
        (&first, after(1), Repetition::Copied),
        (&stripe(60_000), after(60_000), Repetition::Resent),
        (&first, after(61_000), Repetition::Copied),
        (&stripe(120_000), after(120_000), Repetition::Resent),
        (&stripe(120_000), after(121_000), Repetition::Resent),
    ] {
        assert_eq!(request(&table.ledger, again, now).await, Some(kind));
    }
    let mut row = table.row(first.key()).await;
    let counted = COUNTED.map(|name| row.remove(name));
    let expected = [Some(n(3)), Some(n(2)), None, Some(n(after(121_000).0))];
    assert_eq!(counted, expected);
    // The counts change nothing else in the row.
    assert_eq!(row, stored);
    let read = table.ledger.event(first.key()).await.unwrap().unwrap();
    assert_eq!((read.repetitions.all(), read.signed_at), (5, Some(NOW)));
}

#[tokio::test]
async fn a_request_without_a_signed_time_has_no_known_kind() {
    let table = Table::fresh().await;
    let first = github("72d3162e-0001", r#"{"ref":"refs/heads/main"}"#);
    assert_eq!(request(&table.ledger, &first, NOW).await, None);
    let row = table.row(first.key()).await;
    assert!(!row.contains_key("sgt"), "{row:?}");
    let again = request(&table.ledger, &first, after(1)).await;
    assert_eq!(again, Some(Repetition::Repeated));
    assert_eq!(number(&table.row(first.key()).await, "du"), 1);
}

#[tokio::test]
async fn a_duplicate_of_a_settled_event_is_counted_too() {
    let table = Table::fresh().await;
    let first = stripe(0);
    request(&table.ledger, &first, NOW).await;
    let lease = table.lease(first.key(), after(1)).await;
    request(&table.ledger, &stripe(1000), after(1000)).await;
    table.settle(lease, Settlement::Done).await;
    request(&table.ledger, &stripe(2000), after(2000)).await;
    let row = table.ledger.event(first.key()).await.unwrap().unwrap();
    assert_eq!((row.state, row.repetitions.resent), (State::Done, 2));
}

#[tokio::test]
async fn the_first_webhook_after_the_sync_is_no_repetition() {
    let table = Table::fresh().await;
    let found = event_with("evt_1", Via::BackupSync, BODY);
    let key = table.receive(&found).await;
    let webhook = stripe(0);
    let placed = table.ledger.store_body(&webhook).await.unwrap();
    for repetition in [None, Some(Repetition::Repeated)] {
        let received = table.ledger.receive_request(&webhook, &placed, NOW);
        assert_eq!(received.await.unwrap().1, repetition);
        let row = table.row(&key).await;
        assert_eq!(number(&row, "also_webhook"), NOW.0);
        assert_eq!(row.contains_key("du"), repetition.is_some());
    }
}

#[tokio::test]
async fn what_the_provider_did_not_just_send_is_not_counted() {
    let table = Table::fresh().await;
    let first = stripe(0);
    request(&table.ledger, &first, NOW).await;
    let before = table.row(first.key()).await;
    // A release, the drain and the sync store events in this way.
    for again in [&stripe(0), &event_with("evt_1", Via::BackupSync, BODY)] {
        table.ledger.receive(again, after(1)).await.unwrap();
        assert_eq!(table.row(first.key()).await, before);
    }
}

#[tokio::test]
async fn an_event_with_another_body_is_a_conflict_and_no_repetition() {
    let table = Table::fresh().await;
    let first = stripe(0);
    request(&table.ledger, &first, NOW).await;
    let other = r#"{"id":"evt_1","type":"invoice.voided"}"#;
    let other = signed_at(NOW, "stripe", &[], other);
    let placed = table.ledger.store_body(&other).await.unwrap();
    for _ in 0..2 {
        let received = table.ledger.receive_request(&other, &placed, NOW).await;
        let (received, repetition) = received.unwrap();
        let conflicts = matches!(received, Received::Conflict(_) | Received::Repeated(_));
        assert!(conflicts && repetition.is_none(), "{received:?}");
    }
    for row in table.all().await {
        let counted = COUNTED.iter().find(|name| row.contains_key(**name));
        assert_eq!(counted, None);
    }
}

#[tokio::test]
async fn copies_at_the_same_time_are_all_counted() {
    let table = Table::fresh().await;
    let first = stripe(0);
    request(&table.ledger, &first, NOW).await;
    let copies = (0..20).map(|_| request(&table.ledger, &first, after(1)));
    let kinds = join_all(copies).await;
    assert!(kinds.iter().all(|kind| *kind == Some(Repetition::Copied)));
    assert_eq!(number(&table.row(first.key()).await, "dc"), 20);
}

#[tokio::test]
async fn a_count_does_not_create_a_row_that_ttl_removed() {
    let table = Table::fresh().await;
    let first = stripe(0);
    request(&table.ledger, &first, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", "ADD #count");
    let pk = first.key().pk();
    let copy = request(&ledger, &first, after(1));
    let (kind, ()) = held.around(copy, table.delete(&pk, "M")).await;
    assert_eq!(kind, Some(Repetition::Copied));
    assert_eq!(table.item(&pk, "M").await, None);
}

#[tokio::test]
async fn a_count_that_fails_does_not_fail_the_request() {
    let table = Table::fresh().await;
    let first = stripe(0);
    request(&table.ledger, &first, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", "ADD #count");
    let kind = request(&ledger, &first, after(1)).await;
    assert_eq!(kind, Some(Repetition::Copied));
}

#[tokio::test]
async fn a_flood_of_copies_costs_few_writes() {
    let table = Table::fresh().await;
    let first = stripe(0);
    request(&table.ledger, &first, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    table
        .edit(first.key(), |row| {
            row.insert("dc".into(), n(1024));
        })
        .await;
    for ms in 1..=128 {
        request(&ledger, &first, after(ms)).await;
    }
    // One duplicate in 64 is written, with the weight 64.
    let written = proxy.count().get("UpdateItem").copied().unwrap_or(0);
    assert!(written <= 16, "{written} writes");
    let counted = number(&table.row(first.key()).await, "dc");
    let added = i64::try_from(written).unwrap() * 64;
    assert_eq!(counted, 1024 + added);
}
