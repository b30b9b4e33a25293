//! Tests the events that workers outside of Lambda claim from a queue.

mod approval;
mod begin;
mod direct;
mod hold;
mod matrix;

use std::slice::from_ref;
use std::time::Duration;

use futures::future::join_all;
use shared::base::backoff::CRASHES;
use shared::base::clock::UnixMillis;
use shared::base::timing::LEASE;
use shared::inbox::ledger::transition::work::AFTER_LEASE;
use shared::inbox::ledger::{
    By, Claim, EffectState, Intended, Item, Lease, PARKED_SCHEMA, Received, SCHEMA, Settled,
    Settlement, State, WorkClaim, WorkLease,
};
use shared::webhook::event::{EventKey, Via};

use crate::matrix::assert_sound;
use crate::settle::effect;
use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, event_of, event_with, lease_over, n, noise, number,
    retry_at, s, text,
};

const QUEUE: &str = "triage";

const WORKER: &str = "w:0123456789ab:triage-1";

/// The length of a worker's lease.
const HELD: Duration = Duration::from_secs(120);

fn parked_in(queue: &str) -> Settlement {
    let queue = queue.to_owned();
    Settlement::Parked { queue }
}

/// Receives an event, whose other actions are done, and parks it at [`NOW`].
async fn park(table: &Table, id: &str) -> EventKey {
    let key = table.receive(&event(id)).await;
    let lease = table.lease(&key, NOW).await;
    let effects = [("audit".to_owned(), effect(EffectState::Done))];
    let parked = table.ledger.settle(lease, parked_in(QUEUE), &effects, NOW);
    let parked = parked.await.unwrap();
    assert_eq!(parked, Settled::Recorded(parked_in(QUEUE)));
    key
}

async fn claim(table: &Table, key: &EventKey, now: UnixMillis) -> WorkClaim {
    claim_of(table, key, now, ATTEMPTS).await
}

async fn claim_of(table: &Table, key: &EventKey, now: UnixMillis, attempts: u32) -> WorkClaim {
    let ledger = &table.ledger;
    let claim = ledger.claim_work(key, QUEUE, WORKER, now, now + HELD, attempts);
    claim.await.unwrap()
}

fn held(claim: WorkClaim) -> Lease {
    match claim {
        WorkClaim::Leased(lease) => *lease,
        other => panic!("expected a lease, got {other:?}"),
    }
}

/// Claims an available event for a worker.
async fn work(table: &Table, key: &EventKey, now: UnixMillis) -> Lease {
    held(claim(table, key, now).await)
}

async fn available(table: &Table, now: UnixMillis) -> Vec<EventKey> {
    let found = table.ledger.work_available("stripe-main", now, 10);
    found.await.unwrap()
}

/// Returns the time at which the event is in the index.
async fn in_index(table: &Table, key: &EventKey) -> UnixMillis {
    UnixMillis(number(&table.row(key).await, "gsk"))
}

