//! Tests writes that DynamoDB applied, but whose response was lost. The SDK sends the write again,
//! and the condition fails because of the first write. The code must not treat the first write as
//! the write of another process.

use shared::base::timing::LEASE;
use shared::inbox::ledger::{Claim, Received, Settled, Settlement, State};
use shared::webhook::event::Via;

use crate::proxy::Proxy;
use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, event_with, github, lease_over, leased, noise,
    retry_at,
};

/// Checks that the client repeated the request. Otherwise the test would prove nothing.
fn assert_sent(proxy: &Proxy, operation: &str, times: usize) {
    assert_eq!(proxy.count().get(operation), Some(&times), "{operation}");
}

#[tokio::test]
async fn a_received_event_is_new() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("PutItem", "attribute_not_exists");
    let event = event("evt_1");
    assert_eq!(ledger.receive(&event, NOW).await.unwrap(), Received::New);
    assert_sent(&proxy, "PutItem", 2);
    // A true duplicate is still a duplicate.
    let again = ledger.receive(&event, NOW).await.unwrap();
    assert!(matches!(again, Received::Open { .. }), "{again:?}");
}

#[tokio::test]
async fn a_body_or_a_marker_is_written_again_without_harm() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("PutItem", "B#");
    let large = event_with("evt_1", Via::Webhook, noise(4_000));
    assert_eq!(ledger.receive(&large, NOW).await.unwrap(), Received::New);
    assert_sent(&proxy, "PutItem", 3);
    proxy.lose_answer("PutItem", ":ek");
    assert_eq!(
        ledger
            .receive(&github("72d3162e", "{}"), NOW)
            .await
            .unwrap(),
        Received::New
    );
    assert_sent(&proxy, "PutItem", 6);
}

#[tokio::test]
async fn an_event_kept_apart_stays_so() {
    let table = Table::fresh().await;
    table
        .receive(&event_with("evt_1", Via::Webhook, "one"))
        .await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("PutItem", "quarantined");
    let other = event_with("evt_1", Via::Webhook, "two");
    let Received::Conflict(key) = ledger.receive(&other, NOW).await.unwrap() else {
        panic!("expected no conflict");
    };
    assert_eq!(
        table.ledger.event(&key).await.unwrap().unwrap().state,
        State::Quarantined
    );
}

#[tokio::test]
async fn a_claim_is_a_lease() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", ":received");
    let claim = ledger
        .claim(&key, "worker", NOW, LEASE, ATTEMPTS)
        .await
        .unwrap();
    let lease = leased(claim);
    assert_sent(&proxy, "UpdateItem", 2);
    assert_eq!(
        (lease.row.epoch, lease.row.attempts, lease.until()),
        (1, 1, NOW + LEASE)
    );
    let body = ledger.leased_body(&lease).await.unwrap().unwrap();
    assert_eq!(body.0, r#"{"id":"evt_1"}"#);
    let settled = ledger
        .settle(lease, Settlement::Done, &[], NOW)
        .await
        .unwrap();
    assert_eq!(settled, Settled::Recorded(Settlement::Done));
}

#[tokio::test]
async fn a_kept_event_is_kept_once() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", ":received");
    let row = ledger.keep(&key, "worker", NOW, LEASE).await.unwrap();
    assert_sent(&proxy, "UpdateItem", 2);
    assert!(row.is_some_and(|row| row.history.len() == 1));
}

#[tokio::test]
async fn the_last_claim_is_a_lease_and_no_dead_letter() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", ":received");
    leased(ledger.claim(&key, "worker", NOW, LEASE, 1).await.unwrap());
    assert_sent(&proxy, "UpdateItem", 2);
}

#[tokio::test]
async fn a_takeover_is_a_lease() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table.lease(&key, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", "cr :one");
    let claim = ledger.claim(&key, "worker", lease_over(), LEASE, ATTEMPTS);
    let lease = leased(claim.await.unwrap());
    assert_sent(&proxy, "UpdateItem", 3);
    assert_eq!((lease.row.epoch, lease.row.crashes), (2, 1));
    let settled = ledger
        .settle(lease, Settlement::Done, &[], lease_over())
        .await
        .unwrap();
    assert_eq!(settled, Settled::Recorded(Settlement::Done));
}

#[tokio::test]
async fn the_end_of_the_attempts_is_recorded_once() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table.lease(&key, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", "dead_at");
    let claim = ledger
        .claim(&key, "worker", lease_over(), LEASE, 1)
        .await
        .unwrap();
    assert!(
        matches!(claim, Claim::Exhausted | Claim::Settled(State::DeadLetter)),
        "{claim:?}"
    );
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.state, row.history.len()), (State::DeadLetter, 1));
}

#[tokio::test]
async fn each_settlement_is_recorded() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let settlements = [Settlement::Done, retry_at(after(10_000)), dead()];
    for (index, settlement) in settlements.into_iter().enumerate() {
        let key = table.receive(&event(&format!("evt_{index}"))).await;
        let lease = table.lease(&key, NOW).await;
        proxy.lose_answer("UpdateItem", ":h");
        let settled = ledger
            .settle(lease, settlement.clone(), &[], after(1))
            .await
            .unwrap();
        assert_eq!(settled, Settled::Recorded(settlement));
        assert_sent(&proxy, "UpdateItem", 2 * (index + 1));
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(row.history.len(), 1);
    }
}

#[tokio::test]
async fn a_settlement_is_stale_when_another_claimed_before_it_was_sent_again() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", ":h");
    let held = proxy.hold("UpdateItem", ":h");
    // The first write recorded the result, and then the event changed. The worker has no more work.
    let (settled, next) = held
        .around(
            ledger.settle(lease, retry_at(NOW), &[], NOW),
            table.lease(&key, NOW),
        )
        .await;
    assert_eq!(settled.unwrap(), Settled::Stale);
    assert_eq!(next.row.epoch, 2);
}

#[tokio::test]
async fn a_sync_lease_is_taken() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", ":over");
    let lease = ledger
        .sync()
        .sync_lease("stripe-main", "one", NOW, LEASE)
        .await
        .unwrap();
    assert_sent(&proxy, "UpdateItem", 2);
    assert!(
        ledger
            .sync()
            .sync_advance(lease.unwrap(), NOW, after(1))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn the_end_of_a_sync_is_known_to_be_ours() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let lease = ledger
        .sync()
        .sync_lease("stripe-main", "one", NOW, LEASE)
        .await
        .unwrap();
    proxy.lose_answer("UpdateItem", "last_ok");
    assert!(
        ledger
            .sync()
            .sync_advance(lease.unwrap(), NOW, after(1))
            .await
            .unwrap()
    );
}
