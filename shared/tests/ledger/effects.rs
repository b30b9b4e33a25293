//! Tests that the effects of an action stay stored across attempts, crashes and lost leases.

use std::cell::RefCell;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::timing::{CLOCK_MARGIN, LEASE};
use shared::delivery::effects::{Asked, Effect, Effects, idempotency_key};
use shared::inbox::ledger::{EffectState, Lease, Settled, Settlement};
use shared::inbox::outcome::Outcome;
use shared::sources::policy::IdempotencySupport;
use shared::webhook::event::EventKey;

use crate::settle::effect;
use crate::support::{NOW, Table, after, event, lease_over, retry_at};

fn clock() -> UnixMillis {
    after(100)
}

/// Returns the first time at which the rest of a lease is too short to start an action. The lease
/// began at [`NOW`].
fn nearly_over() -> UnixMillis {
    NOW + LEASE - CLOCK_MARGIN
}

/// A destination that records each call with its key, and returns the configured responses.
#[derive(Default)]
struct Downstream(RefCell<Vec<String>>);

impl Downstream {
    fn call(&self, key: &str, answer: Effect) -> Effect {
        self.0.borrow_mut().push(key.to_owned());
        answer
    }

    fn calls(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}

fn done() -> Effect {
    Effect::Done {
        note: "issue 7".into(),
    }
}

fn unknown() -> Effect {
    Effect::Unknown {
        error: "timeout".into(),
    }
}

fn not() -> Effect {
    Effect::NotApplied(Outcome::retry("503"))
}

impl Table {
    /// Runs one attempt with one effect, and settles it in the same way as a processor. Returns the
    /// outcome of the attempt.
    async fn attempt(
        &self,
        lease: Lease,
        keys: IdempotencySupport,
        world: &Downstream,
        answer: Effect,
    ) -> Outcome {
        let effects = Effects::new(&self.ledger, &lease, clock);
        let call = async |key: &str| world.call(key, answer);
        let outcome = effects.once("issue", keys, call).await;
        let changed = effects.into_changed();
        let settlement = match &outcome {
            Outcome::Done => Settlement::Done,
            _ => retry_at(NOW),
        };
        let settled = self
            .ledger
            .settle(lease, settlement.clone(), &changed, after(200));
        assert_eq!(settled.await.unwrap(), Settled::Recorded(settlement));
        outcome
    }

    async fn state_of(&self, key: &EventKey, effect: &str) -> EffectState {
        let row = self.ledger.event(key).await.unwrap().unwrap();
        row.effects[effect].state
    }
}

#[tokio::test]
async fn the_intent_is_in_the_ledger_before_the_call_and_its_result_after_the_attempt() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let effects = Effects::new(&table.ledger, &lease, clock);
    let call = async |used: &str| {
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        let intent = &row.effects["issue"];
        assert_eq!((intent.state, intent.at), (EffectState::Intent, clock()));
        assert_eq!((intent.key.as_str(), intent.keyed), (used, true));
        assert_eq!(used, idempotency_key(&key, "issue", 0));
        done()
    };
    assert_eq!(
        effects
            .once("issue", IdempotencySupport::Honoured, call)
            .await,
        Outcome::Done
    );
    assert_eq!(table.state_of(&key, "issue").await, EffectState::Intent);
    let changed = effects.into_changed();
    let settled = table
        .ledger
        .settle(lease, Settlement::Done, &changed, after(200));
    settled.await.unwrap();
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    let kept = &row.effects["issue"];
    assert_eq!(
        (kept.state, kept.note.as_str()),
        (EffectState::Done, "issue 7")
    );
}

#[tokio::test]
async fn a_keyed_effect_costs_no_write_before_the_call() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let before = table.row(&key).await;
    let effects = Effects::new(&table.ledger, &lease, clock);
    let outcome = effects.keyed("http", async |_: &str| done()).await;
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(table.row(&key).await, before);
    assert_eq!(effects.into_changed()[0].1.state, EffectState::Done);
}