#[tokio::test]
async fn an_event_is_parked_claimed_and_done() {
    let table = Table::fresh().await;
    let received = table.receive(&event("evt_1")).await;
    let before = table.row(&received).await;
    let key = park(&table, "evt_1").await;
    let row = table.row(&key).await;
    assert_sound(&before, &row);
    assert_eq!(text(&row, "pul"), QUEUE);
    assert_eq!(text(&row, "gpk"), "P#stripe-main");
    for (name, value) in [("sv", 4), ("att", 0), ("cr", 0), ("gsk", NOW.0)] {
        assert_eq!(number(&row, name), value, "{name}");
    }
    let read = table.ledger.event(&key).await.unwrap().unwrap();
    assert!(read.waits_for_worker() && read.is_pulled() && !read.is_too_new());
    assert_eq!(read.effects["audit"].state, EffectState::Done);
    assert_eq!(read.history.last().unwrap().note, QUEUE);
    assert_eq!(available(&table, NOW).await, from_ref(&key));

    let lease = work(&table, &key, NOW).await;
    assert!(lease.owner().starts_with(WORKER));
    assert_eq!((lease.row.epoch, lease.row.attempts), (2, 1));
    assert_eq!(lease.until(), NOW + HELD);
    let body = table.ledger.leased_body(&lease).await.unwrap().unwrap();
    assert_eq!(body.0, r#"{"id":"evt_1"}"#);
    assert_eq!(in_index(&table, &key).await, NOW + HELD + AFTER_LEASE);
    assert_eq!(available(&table, NOW).await, []);

    let effects = [("triage".to_owned(), effect(EffectState::Done))];
    let done = table
        .ledger
        .settle(lease, Settlement::Done, &effects, after(1_000));
    let done = done.await.unwrap();
    assert_eq!(done, Settled::Recorded(Settlement::Done));
    let row = table.row(&key).await;
    assert_sound(&before, &row);
    let read = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((read.state, read.schema), (State::Done, SCHEMA));
    assert_eq!(read.effects["triage"].state, EffectState::Done);
    let words: Vec<_> = read.history.iter().map(|moment| &moment.what).collect();
    assert_eq!(words, ["parked", "done"]);
}

#[tokio::test]
async fn a_retry_is_available_when_it_is_due_and_needs_no_message() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let due = after(300_000);
    let lease = work(&table, &key, NOW).await;
    let outcome = shared::inbox::outcome::Outcome::retry("the tracker is busy");
    let backoff = shared::base::backoff::Backoff::default();
    let settlement = Settlement::of(outcome, &lease.row, &backoff, NOW, 0.0);
    assert!(
        matches!(
            settlement,
            Settlement::Retry {
                resend_after: None,
                ..
            }
        ),
        "{settlement:?}"
    );
    table.settle(lease, retry_at(due)).await;
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(
        (row.state, row.pull.as_deref()),
        (State::Failed, Some(QUEUE))
    );
    assert_eq!(in_index(&table, &key).await, due);
    let early = due - Duration::from_millis(1);
    assert_eq!(available(&table, early).await, []);
    assert!(matches!(claim(&table, &key, early).await, WorkClaim::Busy));
    assert_eq!(available(&table, due).await, from_ref(&key));
    let lease = work(&table, &key, due).await;
    assert_eq!(lease.row.attempts, 2);

    // An event that a worker gives back does not spend an attempt.
    let released = Settlement::Deferred {
        why: "released by the worker".into(),
        due,
        resend_after: None,
        in_line: false,
        first: None,
    };
    let settled = table.ledger.settle(lease, released.clone(), &[], due);
    assert_eq!(settled.await.unwrap(), Settled::Recorded(released));
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempts), (State::Failed, 1));
    assert_eq!(available(&table, due).await, [key]);
}

#[tokio::test]
async fn of_many_workers_one_gets_the_event() {
    let table = Table::fresh().await;
    for round in 0..8 {
        let key = park(&table, &format!("evt_{round}")).await;
        let workers = (0..8).map(|_| claim(&table, &key, NOW));
        let processors = (0..4).map(|_| table.claim(&key, NOW));
        let (claims, refused) = tokio::join!(join_all(workers), join_all(processors));
        let leases = claims
            .iter()
            .filter(|it| matches!(it, WorkClaim::Leased(_)));
        assert_eq!(leases.count(), 1);
        assert!(refused.iter().all(|it| matches!(it, Claim::Parked)));
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!((row.epoch, row.attempts), (2, 1));
    }
}

#[tokio::test]
async fn a_worker_that_does_not_return_is_followed_by_another() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let first = work(&table, &key, NOW).await;
    let back = NOW + HELD + AFTER_LEASE;
    assert_eq!(available(&table, back - Duration::from_millis(1)).await, []);
    assert_eq!(available(&table, back).await, from_ref(&key));
    let workers = (0..8).map(|_| claim(&table, &key, back));
    let mut leases: Vec<_> = join_all(workers).await;
    leases.retain(|claim| matches!(claim, WorkClaim::Leased(_)));
    assert_eq!(leases.len(), 1);
    let second = held(leases.remove(0));
    assert_eq!((second.row.epoch, second.row.crashes), (3, 1));
    assert_eq!(in_index(&table, &key).await, back + HELD + AFTER_LEASE);
    assert_eq!(table.settle(first, Settlement::Done).await, Settled::Stale);
    let done = table.settle(second, Settlement::Done).await;
    assert_eq!(done, Settled::Recorded(Settlement::Done));
}

