//! Tests events that wait for an approval: each transition, each clause of its condition, and every
//! concurrent change.

use std::time::Duration;

use shared::base::backoff::CRASHES;
use shared::base::clock::UnixMillis;
use shared::base::timing::{FIRST_LOOK, LEASE};
use shared::inbox::ledger::{
    Again, By, Claim, EffectRow, EffectState, Erased, HoldDecision, PARKED_SCHEMA, Received,
    Replayed, SCHEMA, Settled, Settlement, State,
};
use shared::inbox::outcome::{HoldRequest, Outcome};
use shared::webhook::event::EventKey;

use crate::matrix::assert_sound;
use crate::proxy::Held;
use crate::support::{
    ATTEMPTS, NOW, Table, after, event, event_of, lease_over, leased, n, noise, number, s, text,
};

const ANNA: By<'static> = By {
    who: "arn:aws:sts::1:assumed-role/oncall/anna",
    why: "the customer asked for it | twice",
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The time of a decision.
const THEN: UnixMillis = UnixMillis(NOW.0 + 3_600_000);

fn request(effect: &str, plan: &str) -> Outcome {
    Outcome::Held(Box::new(HoldRequest {
        effect: effect.into(),
        rule: "large".into(),
        over_api: false,
        plan: plan.into(),
        summary: "POST to hooks.example.com (12 bytes)".into(),
        why: "amount is above 5000".into(),
        read: vec!["amount".into()],
        expires: DAY,
    }))
}

/// Claims the event at `now`, and settles the attempt as a hold of the effect `http`. Returns the id
/// of the hold.
async fn hold_again(table: &Table, key: &EventKey, plan: &str, now: UnixMillis) -> String {
    let lease = table.lease(key, now).await;
    let settlement = settlement(request("http", plan), &lease.row, now);
    let Settlement::Held(hold) = settlement.clone() else {
        panic!("{settlement:?}");
    };
    let settled = table.ledger.settle(lease, settlement.clone(), &[], now);
    assert_eq!(settled.await.unwrap(), Settled::Recorded(settlement));
    hold.id
}

fn settlement(outcome: Outcome, row: &shared::inbox::ledger::Row, now: UnixMillis) -> Settlement {
    let backoff = shared::base::backoff::Backoff::default();
    Settlement::of(outcome, row, &backoff, now, 0.0)
}

/// Receives and holds an event.
async fn held(table: &Table, id: &str) -> (EventKey, String) {
    let key = table.receive(&event(id)).await;
    let hold = hold_again(table, &key, "p1", NOW).await;
    (key, hold)
}

async fn approve(table: &Table, key: &EventKey, hold: &str, now: UnixMillis) -> HoldDecision {
    table.ledger.approve(key, hold, ANNA, now).await.unwrap()
}

fn word(decision: &HoldDecision) -> String {
    match decision {
        HoldDecision::Made(row) => format!("made: {}", row.state),
        HoldDecision::Moved(row) => format!("moved: {}", row.state),
        HoldDecision::Expired => "expired".to_owned(),
        HoldDecision::Missing => "missing".to_owned(),
    }
}

#[tokio::test]
async fn a_held_event_has_no_lease_and_its_attempt_does_not_count() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let mut before = table.row(&key).await;
    let effect = EffectRow {
        state: EffectState::Done,
        key: "wh_1".into(),
        keyed: true,
        at: NOW,
        run: 0,
        note: "200".into(),
        lease: None,
    };
    let settlement = settlement(request("http", "p1"), &lease.row, NOW);
    let other = [("audit".to_owned(), effect)];
    let settled = table.ledger.settle(lease, settlement, &other, NOW).await;
    assert!(matches!(
        settled.unwrap(),
        Settled::Recorded(Settlement::Held(_))
    ));
    let stored = table.row(&key).await;
    before.insert("sv".into(), stored["sv"].clone());
    assert_sound(&before, &stored);
    assert_eq!(number(&stored, "sv"), i64::from(PARKED_SCHEMA));
    assert_eq!(text(&stored, "gpk"), "H#stripe-main");
    assert_eq!(number(&stored, "gsk"), (NOW + DAY).0);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(
        (row.attempts, row.epoch, row.state),
        (0, 1, State::Received)
    );
    assert_eq!(row.effects["audit"].state, EffectState::Done);
    let hold = row.hold.clone().unwrap();
    assert_eq!((hold.rule.as_str(), hold.plan.as_str()), ("large", "p1"));
    assert_eq!(
        (hold.read, hold.version),
        (vec!["amount".to_owned()], SCHEMA)
    );
    let last = row.history.last().unwrap();
    assert_eq!(
        (last.what.as_str(), last.note.as_str()),
        ("held", "http by large")
    );
    // No part of the sweep finds the event among the open rows.
    for shard in 0..8 {
        let part = format!("W#{shard}");
        assert!(table.index("work", "gpk", &part).await.is_empty());
    }
    let whole = (UnixMillis(0), NOW + 10 * DAY);
    let (found, more) = table.ledger.held("stripe-main", whole, 10).await.unwrap();
    assert_eq!((found, more), (vec![key.clone()], false));
    let (early, _) = table
        .ledger
        .held("stripe-main", (UnixMillis(0), NOW), 10)
        .await
        .unwrap();
    assert!(early.is_empty());
}

