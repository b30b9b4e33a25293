//! Tests the holds of workers' effects: the event stays in its queue, and its plan is kept for the
//! worker that continues.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{
    By, Claim, Erased, Hold, HoldDecision, PARKED_SCHEMA, Row, SCHEMA, Settled, Settlement, State,
    WorkClaim, WorkLease, WorkPlan,
};
use shared::inbox::outcome::{HoldRequest, Outcome};
use shared::webhook::event::EventKey;

use super::{QUEUE, available, claim, claim_of, in_index, park, work};
use crate::matrix::assert_sound;
use crate::support::{NOW, Table, n, number, s, text};

const ANNA: By<'static> = By {
    who: "anna",
    why: "the customer called",
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The time of a decision.
const THEN: UnixMillis = UnixMillis(NOW.0 + 3_600_000);

fn plan(text: &str) -> WorkPlan {
    WorkPlan {
        full: Some(text.to_owned()),
        ..WorkPlan::default()
    }
}

fn settlement(row: &Row, plan: &WorkPlan, now: UnixMillis) -> Settlement {
    let request = HoldRequest {
        effect: "refund".into(),
        rule: "large".into(),
        over_api: false,
        plan: plan.hash("refund"),
        summary: plan.summary(),
        why: "amount is above 5000".into(),
        read: vec!["amount".into()],
        expires: DAY,
    };
    let backoff = shared::base::backoff::Backoff::default();
    let outcome = Outcome::Held(Box::new(request));
    Settlement::of(outcome, row, &backoff, now, 0.0)
}

/// Claims the event for a worker, whose effect a rule holds.
async fn hold(table: &Table, key: &EventKey, plan: &WorkPlan, now: UnixMillis) -> Hold {
    let lease = work(table, key, now).await;
    let settlement = settlement(&lease.row, plan, now);
    let Settlement::Held(hold) = settlement.clone() else {
        panic!("{settlement:?}");
    };
    let ledger = &table.ledger;
    let kept = ledger.keep_work_plan(&lease.row, plan, &hold, now);
    kept.await.unwrap();
    let settled = ledger.settle(lease, settlement.clone(), &[], now);
    assert_eq!(settled.await.unwrap(), Settled::Recorded(settlement));
    *hold
}

/// An operator sees the amount and the target, even if the worker says much.
#[tokio::test]
async fn a_long_plan_keeps_its_amount_and_its_target() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let (amount, target) = ("1".repeat(40), "ä".repeat(200));
    let long = WorkPlan {
        summary: Some("x".repeat(200)),
        target: Some(target.clone()),
        amount: Some(amount.clone()),
        ..WorkPlan::default()
    };
    let hold = hold(&table, &key, &long, NOW).await;
    let first = format!("amount {amount}, target {target}, x");
    assert!(hold.summary.starts_with(&first), "{}", hold.summary);
    assert!(hold.summary.chars().count() <= 260);
    assert_eq!(read(&table, &key).await.hold, Some(Box::new(hold)));
}

async fn read(table: &Table, key: &EventKey) -> Row {
    table.ledger.event(key).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_held_event_stays_in_its_queue_and_no_worker_gets_it() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let before = table.row(&key).await;
    let hold = hold(&table, &key, &plan("a"), NOW).await;
    let row = table.row(&key).await;
    assert_sound(&before, &row);
    assert_eq!(
        (text(&row, "pul").as_str(), text(&row, "gpk").as_str()),
        (QUEUE, "H#stripe-main")
    );
    assert_eq!(
        (number(&row, "att"), hold.version),
        (0, PARKED_SCHEMA),
        "the claim is not an attempt"
    );
    let stored = read(&table, &key).await;
    assert!(stored.is_pulled() && stored.is_held() && !stored.waits_for_worker());
    assert_eq!(available(&table, THEN + DAY).await, []);
    // A worker can have found the key before.
    for attempts in [0, 10] {
        let claim = claim_of(&table, &key, THEN, attempts).await;
        assert!(matches!(claim, WorkClaim::Busy), "{claim:?}");
    }
    let claim = table.claim(&key, THEN).await;
    assert!(matches!(claim, Claim::OnHold), "{claim:?}");
    assert_eq!(table.row(&key).await, row);
    // Each clause is enough: the hold, and the state of the claim's condition.
    table
        .edit(&key, |row| drop(row.insert("due".into(), n(NOW.0))))
        .await;
    let row = table
        .edit(&key, |row| drop(row.insert("st".into(), s("failed"))))
        .await;
    let claim = claim_of(&table, &key, THEN, 10).await;
    assert!(matches!(claim, WorkClaim::Busy), "{claim:?}");
    assert_eq!(table.row(&key).await, row);
}

#[tokio::test]
async fn an_approved_event_is_available_to_workers_at_once() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let held = hold(&table, &key, &plan("a"), NOW).await;
    let before = table.row(&key).await;
    let decision = table.ledger.approve(&key, &held.id, ANNA, THEN).await;
    let decision = decision.unwrap();
    assert!(matches!(decision, HoldDecision::Made(_)), "{decision:?}");
    // The processor has nothing to do.
    assert!(decision.work_message().is_none());
    let row = table.row(&key).await;
    assert_sound(&before, &row);
    assert_eq!(text(&row, "gpk"), "P#stripe-main");
    assert_eq!(in_index(&table, &key).await, THEN);
    assert_eq!(available(&table, THEN).await, std::slice::from_ref(&key));
    let lease = work(&table, &key, THEN).await;
    let approved = lease.row.approved_plan("refund").unwrap().to_owned();
    assert_eq!(
        (approved.as_str(), lease.row.attempts),
        (held.plan.as_str(), 1)
    );
    let kept = table.ledger.work_plan(&lease.row, "refund", &approved);
    assert_eq!(kept.await.unwrap(), Some(plan("a")));
    table.settle(lease, Settlement::Done).await;
    let row = read(&table, &key).await;
    assert_eq!((row.state, row.schema), (State::Done, SCHEMA));
}