#[tokio::test]
async fn an_event_that_crashes_its_workers_is_a_dead_letter() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let mut now = NOW;
    for _ in 0..CRASHES {
        work(&table, &key, now).await;
        now = now + HELD + AFTER_LEASE;
    }
    assert!(matches!(
        claim(&table, &key, now).await,
        WorkClaim::Exhausted
    ));
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.reason.as_deref(), Some("crash_loop"));
    assert_eq!((row.pull, row.schema), (None, SCHEMA));

    // The crashes of the row count, whatever its state.
    let key = park(&table, "evt_2").await;
    table
        .edit(&key, |row| drop(row.insert("cr".into(), n(CRASHES))))
        .await;
    assert!(matches!(
        claim(&table, &key, NOW).await,
        WorkClaim::Exhausted
    ));
}

#[tokio::test]
async fn a_row_that_this_release_cannot_read_is_not_claimed() {
    let table = Table::fresh().await;
    for (id, name, value) in [
        ("evt_1", "sv", n(PARKED_SCHEMA + 1)),
        ("evt_2", "fx", s("of a later version")),
        ("evt_3", "epoch", s("of a later version")),
    ] {
        let key = park(&table, id).await;
        let before = table
            .edit(&key, |row| drop(row.insert(name.into(), value)))
            .await;
        let claim = claim(&table, &key, NOW).await;
        assert!(matches!(claim, WorkClaim::TooNew(_)), "{name}: {claim:?}");
        assert_eq!(table.row(&key).await, before);
        assert!(matches!(table.claim(&key, NOW).await, Claim::TooNew(_)));
    }
    let missing = EventKey::new("stripe-main", "evt_4");
    assert!(matches!(
        claim(&table, &missing, NOW).await,
        WorkClaim::Missing
    ));
}

#[tokio::test]
async fn the_processor_leaves_an_event_in_a_queue_whatever_its_version() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let before = table
        .edit(&key, |row| drop(row.insert("pul".into(), s(QUEUE))))
        .await;
    let kept = table.ledger.keep(&key, "worker", NOW, LEASE).await.unwrap();
    assert!(kept.is_none());
    assert!(matches!(table.claim(&key, NOW).await, Claim::Parked));
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn an_event_that_waits_follows_the_queue_of_its_source() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let renamed = table
        .ledger
        .claim_work(&key, "billing", WORKER, NOW, NOW + HELD, ATTEMPTS);
    let lease = held(renamed.await.unwrap());
    assert_eq!(lease.row.pull.as_deref(), Some("billing"));
}

#[tokio::test]
async fn an_event_whose_row_cannot_be_read_does_not_stop_a_worker() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let before = table.edit(&key, |row| drop(row.remove("cr"))).await;
    let newer = claim(&table, &key, NOW).await;
    assert!(
        matches!(newer, WorkClaim::TooNew(PARKED_SCHEMA)),
        "{newer:?}"
    );
    assert_eq!(table.row(&key).await, before);
    table
        .edit(&key, |row| drop(row.insert("sv".into(), n(SCHEMA))))
        .await;
    assert!(matches!(claim(&table, &key, NOW).await, WorkClaim::Busy));
}

#[tokio::test]
async fn a_worker_takes_only_the_events_of_a_queue() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let fresh = table.receive(&event("evt_2")).await;
    assert!(matches!(
        claim(&table, &fresh, NOW).await,
        WorkClaim::NotInQueue
    ));
    let held = table.lease(&fresh, NOW).await;
    assert!(matches!(
        claim(&table, &fresh, lease_over()).await,
        WorkClaim::NotInQueue
    ));
    table.settle(held, Settlement::Done).await;
    let settled = claim(&table, &fresh, NOW).await;
    assert!(matches!(settled, WorkClaim::Settled(State::Done)));
    // The index lists the events of one source.
    let of_other = event_of("github", "evt_3", "{}");
    let of_other = table.receive(&of_other).await;
    let lease = table.lease(&of_other, NOW).await;
    table.settle(lease, parked_in(QUEUE)).await;
    assert_eq!(available(&table, after(1_000)).await, [key]);
    let github = table.ledger.work_available("github", after(1_000), 10);
    assert_eq!(github.await.unwrap(), [of_other]);
}