#[tokio::test]
async fn no_message_starts_a_held_event_and_no_delivery_sends_one() {
    let table = Table::fresh().await;
    let (key, _) = held(&table, "evt_1").await;
    let before = table.row(&key).await;
    for attempts in [0, ATTEMPTS] {
        let claim = table.claim_of(&key, THEN, attempts).await;
        assert!(matches!(claim, Claim::OnHold), "{claim:?}");
    }
    let again = table.ledger.receive(&event("evt_1"), THEN).await.unwrap();
    assert_eq!(
        again,
        Received::Open {
            silent: false,
            run: 0
        }
    );
    assert_eq!(table.row(&key).await, before);
    // The version protects the row from a release that does not know holds, and the hold protects it
    // if only the version is lost.
    table
        .edit(&key, |row| drop(row.insert("sv".into(), n(SCHEMA))))
        .await;
    let claim = table.claim(&key, THEN).await;
    assert!(matches!(claim, Claim::OnHold), "{claim:?}");
    table
        .edit(&key, |row| {
            row.insert("sv".into(), n(PARKED_SCHEMA));
            row.remove("hld");
        })
        .await;
    let claim = table.claim(&key, THEN).await;
    assert!(matches!(claim, Claim::TooNew(PARKED_SCHEMA)), "{claim:?}");
}

#[tokio::test]
async fn an_approved_event_is_open_again_with_the_approval_of_its_plan() {
    let table = Table::fresh().await;
    let (key, hold) = held(&table, "evt_1").await;
    let mut before = table.row(&key).await;
    let decision = approve(&table, &key, &hold, THEN).await;
    assert_eq!(word(&decision), "made: received");
    let message = decision.work_message().unwrap();
    assert_eq!((&message.key, message.run), (&key, 0));
    let stored = table.row(&key).await;
    before.insert("sv".into(), n(SCHEMA));
    assert_sound(&before, &stored);
    assert_eq!(number(&stored, "gsk"), (THEN + FIRST_LOOK).0);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.epoch, row.schema, row.attempts), (2, SCHEMA, 0));
    assert_eq!(row.approved_plan("http"), Some("p1"));
    assert_eq!(row.approved_plan("other"), None);
    let last = row.history.last().unwrap();
    assert_eq!(
        (last.what.as_str(), last.owner.as_str()),
        ("approved", ANNA.who)
    );
    assert_eq!(last.note, ANNA.why);
    // The approval lasts for the run.
    let lease = table.lease(&key, THEN).await;
    assert_eq!(lease.row.approved_plan("http"), Some("p1"));
    table.settle(lease, Settlement::Done).await;
    // A second approval changes nothing.
    let before = table.row(&key).await;
    let again = approve(&table, &key, &hold, THEN).await;
    assert_eq!(word(&again), "moved: done");
    assert!(again.work_message().is_none());
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn a_rejected_and_an_expired_event_are_dead_letters() {
    let table = Table::fresh().await;
    let (key, hold) = held(&table, "evt_1").await;
    let mut before = table.row(&key).await;
    let decision = table.ledger.reject(&key, &hold, ANNA, THEN).await.unwrap();
    assert_eq!(word(&decision), "made: dead_letter");
    let stored = table.row(&key).await;
    before.insert("sv".into(), n(SCHEMA));
    assert_sound(&before, &stored);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.reason.as_deref(), Some("rejected"));
    let error = "rejected (rule large of http): the customer asked for it | twice";
    assert_eq!(row.error.as_deref(), Some(error));
    assert_eq!(row.history.last().unwrap().owner, ANNA.who);

    let (key, hold) = held(&table, "evt_2").await;
    let early = table
        .ledger
        .expire_hold(&key, NOW + DAY - Duration::from_millis(1));
    assert_eq!(word(&early.await.unwrap()), "moved: received");
    let late = approve(&table, &key, &hold, NOW + DAY).await;
    assert_eq!(word(&late), "expired");
    let expired = table.ledger.expire_hold(&key, NOW + DAY).await.unwrap();
    assert_eq!(word(&expired), "made: dead_letter");
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.reason.as_deref(), Some("approval_expired"));
    assert_eq!((row.schema, row.hold), (SCHEMA, None));
    let missing = EventKey::new("stripe-main", "unknown");
    assert_eq!(word(&approve(&table, &missing, "x", THEN).await), "missing");
}

