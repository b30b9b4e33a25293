//! Rules that hold, deny or only record the effects of actions, with the real processor and the real
//! sweep.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{By, EffectState, HoldDecision, Ledger, Row, State};
use shared::webhook::event::EventKey;

use super::World;
use super::server::Answer;

const ANNA: By<'static> = By {
    who: "anna",
    why: "the customer called",
};

const HOUR_MS: i64 = 3_600_000;

impl World {
    fn ledger(&self) -> Ledger {
        let table = self.inbox.stack.table().unwrap();
        Ledger::new(self.inbox.stack.clients().dynamodb, table, None)
    }

    async fn stored(&self, key: &EventKey) -> Row {
        self.ledger().event(key).await.unwrap().unwrap()
    }

    async fn work(&self, source: &str, body: &Value) -> EventKey {
        let key = self.event(source, "push", body).await;
        self.ring(&[&key]).await;
        key
    }

    /// Approves the current hold of the event, and delivers its message.
    async fn approve(&self, key: &EventKey) {
        let hold = self.stored(key).await.hold.expect("the event is held");
        let now = UnixMillis::now();
        let decided = self.ledger().approve(key, &hold.id, ANNA, now).await;
        assert!(matches!(decided.unwrap(), HoldDecision::Made(_)));
        self.ring(&[key]).await;
    }

    fn called(&self, place: &str) -> usize {
        self.server.all(place).len()
    }

    /// Changes the times of a hold.
    async fn set_hold(&self, key: &EventKey, at: i64, expires: i64) {
        let number = |value: i64| AttributeValue::N(value.to_string());
        let mut row = self.inbox.row(key).await;
        let mut hold = row["hld"].as_m().unwrap().clone();
        hold.insert("at".into(), number(at));
        hold.insert("exp".into(), number(expires));
        row.insert("hld".into(), AttributeValue::M(hold));
        row.insert("gsk".into(), number(expires));
        self.inbox.put(row).await;
    }

    async fn sweep_once(&self) {
        let task = json!({ "task": "sweep" });
        let answer: Value = self.inbox.invoke("BackupSync", &task).await.json().unwrap();
        assert_eq!(answer["failed"], 0, "{answer}");
    }
}

