//! Tests the write that records a new event as done without a lease.

use futures::future::join_all;
use shared::base::timing::LEASE;
use shared::inbox::ledger::{Again, Claim, Item, NEWEST_SCHEMA, Replayed, Settlement, State};
use shared::webhook::event::{EventKey, Via};

use crate::matrix::assert_sound;
use crate::support::{ATTEMPTS, NOW, Table, event, event_with, lease_over, n, s, text};

/// Keeps an event at `NOW`, and returns whether the ledger recorded it.
async fn keep(table: &Table, key: &EventKey) -> bool {
    let kept = table.ledger.keep(key, "worker", NOW, LEASE);
    kept.await.unwrap().is_some()
}

/// Returns a row without the random names of its write and of its worker.
fn named_alike(mut row: Item) -> Item {
    let worker = text(&row, "done_by");
    let history = row["h"].as_l().unwrap().clone();
    let history = history.iter().map(|entry| {
        let entry = entry.as_s().unwrap();
        assert!(entry.contains(&worker), "{entry}");
        s(entry.replace(&worker, "worker/1"))
    });
    let history = aws_sdk_dynamodb::types::AttributeValue::L(history.collect());
    row.insert("h".into(), history);
    row.insert("done_by".into(), s("worker/1"));
    row.insert("wid".into(), s("1"));
    row
}

#[tokio::test]
async fn a_kept_event_has_the_row_of_a_claim_and_a_settlement() {
    let (kept, settled) = (Table::fresh().await, Table::fresh().await);
    let event = event_with("evt_1", Via::Webhook, vec![b'x'; 3_000]);
    let key = kept.receive(&event).await;
    settled.receive(&event).await;
    let before = kept.row(&key).await;
    let row = kept.ledger.keep(&key, "worker", NOW, LEASE).await.unwrap();
    let row = row.unwrap();
    assert_eq!((row.state, row.epoch, row.attempts), (State::Done, 1, 1));

    let lease = settled.lease(&key, NOW).await;
    let settlement = settled.ledger.settle(lease, Settlement::Done, &[], NOW);
    settlement.await.unwrap();
    let row = kept.row(&key).await;
    assert_sound(&before, &row);
    assert_eq!(named_alike(row), named_alike(settled.row(&key).await));
}

#[tokio::test]
async fn an_event_that_is_not_new_needs_a_claim() {
    let table = Table::fresh().await;
    let missing = EventKey::new("s", "evt_0");
    assert!(!keep(&table, &missing).await);
    assert!(table.ledger.event(&missing).await.unwrap().is_none());

    let key = table.receive(&event("evt_1")).await;
    assert!(keep(&table, &key).await);
    let done = table.row(&key).await;
    assert!(!keep(&table, &key).await);
    assert_eq!(table.row(&key).await, done);

    let again = Again {
        plan: "rpl_7KQ2M4",
        seen: 1,
        new_effects: false,
    };
    let plans = table.ledger.plans();
    let events = [(key.clone(), 1)];
    plans.plan_events(again.plan, &events, NOW).await.unwrap();
    let replayed = table.ledger.plans().replay(&key, &again, NOW).await;
    assert_eq!(replayed.unwrap(), Replayed::Again);
    let again = table.row(&key).await;
    assert!(!keep(&table, &key).await);
    assert_eq!(table.row(&key).await, again);
}

/// A later release may count attempts without a fencing token.
#[tokio::test]
async fn a_row_that_this_release_cannot_read_is_not_kept() {
    let table = Table::fresh().await;
    for (id, name, value) in [
        ("evt_1", "sv", n(NEWEST_SCHEMA + 1)),
        ("evt_2", "fx", s("of a later version")),
        ("evt_3", "att", n(1)),
    ] {
        let key = table.receive(&event(id)).await;
        let edited = |row: &mut Item| drop(row.insert(name.into(), value));
        let before = table.edit(&key, edited).await;
        assert!(!keep(&table, &key).await, "{name}");
        assert_eq!(table.row(&key).await, before);
    }
}

#[tokio::test]
async fn of_many_workers_one_keeps_or_claims_the_event() {
    let table = Table::fresh().await;
    for round in 0..8 {
        let key = table.receive(&event(&format!("evt_{round}"))).await;
        let keeping = (0..8).map(|_| keep(&table, &key));
        let claiming = (0..8).map(|_| table.claim_of(&key, NOW, ATTEMPTS));
        let (kept, claims) = tokio::join!(join_all(keeping), join_all(claiming));
        let kept = kept.into_iter().filter(|kept| *kept).count();
        let mut leases = Vec::new();
        for claim in claims {
            match claim {
                Claim::Leased(lease) => leases.push(lease),
                Claim::Held | Claim::Settled(State::Done) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(kept + leases.len(), 1);
        for lease in leases {
            table.settle(*lease, Settlement::Done).await;
        }
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(
            (row.state, row.epoch, row.history.len()),
            (State::Done, 1, 1)
        );
    }
}

#[tokio::test]
async fn a_worker_that_crashed_leaves_the_event_to_a_claim() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table.lease(&key, NOW).await;
    let late = table.ledger.keep(&key, "worker", lease_over(), LEASE).await;
    assert!(late.unwrap().is_none());
    let lease = table.lease(&key, lease_over()).await;
    assert_eq!((lease.row.epoch, lease.row.crashes), (2, 1));
}