type Case = (IdempotencySupport, fn() -> Effect, usize, &'static str);

#[tokio::test]
async fn what_is_known_decides_what_the_next_attempt_does() {
    use IdempotencySupport::{Honoured, Ignored};
    // Each case has the outcome of the first attempt, and the number of calls that two attempts
    // make.
    let cases: [Case; 6] = [
        (Honoured, done, 1, "done"),
        (Ignored, done, 1, "done"),
        (Honoured, not, 2, "done"),
        (Ignored, not, 2, "done"),
        (Honoured, unknown, 2, "done"),
        (Ignored, unknown, 1, "unknown"),
    ];
    let table = Table::fresh().await;
    for (index, (keys, first, calls, end)) in cases.into_iter().enumerate() {
        let key = table.receive(&event(&format!("evt_{index}"))).await;
        let world = Downstream::default();
        let lease = table.lease(&key, NOW).await;
        let effects = Effects::new(&table.ledger, &lease, clock);
        let call = async |key: &str| world.call(key, first());
        effects.once("issue", keys, call).await;
        // Another action of the event failed, so there is a second attempt.
        let changed = effects.into_changed();
        let settled = table
            .ledger
            .settle(lease, retry_at(NOW), &changed, after(200));
        settled.await.unwrap();

        let lease = table.lease(&key, NOW).await;
        let outcome = table.attempt(lease, keys, &world, done()).await;
        let case = format!("case {index}: {outcome:?}");
        assert_eq!(matches!(outcome, Outcome::Done), end == "done", "{case}");
        assert_eq!(
            matches!(outcome, Outcome::Unknown { .. }),
            end == "unknown",
            "{case}"
        );
        let keys = world.calls();
        assert_eq!(keys.len(), calls, "{case}");
        assert!(
            keys.iter().all(|used| *used == keys[0]),
            "one key in all attempts"
        );
    }
}

#[tokio::test]
async fn a_worker_that_died_in_the_call_leaves_its_intent() {
    let table = Table::fresh().await;
    for (keys, calls) in [
        (IdempotencySupport::Honoured, 1),
        (IdempotencySupport::Ignored, 0),
    ] {
        let key = table.receive(&event(&format!("evt_{calls}"))).await;
        let dead = table.lease(&key, NOW).await;
        let effects = Effects::new(&table.ledger, &dead, clock);
        {
            let call = effects.once("issue", keys, async |_: &str| std::future::pending().await);
            let mut call = Box::pin(call);
            // The action has stored its intent when it waits for the destination.
            while table
                .ledger
                .event(&key)
                .await
                .unwrap()
                .unwrap()
                .effects
                .is_empty()
            {
                let turn = futures::future::select(&mut call, Box::pin(tokio::task::yield_now()));
                turn.await;
            }
        }
        let world = Downstream::default();
        let lease = table.lease(&key, lease_over()).await;
        let effects = Effects::new(&table.ledger, &lease, lease_over);
        let call = async |key: &str| world.call(key, done());
        let outcome = effects.once("issue", keys, call).await;
        let unknown = matches!(outcome, Outcome::Unknown { .. });
        assert_eq!(
            (world.calls().len(), unknown),
            (calls, calls == 0),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_call_that_is_broken_off_is_unknown() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let effects = Effects::new(&table.ledger, &lease, clock);
    for (name, keys) in [
        ("keyed", IdempotencySupport::Honoured),
        ("bare", IdempotencySupport::Ignored),
    ] {
        let (begun, began) = tokio::sync::oneshot::channel();
        let call = effects.once(name, keys, async move |_: &str| {
            begun.send(()).unwrap();
            std::future::pending().await
        });
        // The processor drops the action at its time limit.
        let began = async { began.await.unwrap() };
        futures::future::select(Box::pin(call), Box::pin(began)).await;
        assert_eq!(effects.all_keyed(), keys == IdempotencySupport::Honoured);
    }
    let states: Vec<_> = effects
        .into_changed()
        .into_iter()
        .map(|(_, e)| e.state)
        .collect();
    assert_eq!(states, [EffectState::Unknown; 2]);
}

#[tokio::test]
async fn a_zombie_touches_neither_the_world_nor_the_row() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let zombie = table.lease(&key, NOW).await;
    table.lease(&key, lease_over()).await;
    let before = table.row(&key).await;
    let world = Downstream::default();
    // The clock of this worker does not advance, so only the fencing token can stop it.
    let effects = Effects::new(&table.ledger, &zombie, clock);
    let call = async |key: &str| world.call(key, done());
    let outcome = effects
        .once("issue", IdempotencySupport::Honoured, call)
        .await;
    assert_eq!(outcome, Outcome::retry("a newer claim holds the event"));
    assert!(world.calls().is_empty() && effects.into_changed().is_empty());
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn nothing_is_begun_in_the_last_seconds_of_a_lease() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let world = Downstream::default();
    let effects = Effects::new(&table.ledger, &lease, nearly_over);
    let call = async |key: &str| world.call(key, done());
    let once = effects
        .once("issue", IdempotencySupport::Honoured, call)
        .await;
    let call = async |key: &str| world.call(key, done());
    let keyed = effects.keyed("http", call).await;
    for outcome in [once, keyed] {
        assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
    }
    assert!(world.calls().is_empty());
}

#[tokio::test]
async fn what_was_held_back_for_the_lease_is_done_by_the_next_attempt() {
    let table = Table::fresh().await;
    for keys in [IdempotencySupport::Honoured, IdempotencySupport::Ignored] {
        let key = table.receive(&event(&format!("{keys:?}"))).await;
        let world = Downstream::default();
        let lease = table.lease(&key, NOW).await;
        let effects = Effects::new(&table.ledger, &lease, nearly_over);
        let call = async |key: &str| world.call(key, done());
        effects.once("issue", keys, call).await;
        let changed = effects.into_changed();
        let settled = table
            .ledger
            .settle(lease, retry_at(NOW), &changed, after(200));
        settled.await.unwrap();

        // The action never began, so the effect cannot exist.
        let lease = table.lease(&key, NOW).await;
        let outcome = table.attempt(lease, keys, &world, done()).await;
        assert_eq!(
            (outcome, world.calls().len()),
            (Outcome::Done, 1),
            "{keys:?}"
        );
    }
}

#[tokio::test]
async fn an_intent_is_refused_for_what_is_done() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let effects = [("issue".to_owned(), effect(EffectState::Done))];
    let settled = table
        .ledger
        .settle(lease, retry_at(NOW), &effects, after(5));
    settled.await.unwrap();
    let lease = table.lease(&key, NOW).await;
    let before = table.row(&key).await;
    let intent = effect(EffectState::Intent);
    assert!(!table.ledger.intend(&lease, "issue", &intent).await.unwrap());
    assert_eq!(table.row(&key).await, before);
    // An action may try an effect again, unless the row records that the destination applied it.
    for state in [EffectState::Intent, EffectState::Not, EffectState::Unknown] {
        let name = state.as_str();
        assert!(
            table
                .ledger
                .intend(&lease, name, &effect(state))
                .await
                .unwrap()
        );
        assert!(
            table.ledger.intend(&lease, name, &intent).await.unwrap(),
            "{name}"
        );
        assert_eq!(table.state_of(&key, name).await, EffectState::Intent);
    }
    assert_eq!(table.state_of(&key, "issue").await, EffectState::Done);
}

#[tokio::test]
async fn a_word_of_newer_code_is_unknown_and_its_entry_is_kept() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table
        .edit(&key, |row| {
            let entry = [("s", "compensated"), ("k", "wh_9")]
                .map(|(name, value)| (name.to_owned(), crate::support::s(value)));
            let entry = aws_sdk_dynamodb::types::AttributeValue::M(entry.into());
            let effects = [("issue".to_owned(), entry)].into();
            row.insert(
                "fx".into(),
                aws_sdk_dynamodb::types::AttributeValue::M(effects),
            );
        })
        .await;
    let before = table.row(&key).await;
    let world = Downstream::default();
    let lease = table.lease(&key, NOW).await;
    let outcome = table
        .attempt(lease, IdempotencySupport::Ignored, &world, done())
        .await;
    assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
    assert!(world.calls().is_empty());
    assert_eq!(table.row(&key).await["fx"], before["fx"]);
}