#[tokio::test]
async fn an_approval_is_for_one_hold() {
    let table = Table::fresh().await;
    let (key, first) = held(&table, "evt_1").await;
    approve(&table, &key, &first, THEN).await;
    let second = hold_again(&table, &key, "p2", THEN).await;
    assert_ne!(first, second);
    let stale = approve(&table, &key, &first, THEN).await;
    assert_eq!(word(&stale), "moved: received");
    let stale = table.ledger.reject(&key, &first, ANNA, THEN).await.unwrap();
    assert_eq!(word(&stale), "moved: received");
    assert_eq!(
        word(&approve(&table, &key, &second, THEN).await),
        "made: received"
    );
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.approved_plan("http"), Some("p2"));
}

#[tokio::test]
async fn the_third_hold_of_an_effect_in_a_run_is_a_dead_letter() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    for plan in ["p1", "p2"] {
        let hold = hold_again(&table, &key, plan, NOW).await;
        approve(&table, &key, &hold, THEN).await;
    }
    let lease = table.lease(&key, THEN).await;
    let third = settlement(request("http", "p3"), &lease.row, THEN);
    assert!(
        matches!(
            third,
            Settlement::DeadLetter {
                reason: "plan_unstable",
                ..
            }
        ),
        "{third:?}"
    );
    let other = settlement(request("refund", "p3"), &lease.row, THEN);
    assert!(matches!(other, Settlement::Held(_)), "{other:?}");
    table.settle(lease, third).await;
    // A replay begins a new run, without the approvals of the last one.
    replay(&table, &key).await;
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.approved_plan("http"), None);
    assert!(!table.row(&key).await.contains_key("apv"));
    hold_again(&table, &key, "p1", THEN + DAY).await;
}

async fn replay(table: &Table, key: &EventKey) {
    let row = table.ledger.event(key).await.unwrap().unwrap();
    let plans = table.ledger.plans();
    let events = [(key.clone(), row.epoch)];
    plans
        .plan_events("rpl_1", &events, THEN + DAY)
        .await
        .unwrap();
    let again = Again {
        plan: "rpl_1",
        seen: row.epoch,
        new_effects: false,
    };
    let replayed = plans.replay(key, &again, THEN).await.unwrap();
    assert_eq!(replayed, Replayed::Again);
}

#[tokio::test]
async fn an_erased_event_is_not_held() {
    let table = Table::fresh().await;
    let (key, hold) = held(&table, "evt_1").await;
    let erased = table.ledger.erase(&key, ANNA, THEN).await.unwrap();
    assert_eq!(erased, Erased::Gone);
    let stored = table.row(&key).await;
    assert!(!stored.contains_key("hld") && !stored.contains_key("apv"));
    assert_eq!(number(&stored, "sv"), i64::from(SCHEMA));
    assert!(text(&stored, "gpk").starts_with("D#"));
    let decision = approve(&table, &key, &hold, THEN).await;
    assert_eq!(word(&decision), "moved: dead_letter");
}