#[tokio::test]
async fn a_lease_is_found_by_its_token_until_it_ends() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let lease = work(&table, &key, NOW).await;
    let owner = lease.owner().to_owned();
    let find = async |epoch| table.ledger.work_lease(&key, epoch, &owner).await.unwrap();
    let WorkLease::Held(found) = find(2).await else {
        panic!("the worker holds the event");
    };
    assert_eq!((found.owner(), found.until()), (lease.owner(), NOW + HELD));
    assert!(matches!(find(1).await, WorkLease::Lost));
    let other = table.ledger.work_lease(&key, 2, "another/1").await.unwrap();
    assert!(matches!(other, WorkLease::Lost));

    let later = after(60_000);
    assert!(
        table
            .ledger
            .extend_work(&lease, later, later + HELD)
            .await
            .unwrap()
    );
    assert_eq!(lease.until(), later + HELD);
    assert_eq!(in_index(&table, &key).await, later + HELD + AFTER_LEASE);
    table.settle(*found, dead()).await;
    let WorkLease::Ended(row) = find(2).await else {
        panic!("the worker ended its work");
    };
    assert_eq!(row.state, State::DeadLetter);
    assert!(
        !table
            .ledger
            .extend_work(&lease, later, later + HELD)
            .await
            .unwrap()
    );
    let missing = EventKey::new("stripe-main", "evt_4");
    let missing = table.ledger.work_lease(&missing, 1, "x").await.unwrap();
    assert!(matches!(missing, WorkLease::Lost));
}

#[tokio::test]
async fn an_effect_begins_and_ends_under_the_lease() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let lease = work(&table, &key, NOW).await;
    let ledger = &table.ledger;
    let intent = effect(EffectState::Intent);
    let done = effect(EffectState::Done);
    let begun = ledger.begin_effect(&lease, "ticket", &intent).await;
    assert_eq!(begun.unwrap(), Intended::Recorded);
    assert!(ledger.end_effect(&lease, "ticket", &done).await.unwrap());
    let again = ledger.begin_effect(&lease, "ticket", &intent).await;
    assert_eq!(again.unwrap(), Intended::Done(done.clone()));
    let second = work(&table, &key, NOW + HELD + AFTER_LEASE).await;
    let late = ledger.begin_effect(&lease, "label", &intent).await;
    assert_eq!(late.unwrap(), Intended::LeaseLost);
    assert!(!ledger.end_effect(&lease, "label", &done).await.unwrap());
    assert_eq!(second.row.effects["ticket"], done);
    assert!(!second.row.effects.contains_key("label"));
}

#[tokio::test]
async fn writes_whose_response_was_lost_are_the_workers_own() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    proxy.lose_answer("UpdateItem", ":queue");
    let parked = ledger.settle(lease, parked_in(QUEUE), &[], NOW).await;
    assert_eq!(parked.unwrap(), Settled::Recorded(parked_in(QUEUE)));

    proxy.lose_answer("UpdateItem", ":queue");
    let claim = async |now| {
        ledger
            .claim_work(&key, QUEUE, WORKER, now, now + HELD, ATTEMPTS)
            .await
    };
    let lease = held(claim(NOW).await.unwrap());
    assert_eq!((lease.row.epoch, lease.until()), (2, NOW + HELD));
    proxy.lose_answer("UpdateItem", ":look");
    let (now, until) = (after(1_000), after(1_000) + HELD);
    assert!(ledger.extend_work(&lease, now, until).await.unwrap());

    let over = until + AFTER_LEASE;
    proxy.lose_answer("UpdateItem", ":seen");
    let lease = held(claim(over).await.unwrap());
    assert_eq!((lease.row.epoch, lease.row.crashes), (3, 1));
    let ended = effect(EffectState::Done);
    proxy.lose_answer("UpdateItem", ":fx");
    assert!(ledger.end_effect(&lease, "ticket", &ended).await.unwrap());
    proxy.lose_answer("UpdateItem", ":ttl");
    let done = ledger.settle(lease, Settlement::Done, &[], over).await;
    assert_eq!(done.unwrap(), Settled::Recorded(Settlement::Done));
}