#[tokio::test]
async fn a_downstream_that_can_be_asked_decides_what_nobody_knows() {
    let table = Table::fresh().await;
    let happened = Asked::Happened {
        note: "issue 7".into(),
    };
    let unclear = Asked::Unclear {
        error: "the search is down".into(),
    };
    for (n, (said, calls, state)) in [
        (happened, 0, EffectState::Done),
        (Asked::DidNot, 1, EffectState::Done),
        (unclear, 0, EffectState::Unknown),
    ]
    .into_iter()
    .enumerate()
    {
        let key = table.receive(&event(&format!("evt_{n}"))).await;
        let lease = table.lease(&key, NOW).await;
        let effects = Effects::new(&table.ledger, &lease, clock);
        let first = async |_: &str| Effect::Unknown {
            error: "no answer".into(),
        };
        let never = async |_: &str| panic!("nothing is unknown yet");
        let outcome = effects.once_asking("issue", first, never).await;
        assert!(
            matches!(outcome, Outcome::Retry { .. }),
            "the effect can be looked up: {outcome:?}"
        );
        let changed = effects.into_changed();
        let settled = table
            .ledger
            .settle(lease, retry_at(after(10_000)), &changed, NOW);
        settled.await.unwrap();

        let world = Downstream::default();
        let lease = table.lease(&key, lease_over()).await;
        let effects = Effects::new(&table.ledger, &lease, lease_over);
        let asked = std::sync::Mutex::new(String::new());
        let ask = async |key: &str| {
            key.clone_into(&mut asked.lock().unwrap());
            said.clone()
        };
        let call = async |key: &str| world.call(key, done());
        let outcome = effects.once_asking("issue", call, ask).await;
        assert_eq!(world.calls().len(), calls, "{said:?}");
        assert_eq!(*asked.lock().unwrap(), idempotency_key(&key, "issue", 0));
        let retried = matches!(outcome, Outcome::Retry { .. });
        assert_eq!(retried, state == EffectState::Unknown, "{outcome:?}");
        let changed = effects.into_changed();
        let now = changed
            .first()
            .map_or(EffectState::Unknown, |(_, effect)| effect.state);
        assert_eq!(now, state, "{said:?}");
    }
}