#[tokio::test]
async fn a_held_effect_is_applied_once_after_its_approval() {
    let world = World::start(&[]).await;
    let small = world.work("held", &json!({ "amount": 5000 })).await;
    world.fate(&small).await.is("done", 1, 0);
    assert_eq!((world.called("/refund"), world.called("/audit")), (1, 1));

    world.server.forget();
    let large = world.work("held", &json!({ "amount": 5001 })).await;
    world.fate(&large).await.is("received", 0, 0);
    let row = world.stored(&large).await;
    let hold = row.hold.clone().unwrap();
    assert_eq!(
        (hold.rule.as_str(), hold.effect.as_str()),
        ("large-refund", "refund")
    );
    assert_eq!(hold.why, "amount is above 5000");
    assert!(
        hold.summary.starts_with("POST to 127.0.0.1:"),
        "{}",
        hold.summary
    );
    assert!(!hold.summary.contains("/refund"), "{}", hold.summary);
    // The other action is not held.
    assert_eq!((world.called("/refund"), world.called("/audit")), (0, 1));
    assert_eq!(row.effects["audit"].state, EffectState::Done);

    // A second message changes nothing.
    let before = world.inbox.row(&large).await;
    world.ring(&[&large, &large]).await;
    assert_eq!(world.inbox.row(&large).await, before);
    assert_eq!(world.called("/refund"), 0);

    world.approve(&large).await;
    world.fate(&large).await.is("done", 1, 0);
    assert_eq!((world.called("/refund"), world.called("/audit")), (1, 1));
    world.ring(&[&large]).await;
    assert_eq!(world.called("/refund"), 1);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn an_effect_is_held_again_if_something_else_would_be_sent() {
    let world = World::start(&[]).await;
    let key = world.work("held", &json!({ "amount": "7400.00" })).await;
    for round in 1..=2 {
        let hold = world.stored(&key).await.hold.unwrap();
        assert_eq!(hold.count, round);
        let decided = world
            .ledger()
            .approve(&key, &hold.id, ANNA, UnixMillis::now())
            .await;
        assert!(matches!(decided.unwrap(), HoldDecision::Made(_)));
        // The approval is of another plan, as after a change of the destination.
        let mut row = world.inbox.row(&key).await;
        let mut approvals = row["apv"].as_m().unwrap().clone();
        let approval = approvals["refund"]
            .as_s()
            .unwrap()
            .replace(&hold.plan, "other");
        approvals.insert("refund".into(), AttributeValue::S(approval));
        row.insert("apv".into(), AttributeValue::M(approvals));
        world.inbox.put(row).await;
        world.ring(&[&key]).await;
    }
    let fate = world.fate(&key).await;
    assert_eq!(
        (fate.state.as_str(), fate.reason.as_str()),
        ("dead_letter", "plan_unstable")
    );
    assert_eq!(world.called("/refund"), 0);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_rejected_effect_is_not_applied() {
    let world = World::start(&[]).await;
    // The event has no amount, so the rule applies.
    let key = world.work("held", &json!({ "total": 1 })).await;
    let hold = world.stored(&key).await.hold.unwrap();
    assert_eq!(hold.why, "amount is missing or not a number");
    let ledger = world.ledger();
    let rejected = ledger.reject(&key, &hold.id, ANNA, UnixMillis::now());
    assert!(matches!(rejected.await.unwrap(), HoldDecision::Made(_)));
    world.ring(&[&key]).await;
    let fate = world.fate(&key).await;
    assert_eq!(
        (fate.state.as_str(), fate.reason.as_str()),
        ("dead_letter", "rejected")
    );
    assert_eq!(world.called("/refund"), 0);
}

#[tokio::test]
async fn the_sweep_ends_a_hold_that_expired_and_reports_one_that_waits() {
    let world = World::start(&[]).await;
    let expired = world.work("held", &json!({ "amount": 9000 })).await;
    let waiting = world.work("held", &json!({ "amount": 9001 })).await;
    let now = UnixMillis::now().0;
    world.set_hold(&expired, now - 24 * HOUR_MS, now - 1).await;
    world
        .set_hold(&waiting, now - 13 * HOUR_MS, now + 11 * HOUR_MS)
        .await;
    world.sweep_once().await;
    let fate = world.fate(&expired).await;
    assert_eq!(
        (fate.state.as_str(), fate.reason.as_str()),
        ("dead_letter", "approval_expired")
    );
    assert!(world.stored(&waiting).await.is_held());
    let log = world.inbox.stack.log_file("BackupSync").unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("approval.held"), "{log}");
    let at = UnixMillis::now();
    let operations = world.ledger();
    let entries = operations
        .operations()
        .audit_log(UnixMillis(now - HOUR_MS), at, 10, |_| true);
    let entries = entries.await.unwrap().found;
    let [entry] = entries.as_slice() else {
        panic!("{entries:?}");
    };
    assert_eq!((entry.what.as_str(), entry.count), ("hold.expire", 1));
    world.ring(&[&expired]).await;
    assert_eq!(world.called("/refund"), 0);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_denied_effect_makes_a_dead_letter_and_a_dry_run_only_a_record() {
    let world = World::start(&[]).await;
    let denied = world
        .work("held", &json!({ "amount": 9000, "blocked": 1 }))
        .await;
    let row = world.stored(&denied).await;
    assert_eq!(
        (row.state, row.reason.as_deref()),
        (State::DeadLetter, Some("denied"))
    );
    let error = "refund: rule blocked denies it: its conditions are true";
    assert_eq!(row.error.as_deref(), Some(error));
    assert_eq!((world.called("/refund"), world.called("/audit")), (0, 0));

    let dry = world
        .work("held", &json!({ "amount": 1, "pilot": true }))
        .await;
    let row = world.stored(&dry).await;
    assert_eq!(row.state, State::Done);
    assert_eq!((world.called("/refund"), world.called("/audit")), (1, 0));
    let audit = &row.effects["audit"];
    assert_eq!(audit.state, EffectState::Not);
    assert!(
        audit
            .note
            .starts_with("dry run (rule pilot): POST to 127.0.0.1"),
        "{}",
        audit.note
    );
    assert_eq!(row.history.last().unwrap().note, "dry run");
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn an_event_can_be_held_as_a_whole() {
    let world = World::start(&[]).await;
    let key = world.work("held-whole", &json!({ "amount": 1 })).await;
    let hold = world.stored(&key).await.hold.unwrap();
    assert_eq!((hold.rule.as_str(), hold.effect.as_str()), ("all", "*"));
    assert_eq!((world.called("/refund"), world.called("/audit")), (0, 0));
    world.approve(&key).await;
    world.fate(&key).await.is("done", 1, 0);
    assert_eq!((world.called("/refund"), world.called("/audit")), (1, 1));
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn a_call_above_the_rate_is_held_and_an_approval_answers_it() {
    let world = World::start(&[]).await;
    for number in 0..2 {
        let key = world.work("capped", &json!({ "number": number })).await;
        world.fate(&key).await.is("done", 1, 0);
    }
    let third = world.work("capped", &json!({ "number": 2 })).await;
    world.fate(&third).await.is("received", 0, 0);
    assert_eq!(world.called("/refund"), 2);
    let hold = world.stored(&third).await.hold.unwrap();
    assert_eq!(
        hold.why,
        "its conditions are true; the rate 2/168h per event-type is used up"
    );
    world.approve(&third).await;
    world.fate(&third).await.is("done", 1, 0);
    assert_eq!(world.called("/refund"), 3);
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn an_attempt_without_a_call_does_not_use_up_a_rate() {
    let world = World::start(&[]).await;
    let failures = vec![Answer::status(502); 6];
    world.server.answers("/capped-down", &failures);
    // Five calls fail, open the circuit breaker, and use up the window.
    for number in 0..5 {
        let key = world
            .work("capped-down", &json!({ "number": number }))
            .await;
        world.fate(&key).await.is("failed", 1, 0);
    }
    // The rule would deny a call. While the destination is down, there is none.
    let key = world.work("capped-down", &json!({ "number": 5 })).await;
    world.fate(&key).await.is("failed", 0, 1);
    assert_eq!(world.called("/capped-down"), 5);
    world.inbox.is_unharmed();
}