#[tokio::test]
async fn only_the_newest_claim_holds_an_event() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let old = table.lease(&key, NOW).await;
    let new = leased(table.claim(&key, THEN).await);
    let held = settlement(request("http", "p1"), &old.row, THEN);
    let settled = table.ledger.settle(old, held, &[], THEN).await.unwrap();
    assert_eq!(settled, Settled::Stale);
    // A row in `processing` has no hold. A worker does not replace one.
    let before = table
        .edit(&key, |row| {
            row.insert(
                "hld".into(),
                aws_sdk_dynamodb::types::AttributeValue::M([("id".to_owned(), s("other"))].into()),
            );
        })
        .await;
    let held = settlement(request("http", "p1"), &new.row, THEN);
    let settled = table.ledger.settle(new, held, &[], THEN).await.unwrap();
    assert_eq!(settled, Settled::Stale);
    assert_eq!(table.row(&key).await, before);
}

/// Decides while another change of the row is in progress, just before the write of the decision.
async fn around(
    table: &Table,
    key: &EventKey,
    (what, hold): (&str, &str),
    meanwhile: impl Future<Output = ()>,
) -> String {
    let (proxy, ledger) = table.through_proxy().await;
    let request: Held = proxy.hold("UpdateItem", "hld.id");
    let decision = async {
        match what {
            "approve" => ledger.approve(key, hold, ANNA, THEN).await,
            "reject" => ledger.reject(key, hold, ANNA, THEN).await,
            _ => ledger.expire_hold(key, NOW + DAY).await,
        }
    };
    let (decided, ()) = request.around(decision, meanwhile).await;
    word(&decided.unwrap())
}

/// The lease of a worker is over, and its claims are used up. It can still hold the event.
#[tokio::test]
async fn an_event_that_is_held_meanwhile_is_not_exhausted() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    table
        .edit(&key, |row| drop(row.insert("cr".into(), n(CRASHES - 1))))
        .await;
    let held = settlement(request("http", "p1"), &lease.row, NOW);
    let (proxy, ledger) = table.through_proxy().await;
    let exhaust = proxy.hold("UpdateItem", "crash_loop");
    let claim = ledger.claim(&key, "worker", lease_over(), LEASE, ATTEMPTS);
    let settle = table.ledger.settle(lease, held.clone(), &[], NOW);
    let (claimed, settled) = exhaust.around(claim, settle).await;
    assert_eq!(settled.unwrap(), Settled::Recorded(held));
    let claimed = claimed.unwrap();
    assert!(!matches!(claimed, Claim::Exhausted), "{claimed:?}");
    let row = table.row(&key).await;
    assert_eq!(
        (text(&row, "st").as_str(), row.contains_key("hld")),
        ("received", true)
    );
}

type Edit = fn(&mut shared::inbox::ledger::Item);

#[tokio::test]
async fn a_decision_is_refused_if_the_hold_changed_meanwhile() {
    let table = Table::fresh().await;
    let changes: [(&str, Edit); 3] = [
        ("state", |row| drop(row.insert("st".into(), s("failed")))),
        ("epoch", |row| drop(row.insert("epoch".into(), n(9)))),
        ("hold", |row| {
            let mut hold = row["hld"].as_m().unwrap().clone();
            hold.insert("id".into(), s("other"));
            row.insert(
                "hld".into(),
                aws_sdk_dynamodb::types::AttributeValue::M(hold),
            );
        }),
    ];
    for what in ["approve", "reject", "expire"] {
        for (name, change) in changes {
            let (key, hold) = held(&table, &format!("{what}-{name}")).await;
            let meanwhile = async {
                table
                    .edit(&key, |row| {
                        change(row);
                        row.insert("due".into(), n(5));
                    })
                    .await;
            };
            let decided = around(&table, &key, (what, &hold), meanwhile).await;
            assert!(decided.starts_with("moved"), "{what} {name}: {decided}");
            assert!(table.row(&key).await.contains_key("hld"), "{what} {name}");
        }
    }
}

#[tokio::test]
async fn a_deadline_that_changed_meanwhile_is_seen() {
    let table = Table::fresh().await;
    let (key, hold) = held(&table, "evt_1").await;
    let over = async {
        table
            .edit(&key, |row| drop(row.insert("gsk".into(), n(THEN.0))))
            .await;
    };
    let decided = around(&table, &key, ("approve", &hold), over).await;
    assert_eq!(decided, "moved: received");
    let (key, hold) = held(&table, "evt_2").await;
    let later = async {
        let end = (NOW + 2 * DAY).0;
        table
            .edit(&key, |row| drop(row.insert("gsk".into(), n(end))))
            .await;
    };
    let decided = around(&table, &key, ("expire", &hold), later).await;
    assert_eq!(decided, "moved: received");
}