#[tokio::test]
async fn a_worker_that_was_stopped_before_the_call_leaves_no_doubt() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let (proxy, ledger) = table.through_proxy().await;
    let world = Downstream::default();
    let lease = table.lease(&key, NOW).await;
    let effects = Effects::new(&ledger, &lease, clock);
    let held = proxy.hold("UpdateItem", "fx.#n");
    let call = async |key: &str| world.call(key, done());
    let once = Box::pin(effects.once("issue", IdempotencySupport::Ignored, call));
    // The action reaches its time limit while the request with its intent is in progress.
    let arrived = Box::pin(held.arrived);
    drop(futures::future::select(once, arrived).await);
    let changed = effects.into_changed();
    assert_eq!(changed[0].1.state, EffectState::Not);
    assert!(world.calls().is_empty());
}

#[tokio::test]
async fn a_worker_that_finds_its_intent_written_may_go_on() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    // DynamoDB applied the first intent, but the response was lost. The second intent is equal.
    proxy.lose_answer("UpdateItem", "fx.#n");
    let intent = effect(EffectState::Intent);
    assert!(ledger.intend(&lease, "issue", &intent).await.unwrap());
    assert_eq!(proxy.count()["UpdateItem"], 2);
    assert_eq!(lease.until(), NOW + LEASE);
    assert!(lease.holds(NOW + Duration::from_secs(1)));
}

fn failed(replayed: bool) -> Effect {
    Effect::Failed {
        error: "500".into(),
        replayed,
        after: None,
    }
}

