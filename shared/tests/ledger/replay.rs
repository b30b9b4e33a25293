//! Tests replays. A plan processes each of its settled events again, once.

use std::time::Duration;

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::base::timing::{FIRST_LOOK, KEEP_BODY, LEASE};
use shared::inbox::ledger::{
    Again, By, Claim, EffectState, Erased, Planned, Received, Replayed, Settled, Settlement, State,
};
use shared::webhook::event::EventKey;

use crate::settle::effect;
use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, event_with, lease_over, leased, noise, number,
    retry_at, s, text,
};

const PLAN: &str = "rpl_7KQ2M4";

/// Returns the time at which plans are created and applied.
fn later() -> UnixMillis {
    after(10_000)
}

fn again(seen: u64) -> Again<'static> {
    Again {
        plan: PLAN,
        seen,
        new_effects: false,
    }
}

async fn plan(table: &Table, keys: &[&EventKey]) -> Vec<u64> {
    let mut events = Vec::new();
    for key in keys {
        let row = table.ledger.event(key).await.unwrap().unwrap();
        events.push(((*key).clone(), row.epoch));
    }
    let expires = later() + Duration::from_secs(90 * 24 * 3600);
    let planned = table
        .ledger
        .plans()
        .plan_events(PLAN, &events, expires)
        .await;
    planned.unwrap();
    events.into_iter().map(|(_, seen)| seen).collect()
}

/// Returns an event that was processed once, and the fencing token for the plan.
async fn settled(table: &Table, id: &str, settlement: Settlement) -> (EventKey, u64) {
    let key = table.receive(&event(id)).await;
    let lease = table.lease(&key, NOW).await;
    let effects = [("http".to_owned(), effect(EffectState::Done))];
    let end = table
        .ledger
        .settle(lease, settlement, &effects, after(1_000));
    end.await.unwrap();
    let seen = plan(table, &[&key]).await;
    (key, seen[0])
}

async fn replay(table: &Table, key: &EventKey, seen: u64) -> Replayed {
    let replayed = table
        .ledger
        .plans()
        .replay(key, &again(seen), later())
        .await;
    replayed.unwrap()
}

async fn planned(table: &Table) -> Vec<Planned> {
    table.ledger.plans().planned(PLAN).await.unwrap()
}

#[tokio::test]
async fn whatever_is_settled_begins_a_new_run() {
    let table = Table::fresh().await;
    let settlements = [Settlement::Done, dead(), retry_at(after(7_200_000))];
    for (index, settlement) in settlements.into_iter().enumerate() {
        let id = format!("evt_{index}");
        let (key, seen) = settled(&table, &id, settlement).await;
        table
            .edit(&key, |row| {
                for (name, value) in [("cr", "2"), ("died", "1"), ("off", "3"), ("enq_n", "4")] {
                    row.insert(name.into(), n(value));
                }
                row.insert("newer".into(), s("kept"));
            })
            .await;
        assert_eq!(replay(&table, &key, seen).await, Replayed::Again, "{id}");

        let stored = table.row(&key).await;
        for gone in [
            "ttl", "due", "off", "died", "own", "lu", "reason", "dead_at", "done_at", "done_by",
        ] {
            assert!(!stored.contains_key(gone), "{gone} of {id}");
        }
        assert_eq!(text(&stored, "newer"), "kept");
        assert_eq!(number(&stored, "gsk"), (later() + FIRST_LOOK).0);
        let part = text(&stored, "gpk");
        assert!(part.starts_with("W#"), "{part}");
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(row.state, State::Received);
        assert_eq!((row.epoch, row.run, row.generation), (seen + 1, 1, 0));
        assert_eq!(
            (row.attempts, row.crashes, row.deferrals, row.sends),
            (0, 0, 0, 0)
        );
        // Applied effects are not repeated, and the history stays readable.
        assert_eq!(row.effects["http"].state, EffectState::Done);
        let last = row.history.last().unwrap();
        assert_eq!((last.what.as_str(), last.note.as_str()), ("replayed", PLAN));
        assert_eq!(row.history.len(), 2);
        // The event is due immediately, with all of its attempts.
        let lease = leased(table.claim_of(&key, later(), 1).await);
        assert_eq!((lease.row.attempts, lease.row.epoch), (1, seen + 2));
    }
}