#[tokio::test]
async fn a_rejected_and_an_expired_hold_leave_the_queue() {
    let table = Table::fresh().await;
    for what in ["rejected", "approval_expired"] {
        let key = park(&table, what).await;
        let held = hold(&table, &key, &plan("a"), NOW).await;
        let before = table.row(&key).await;
        let decision = match what {
            "rejected" => table.ledger.reject(&key, &held.id, ANNA, THEN).await,
            _ => table.ledger.expire_hold(&key, NOW + DAY).await,
        };
        assert!(matches!(decision.unwrap(), HoldDecision::Made(_)));
        assert_sound(&before, &table.row(&key).await);
        let row = read(&table, &key).await;
        assert_eq!(
            (row.state, row.reason.as_deref()),
            (State::DeadLetter, Some(what))
        );
        assert_eq!((row.pull, row.schema), (None, SCHEMA));
    }
}

#[tokio::test]
async fn the_third_plan_of_a_run_is_a_dead_letter() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    for text in ["a", "b"] {
        let held = hold(&table, &key, &plan(text), NOW).await;
        let approved = table.ledger.approve(&key, &held.id, ANNA, NOW).await;
        assert!(matches!(approved.unwrap(), HoldDecision::Made(_)));
    }
    let lease = work(&table, &key, NOW).await;
    let third = settlement(&lease.row, &plan("c"), NOW);
    let Settlement::DeadLetter { reason, .. } = &third else {
        panic!("{third:?}");
    };
    assert_eq!(*reason, "plan_unstable");
    table.settle(lease, third).await;
    let row = read(&table, &key).await;
    assert_eq!((row.state, row.pull), (State::DeadLetter, None));
}

#[tokio::test]
async fn a_plan_is_read_by_its_hash_and_erased_with_the_event() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let first = hold(&table, &key, &plan("a"), NOW).await;
    let approved = table.ledger.approve(&key, &first.id, ANNA, NOW).await;
    assert!(matches!(approved.unwrap(), HoldDecision::Made(_)));
    // A worker that lost its lease, with another plan, changes nothing.
    let row = read(&table, &key).await;
    let other = Hold {
        plan: plan("b").hash("refund"),
        ..first.clone()
    };
    let (ledger, second) = (&table.ledger, plan("b"));
    let late = ledger.keep_work_plan(&row, &second, &other, NOW);
    late.await.unwrap();
    let of = async |effect, hash: &str| {
        let row = read(&table, &key).await;
        table.ledger.work_plan(&row, effect, hash).await.unwrap()
    };
    assert_eq!(of("refund", &first.plan).await, Some(plan("a")));
    assert_eq!(of("other", &first.plan).await, None);
    let sk = format!("P#refund#{}", first.plan);
    let item = table.item(&key.pk(), &sk).await.unwrap();
    let ttl = number(&item, "ttl");
    assert!(ttl >= (NOW + DAY + DAY).secs(), "it outlasts the hold");

    let erased = table.ledger.erase(&key, ANNA, THEN).await.unwrap();
    assert_eq!(erased, Erased::Gone);
    assert!(table.item(&key.pk(), &sk).await.is_none());
    assert_eq!(of("refund", &first.plan).await, None);
}

#[tokio::test]
async fn a_held_event_of_a_queue_can_be_erased() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let held = hold(&table, &key, &plan("a"), NOW).await;
    let erased = table.ledger.erase(&key, ANNA, THEN).await.unwrap();
    assert_eq!(erased, Erased::Gone);
    let row = table.row(&key).await;
    assert!(!row.contains_key("pul") && !row.contains_key("hld"));
    assert_eq!(number(&row, "sv"), i64::from(SCHEMA));
    let sk = format!("P#refund#{}", held.plan);
    assert!(table.item(&key.pk(), &sk).await.is_none());
}

#[tokio::test]
async fn a_worker_whose_answer_was_lost_finds_the_hold() {
    let table = Table::fresh().await;
    let key = park(&table, "evt_1").await;
    let lease = work(&table, &key, NOW).await;
    let (epoch, owner) = (lease.row.epoch, lease.owner().to_owned());
    let held = settlement(&lease.row, &plan("a"), NOW);
    table.settle(lease, held).await;
    let ended = table.ledger.work_lease(&key, epoch, &owner).await.unwrap();
    let WorkLease::Ended(row) = ended else {
        panic!("{ended:?}");
    };
    let hold = row.hold.unwrap();
    assert_eq!(hold.plan, plan("a").hash("refund"));
    let approved = table.ledger.approve(&key, &hold.id, ANNA, THEN).await;
    assert!(matches!(approved.unwrap(), HoldDecision::Made(_)));
    let lost = table.ledger.work_lease(&key, epoch, &owner).await.unwrap();
    assert!(matches!(lost, WorkLease::Lost), "{lost:?}");
    assert!(matches!(
        claim(&table, &key, THEN).await,
        WorkClaim::Leased(_)
    ));
}