#[tokio::test]
async fn a_failure_that_the_downstream_keeps_under_the_key_is_for_a_human_at_once() {
    use IdempotencySupport::{Honoured, HonouredWithFailures, Ignored};
    let table = Table::fresh().await;
    for (n, (keys, answer, first, again)) in [
        (Honoured, failed(false), "retry", 1),
        (Honoured, failed(true), "unknown", 1),
        (HonouredWithFailures, failed(false), "unknown", 0),
        // The destination does not store an effect without a response, so a retry with the
        // idempotency key is safe.
        (HonouredWithFailures, unknown(), "retry", 1),
        (HonouredWithFailures, not(), "retry", 1),
        (Ignored, failed(false), "unknown", 0),
    ]
    .into_iter()
    .enumerate()
    {
        let key = table.receive(&event(&format!("evt_{n}"))).await;
        let word = |outcome: &Outcome| match outcome {
            Outcome::Retry { .. } => "retry",
            Outcome::Unknown { .. } => "unknown",
            other => panic!("{other:?}"),
        };
        let world = Downstream::default();
        let lease = table.lease(&key, NOW).await;
        let outcome = table.attempt(lease, keys, &world, answer.clone()).await;
        assert_eq!(word(&outcome), first, "{keys:?} {answer:?}");
        // A later attempt, such as an attempt after a replay, calls the destination only if the
        // call can give new information.
        let world = Downstream::default();
        let lease = table.lease(&key, NOW).await;
        let outcome = table.attempt(lease, keys, &world, done()).await;
        assert_eq!(
            world.calls().len(),
            again,
            "{keys:?} {answer:?}: {outcome:?}"
        );
        assert_eq!(outcome == Outcome::Done, again == 1);
    }
}

#[tokio::test]
async fn a_failure_that_is_kept_is_asked_about_and_not_repeated() {
    let table = Table::fresh().await;
    let happened = Asked::Happened {
        note: "issue 7".into(),
    };
    for (n, (said, state)) in [
        (happened, EffectState::Done),
        (Asked::DidNot, EffectState::Refused),
    ]
    .into_iter()
    .enumerate()
    {
        let key = table.receive(&event(&format!("evt_{n}"))).await;
        let lease = table.lease(&key, NOW).await;
        let effects = Effects::new(&table.ledger, &lease, clock);
        let call = async |_: &str| failed(true);
        let never = async |_: &str| panic!("nothing is unknown yet");
        let outcome = effects.once_asking("issue", call, never).await;
        assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
        let changed = effects.into_changed();
        let settled = table.ledger.settle(lease, retry_at(NOW), &changed, NOW);
        settled.await.unwrap();

        let lease = table.lease(&key, NOW).await;
        let effects = Effects::new(&table.ledger, &lease, clock);
        let call = async |_: &str| panic!("the call would return the same failure");
        let ask = async |_: &str| said.clone();
        let outcome = effects.once_asking("issue", call, ask).await;
        let permanent = matches!(outcome, Outcome::Permanent { .. });
        assert_eq!(permanent, state == EffectState::Refused, "{outcome:?}");
        assert_eq!(effects.into_changed()[0].1.state, state);
    }
}

#[tokio::test]
async fn what_was_refused_is_not_called_again_in_the_same_run() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let world = Downstream::default();
    let refusal = Effect::NotApplied(Outcome::permanent("422"));
    for _ in 0..3 {
        let lease = table.lease(&key, NOW).await;
        let outcome = table
            .attempt(lease, IdempotencySupport::Honoured, &world, refusal.clone())
            .await;
        assert_eq!(outcome, Outcome::permanent("422"));
    }
    assert_eq!(world.calls().len(), 1);
    assert_eq!(table.state_of(&key, "issue").await, EffectState::Refused);
    // An operator decides to start a later run.
    table
        .edit(&key, |row| {
            row.insert("run".into(), crate::support::n(1));
        })
        .await;
    let lease = table.lease(&key, NOW).await;
    let outcome = table
        .attempt(lease, IdempotencySupport::Honoured, &world, refusal)
        .await;
    assert_eq!(
        (outcome, world.calls().len()),
        (Outcome::permanent("422"), 2)
    );
    let lease = table.lease(&key, NOW).await;
    let outcome = table
        .attempt(lease, IdempotencySupport::Honoured, &world, done())
        .await;
    assert_eq!(
        (outcome, world.calls().len()),
        (Outcome::permanent("422"), 2)
    );
}