fn n(value: &str) -> aws_sdk_dynamodb::types::AttributeValue {
    aws_sdk_dynamodb::types::AttributeValue::N(value.into())
}

#[tokio::test]
async fn a_plan_takes_an_event_up_once_however_often_it_is_applied() {
    let table = Table::fresh().await;
    let (key, seen) = settled(&table, "evt_1", dead()).await;
    let all = (0..8).map(|_| replay(&table, &key, seen));
    let mut outcomes = join_all(all).await;
    outcomes.sort_by_key(|outcome| *outcome != Replayed::Again);
    assert_eq!(outcomes[0], Replayed::Again);
    assert!(outcomes[1..].iter().all(|it| *it == Replayed::Before));
    assert_eq!(planned(&table).await[0].applied_at, Some(later()));
    // The result is the same when the run is over and the row has changed.
    let lease = table.lease(&key, later()).await;
    table.settle(lease, dead()).await;
    let before = table.row(&key).await;
    assert_eq!(replay(&table, &key, seen).await, Replayed::Before);
    assert_eq!(table.row(&key).await, before);
    assert_eq!(number(&before, "run"), 1);
}

#[tokio::test]
async fn what_is_not_settled_or_has_moved_is_left_as_it_is() {
    let table = Table::fresh().await;
    let open = table.receive(&event("evt_open")).await;
    let held = table.receive(&event("evt_held")).await;
    let lease = table.lease(&held, NOW).await;
    let (moved, _) = settled(&table, "evt_moved", retry_at(NOW)).await;
    let (apart, _) = settled(&table, "evt_apart", dead()).await;
    let (newer, _) = settled(&table, "evt_newer", dead()).await;
    let (erased, _) = settled(&table, "evt_erased", Settlement::Done).await;
    let by = By {
        who: "anna",
        why: "asked for",
    };
    let erasure = table.ledger.erase(&erased, by, NOW).await.unwrap();
    assert_eq!(erasure, Erased::Gone);
    let state = |row: &mut shared::inbox::ledger::Item| row.insert("st".into(), s("quarantined"));
    table.edit(&apart, |row| drop(state(row))).await;
    let schema = |row: &mut shared::inbox::ledger::Item| row.insert("sv".into(), n("9"));
    table.edit(&newer, |row| drop(schema(row))).await;
    let keys = [&open, &held, &moved, &apart, &newer, &erased];
    let seen = plan(&table, &keys).await;
    // A worker processed the event after it was planned.
    let next = table.lease(&moved, after(2_000)).await;
    table.settle(next, dead()).await;
    for (key, seen) in keys.into_iter().zip(seen) {
        let before = table.row(key).await;
        assert_eq!(replay(&table, key, seen).await, Replayed::Moved, "{key}");
        assert_eq!(table.row(key).await, before, "{key}");
    }
    assert!(
        planned(&table)
            .await
            .iter()
            .all(|it| it.applied_at.is_none())
    );
    table.settle(lease, Settlement::Done).await;

    let (gone, seen) = settled(&table, "evt_gone", dead()).await;
    table.delete(&gone.pk(), "M").await;
    assert_eq!(replay(&table, &gone, seen).await, Replayed::Gone);
}

#[tokio::test]
async fn an_event_that_the_plan_does_not_name_is_not_replayed() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, dead()).await;
    let before = table.all().await;
    let error = table.ledger.plans().replay(&key, &again(1), later()).await;
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("does not contain"), "{error}");
    assert_eq!(table.all().await, before);
}

#[tokio::test]
async fn a_claim_that_comes_in_between_wins() {
    let table = Table::fresh().await;
    let (key, seen) = settled(&table, "evt_1", retry_at(NOW)).await;
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("TransactWriteItems", "rpl_");
    let asked = again(seen);
    let (replayed, lease) = held
        .around(
            ledger.plans().replay(&key, &asked, later()),
            table.lease(&key, NOW),
        )
        .await;
    assert_eq!(replayed.unwrap(), Replayed::Moved);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.state, row.run), (State::Processing, 0));
    assert_eq!(
        table.settle(lease, Settlement::Done).await,
        Settled::Recorded(Settlement::Done)
    );
}