#[tokio::test]
async fn an_end_that_was_recorded_is_known_after_the_event_is_settled() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let lease = work(&table, &key, NOW).await;
    let WorkLease::Held(same) = table
        .ledger
        .work_lease(&key, 2, lease.owner())
        .await
        .unwrap()
    else {
        panic!("the worker holds the event");
    };
    let (done, not) = (effect(EffectState::Done), effect(EffectState::Not));
    let effects = [("ticket".to_owned(), done.clone())];
    let settled = table.ledger.settle(lease, Settlement::Done, &effects, NOW);
    settled.await.unwrap();
    let end = async |effect| {
        table
            .ledger
            .end_effect(&same, "ticket", effect)
            .await
            .unwrap()
    };
    assert!(end(&done).await);
    assert!(!end(&not).await);
}

#[tokio::test]
async fn a_duplicate_of_a_parked_event_needs_no_message() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let before = table.row(&key).await;
    let long_after = NOW + Duration::from_secs(86_400);
    let again = table.ledger.receive(&event("evt_1"), long_after).await;
    let Received::Open { silent, .. } = again.unwrap() else {
        panic!("the event is open");
    };
    assert!(!silent);
    assert_eq!(table.row(&key).await, before);
    assert!(matches!(table.claim(&key, long_after).await, Claim::Parked));
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn a_body_is_held_while_its_event_waits() {
    let table = Table::fresh().await;
    let key = table
        .receive(&event_with("evt_1", Via::Webhook, noise(4_000)))
        .await;
    let lease = table.lease(&key, NOW).await;
    let sha = lease.row.sha.unwrap().hex();
    table.settle(lease, parked_in(QUEUE)).await;
    let body = format!("B#{}", &sha[..16]);
    let is_held = async || {
        let body = table.item(&key.pk(), &body).await.unwrap();
        assert_ne!(body.contains_key("ttl"), body.contains_key("held"));
        body.contains_key("held")
    };
    let hold = async |now| table.ledger.hold_pulled("stripe-main", now).await.unwrap();
    assert_eq!(hold(NOW + Duration::from_secs(1_800)).await, 0);
    let days = NOW + Duration::from_secs(2 * 86_400);
    assert_eq!(hold(NOW + Duration::from_secs(7_200)).await, 1);
    assert!(!is_held().await, "the event is young");
    assert_eq!(hold(days).await, 1);
    assert!(is_held().await);

    // A worker that takes an old event also holds its body.
    let body = table.item(&key.pk(), &body).await.unwrap();
    let mut expires = body.clone();
    expires.remove("held");
    expires.insert("ttl".into(), n(days.secs() + 86_400));
    table.put(expires).await;
    assert!(!is_held().await);
    let lease = work(&table, &key, days).await;
    assert!(is_held().await);
    let done = table.ledger.settle(lease, Settlement::Done, &[], days);
    assert_eq!(done.await.unwrap(), Settled::Recorded(Settlement::Done));
    assert!(!is_held().await);
}

#[tokio::test]
async fn the_events_in_the_queues_of_sources_are_listed() {
    let table = Table::fresh().await;
    let (one, two) = (park(&table, "evt_1").await, park(&table, "evt_2").await);
    let lease = work(&table, &two, NOW).await;
    let list = async |sources: &[&str], limit| {
        let listed = table.ledger.pulled(sources, NOW, limit).await.unwrap();
        (listed.0, listed.1)
    };
    let both = vec![one.clone(), two.clone()];
    assert_eq!(list(&["github", "stripe-main"], 10).await, (both, false));
    assert_eq!(list(&["stripe-main"], 1).await, (vec![one.clone()], true));
    assert_eq!(list(&["github"], 10).await, (vec![], false));
    table.settle(lease, Settlement::Done).await;
    assert_eq!(list(&["stripe-main"], 10).await, (vec![one], false));
}

#[tokio::test]
async fn an_event_that_is_erased_leaves_its_queue() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let by = By {
        who: "operator",
        why: "a request",
    };
    table.ledger.erase(&key, by, after(1_000)).await.unwrap();
    let row: Item = table.row(&key).await;
    assert_eq!(text(&row, "st"), "dead_letter");
    assert!(!row.contains_key("pul"));
    assert_eq!(number(&row, "sv"), i64::from(SCHEMA));
    assert!(matches!(
        claim(&table, &key, after(2_000)).await,
        WorkClaim::Settled(State::DeadLetter)
    ));
}
