//! Tests events that arrive both by sync and by webhook. Such an event has one row, and the row
//! records the late webhook once.

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{OtherArrival, Received, Settlement, State};
use shared::webhook::event::{Event, Via};

use crate::support::{NOW, Table, after, event_with, n, number, s};

/// Returns an event that arrives by `via` at a given time.
fn by(via: Via, at: UnixMillis) -> Event {
    use shared::webhook::event::Fetched;
    Event::fetched(Fetched {
        source: "stripe-main",
        provider: "stripe",
        preset: "stripe",
        id: "evt_1",
        kind: "invoice.paid",
        body: r#"{"id":"evt_1"}"#.into(),
        now: at,
        via,
        config: "0123456789ab",
    })
}

const LATE: u64 = 12 * 60_000;

#[tokio::test]
async fn a_webhook_after_the_sync_is_noted_on_the_row_and_changes_nothing_else() {
    let table = Table::fresh().await;
    let found = by(Via::BackupSync, NOW);
    let key = table.receive(&found).await;
    // A row written by other code has attributes that this code does not know.
    let before = table
        .edit(&key, |row| {
            row.insert("later_code".into(), s("keeps this"));
        })
        .await;
    let received = table
        .ledger
        .receive(&by(Via::Webhook, after(LATE)), after(LATE))
        .await;
    assert!(matches!(received.unwrap(), Received::Open { .. }));
    let mut row = table.row(&key).await;
    assert_eq!(row.remove("also_webhook"), Some(n(after(LATE).0)));
    assert_eq!(row, before);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    let seen = OtherArrival {
        via: Via::Webhook,
        at: after(LATE),
    };
    assert_eq!((row.via, row.also), (Via::BackupSync, vec![seen]));
}

#[tokio::test]
async fn only_the_first_webhook_after_the_sync_is_noted() {
    let table = Table::fresh().await;
    let key = table.receive(&by(Via::BackupSync, NOW)).await;
    for ms in [LATE, LATE + 1, LATE + 2] {
        let webhook = by(Via::Webhook, after(ms));
        table.ledger.receive(&webhook, after(ms)).await.unwrap();
        assert_eq!(
            number(&table.row(&key).await, "also_webhook"),
            after(LATE).0
        );
    }
}

#[tokio::test]
async fn of_two_webhooks_at_once_the_first_note_stays() {
    let table = Table::fresh().await;
    let key = table.receive(&by(Via::BackupSync, NOW)).await;
    let (proxy, slow) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", "also_webhook");
    let (one, two) = (
        by(Via::Webhook, after(LATE)),
        by(Via::Webhook, after(LATE + 5)),
    );
    let call = slow.receive(&one, after(LATE));
    let (_, meanwhile) = held
        .around(call, table.ledger.receive(&two, after(LATE + 5)))
        .await;
    meanwhile.unwrap();
    let noted = number(&table.row(&key).await, "also_webhook");
    assert_eq!(noted, after(LATE + 5).0);
}

#[tokio::test]
async fn a_row_that_went_in_between_is_not_made_anew_by_a_note() {
    let table = Table::fresh().await;
    let key = table.receive(&by(Via::BackupSync, NOW)).await;
    let (proxy, ledger) = table.through_proxy().await;
    let webhook = by(Via::Webhook, after(LATE));
    let held = proxy.hold("UpdateItem", "also_webhook");
    let pk = key.pk();
    let gone = table.delete(&pk, "M");
    let (received, ()) = held
        .around(ledger.receive(&webhook, after(LATE)), gone)
        .await;
    assert!(matches!(received.unwrap(), Received::Open { .. }));
    assert_eq!(table.item(&key.pk(), "M").await, None);
}

#[tokio::test]
async fn the_ordinary_order_and_the_same_way_again_write_nothing() {
    let table = Table::fresh().await;
    for (first, again) in [
        (Via::Webhook, Via::BackupSync),
        (Via::Webhook, Via::Webhook),
        (Via::BackupSync, Via::BackupSync),
    ] {
        let key = table.receive(&by(first, NOW)).await;
        let before = table.row(&key).await;
        let second = by(again, after(LATE));
        table.ledger.receive(&second, after(LATE)).await.unwrap();
        assert_eq!(table.row(&key).await, before, "{first}, {again}");
        table.delete(&key.pk(), "M").await;
    }
}

#[tokio::test]
async fn a_worker_that_holds_the_event_neither_loses_its_lease_nor_the_note() {
    let table = Table::fresh().await;
    let key = table.receive(&by(Via::BackupSync, NOW)).await;
    let lease = table.lease(&key, after(1)).await;
    let webhook = by(Via::Webhook, after(500));
    table.ledger.receive(&webhook, after(500)).await.unwrap();
    table.settle(lease, Settlement::Done).await;
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.state, row.also.len()), (State::Done, 1));
    assert_eq!(row.history.len(), 1);
}

#[tokio::test]
async fn another_body_under_the_id_is_a_conflict_and_no_second_way() {
    let table = Table::fresh().await;
    let first = event_with("evt_1", Via::Webhook, "one");
    let key = table.receive(&first).await;
    let other = event_with("evt_1", Via::Webhook, "two");
    let received = table.ledger.receive(&other, NOW).await.unwrap();
    assert!(matches!(received, Received::Conflict(_)));
    assert!(
        table
            .ledger
            .seen(&key)
            .await
            .unwrap()
            .unwrap()
            .also
            .is_empty()
    );
}

#[tokio::test]
async fn what_is_not_there_was_not_seen() {
    let table = Table::fresh().await;
    let event = by(Via::Webhook, NOW);
    assert_eq!(table.ledger.seen(event.key()).await.unwrap(), None);
    table.receive(&event).await;
    let seen = table.ledger.seen(event.key()).await.unwrap().unwrap();
    assert_eq!((seen.received_at, seen.by_webhook()), (NOW, Some(NOW)));
}