#[tokio::test]
async fn of_two_decisions_the_first_counts() {
    let table = Table::fresh().await;
    for (first, second) in [("approve", "reject"), ("reject", "approve")] {
        let (key, hold) = held(&table, &format!("{first}-first")).await;
        let meanwhile = async {
            let made = match first {
                "approve" => table.ledger.approve(&key, &hold, ANNA, after(9_000)).await,
                _ => table.ledger.reject(&key, &hold, ANNA, after(9_000)).await,
            };
            assert!(word(&made.unwrap()).starts_with("made"));
        };
        let decided = Box::pin(around(&table, &key, (second, &hold), meanwhile)).await;
        let state = if first == "approve" {
            "received"
        } else {
            "dead_letter"
        };
        assert_eq!(decided, format!("moved: {state}"));
    }
}

#[tokio::test]
async fn a_lost_answer_is_not_a_lost_decision() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = leased(
        ledger
            .claim(&key, "worker", NOW, LEASE, ATTEMPTS)
            .await
            .unwrap(),
    );
    let hold = settlement(request("http", "p1"), &lease.row, NOW);
    proxy.lose_answer("UpdateItem", ":hld");
    let settled = ledger.settle(lease, hold.clone(), &[], NOW).await.unwrap();
    assert_eq!(settled, Settled::Recorded(hold));
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    let id = row.hold.unwrap().id;
    proxy.lose_answer("UpdateItem", ":apv");
    let decided = ledger.approve(&key, &id, ANNA, THEN).await.unwrap();
    assert_eq!(word(&decided), "made: received");
    for (name, what) in [("evt_2", "rejected"), ("evt_3", "approval_expired")] {
        let (key, hold) = held(&table, name).await;
        proxy.lose_answer("UpdateItem", what);
        let decided = match what {
            "rejected" => ledger.reject(&key, &hold, ANNA, THEN).await,
            _ => ledger.expire_hold(&key, NOW + DAY).await,
        };
        assert_eq!(word(&decided.unwrap()), "made: dead_letter", "{what}");
    }
}

#[tokio::test]
async fn the_body_of_a_held_event_does_not_expire_and_that_of_a_done_one_does() {
    let table = Table::fresh().await;
    let body = hex::encode(noise(4_000));
    let event = event_of("stripe-main", "evt_1", body);
    let key = table.receive(&event).await;
    let lease = table.lease(&key, NOW).await;
    let Outcome::Held(mut long) = request("http", "p1") else {
        panic!("not held");
    };
    long.expires = 7 * DAY;
    let hold = settlement(Outcome::Held(long), &lease.row, NOW);
    let settled = table.ledger.settle(lease, hold, &[], NOW).await.unwrap();
    let Settled::Recorded(Settlement::Held(hold)) = settled else {
        panic!("{settled:?}");
    };
    let ttl = async || {
        let sha = table.row(&key).await["sha"].as_b().unwrap().clone();
        let sk = format!("B#{}", &hex::encode(sha.as_ref())[..16]);
        table
            .item(&key.pk(), &sk)
            .await
            .unwrap()
            .contains_key("ttl")
    };
    assert!(!ttl().await);
    approve(&table, &key, &hold.id, THEN).await;
    let lease = table.lease(&key, THEN).await;
    table.settle(lease, Settlement::Done).await;
    assert!(ttl().await);
}

#[tokio::test]
async fn a_second_delivery_does_not_let_the_body_of_a_held_event_expire() {
    let table = Table::with_bucket().await;
    let event = event_of("stripe-main", "evt_1", hex::encode(noise(60_000)));
    let key = table.receive(&event).await;
    let lease = table.lease(&key, NOW).await;
    let Outcome::Held(mut long) = request("http", "p1") else {
        panic!("not held");
    };
    long.expires = 7 * DAY;
    let hold = settlement(Outcome::Held(long), &lease.row, NOW);
    table.ledger.settle(lease, hold, &[], NOW).await.unwrap();
    assert_eq!(crate::retention::tag(&table, &event).await, "open");
    let again = table.ledger.receive(&event, THEN).await.unwrap();
    assert!(
        matches!(again, Received::Open { silent: false, .. }),
        "{again:?}"
    );
    assert_eq!(crate::retention::tag(&table, &event).await, "open");
}