#[tokio::test]
async fn a_worker_of_an_earlier_run_cannot_write() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let frozen = table.lease(&key, NOW).await;
    let second = leased(table.claim(&key, lease_over()).await);
    table.settle(second, dead()).await;
    let seen = plan(&table, &[&key]).await;
    assert_eq!(replay(&table, &key, seen[0]).await, Replayed::Again);
    let third = table.lease(&key, later()).await;
    assert_eq!(table.settle(frozen, Settlement::Done).await, Settled::Stale);
    let done = table.settle(third, Settlement::Done).await;
    assert_eq!(done, Settled::Recorded(Settlement::Done));
}

#[tokio::test]
async fn a_lost_answer_is_no_second_replay() {
    let table = Table::fresh().await;
    let (key, seen) = settled(&table, "evt_1", dead()).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("TransactWriteItems", "rpl_");
    let replayed = ledger
        .plans()
        .replay(&key, &again(seen), later())
        .await
        .unwrap();
    // The SDK repeats the transaction with its token.
    assert!(
        matches!(replayed, Replayed::Again | Replayed::Before),
        "{replayed:?}"
    );
    assert_eq!(number(&table.row(&key).await, "run"), 1);
    assert_eq!(proxy.count()["TransactWriteItems"], 2);
}

#[tokio::test]
async fn new_effects_forget_the_old_and_have_other_keys() {
    let table = Table::fresh().await;
    let (key, seen) = settled(&table, "evt_1", Settlement::Done).await;
    let anew = Again {
        new_effects: true,
        ..again(seen)
    };
    let replayed = table
        .ledger
        .plans()
        .replay(&key, &anew, later())
        .await
        .unwrap();
    assert_eq!(replayed, Replayed::Again);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert!(row.effects.is_empty());
    assert_eq!((row.generation, row.run), (1, 1));
}

#[tokio::test]
async fn a_second_delivery_rings_for_what_is_replayed() {
    let table = Table::fresh().await;
    let (key, seen) = settled(&table, "evt_1", Settlement::Done).await;
    assert_eq!(replay(&table, &key, seen).await, Replayed::Again);
    let received = table.ledger.receive(&event("evt_1"), later() + LEASE).await;
    let received = received.unwrap();
    assert!(!matches!(received, Received::Settled), "{received:?}");
    assert!(matches!(table.claim(&key, later()).await, Claim::Leased(_)));
}

#[tokio::test]
async fn a_body_that_was_about_to_expire_is_kept_until_the_run_is_done() {
    let table = Table::fresh().await;
    let large = event_with("evt_1", shared::webhook::event::Via::Webhook, noise(3_000));
    let key = table.receive(&large).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, Settlement::Done).await;
    let seen = plan(&table, &[&key]).await[0];
    let old = NOW + KEEP_BODY - Duration::from_secs(60);
    let replayed = table
        .ledger
        .plans()
        .replay(&key, &again(seen), old)
        .await
        .unwrap();
    assert_eq!(replayed, Replayed::Again);
    let body = async || {
        let mut items = table.all().await.into_iter();
        items
            .find(|item| text(item, "sk").starts_with("B#"))
            .unwrap()
    };
    assert!(!body().await.contains_key("ttl"));
    let lease = leased(table.claim_of(&key, old, ATTEMPTS).await);
    table
        .ledger
        .settle(lease, Settlement::Done, &[], old)
        .await
        .unwrap();
    assert!(body().await.contains_key("ttl"));
}

#[tokio::test]
async fn a_plan_keeps_its_events_in_their_order() {
    let table = Table::fresh().await;
    let keys: Vec<_> = (0..60)
        .map(|index| EventKey::new("stripe-main", &format!("evt_{}", 97 * index % 60)))
        .collect();
    let events: Vec<_> = keys.iter().cloned().zip(1..).collect();
    for _ in 0..2 {
        table
            .ledger
            .plans()
            .plan_events(PLAN, &events, later())
            .await
            .unwrap();
    }
    let found = planned(&table).await;
    let told: Vec<_> = found.iter().map(|it| (it.key.clone(), it.seen)).collect();
    assert_eq!(told, events);
    assert!(found.iter().zip(0..).all(|(it, place)| it.place == place));
    assert!(
        table
            .ledger
            .plans()
            .planned("rpl_other")
            .await
            .unwrap()
            .is_empty()
    );
}
