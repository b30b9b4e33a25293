//! Tests rows that other code wrote. The rows are older, newer or invalid.

use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::base::timing::{FIRST_LOOK, KEEP_ROW, LEASE};
use shared::inbox::ledger::transition::work_partition;
use shared::inbox::ledger::{
    BodyAt, Claim, EffectState, Item, Received, Row, SCHEMA, Settled, Settlement, State,
    SweepResult,
};
use shared::webhook::event::{EventKey, Proven, Via};

use crate::matrix::assert_sound;
use crate::settle::effect;
use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, event_with, lease_over, leased, ms, n, number,
    retry_at, s, text,
};

/// The attributes that the processing of an event needs.
const REQUIRED: [&str; 8] = ["sv", "st", "epoch", "run", "att", "cr", "rcv", "bref"];

/// The keys of the table and its indexes. DynamoDB itself rejects keys of another type.
const KEYS: [&str; 6] = ["pk", "sk", "gpk", "gsk", "tpk", "tsk"];

/// Breaks one attribute.
#[derive(Clone, Copy, Debug)]
enum Break {
    Drop,
    Retype,
}

impl Break {
    fn of(self, row: &mut Item, name: &str) {
        let value = row.remove(name);
        if let Self::Retype = self {
            let other = match value {
                Some(AttributeValue::S(_)) => n(7),
                _ => s("seven"),
            };
            row.insert(name.to_owned(), other);
        }
    }
}

/// Creates a row that a worker can claim at [`lease_over`].
async fn claimable(table: &Table, id: &str, state: State) -> EventKey {
    let key = table.receive(&event(id)).await;
    if state != State::Received {
        let lease = table.lease(&key, NOW).await;
        if state == State::Failed {
            let effects = [("issue".to_owned(), effect(EffectState::Not))];
            let settled = table.ledger.settle(lease, retry_at(NOW), &effects, NOW);
            settled.await.unwrap();
        }
    }
    key
}

/// Processes a row with a broken attribute, and returns the result.
async fn work_on(table: &Table, state: State, name: &str, how: Break) -> String {
    let id = format!("{state}/{name}/{how:?}");
    let key = claimable(table, &id, state).await;
    table.edit(&key, |row| how.of(row, name)).await;
    let named = |error: anyhow::Error| {
        let error = format!("{error:#}");
        let named =
            error.contains(&format!("{:?}", key.pk())) && error.contains(&format!(" {name} "));
        if named { "named".to_owned() } else { error }
    };
    let worker = table
        .ledger
        .claim(&key, "worker", lease_over(), LEASE, ATTEMPTS);
    let lease = match worker.await {
        Ok(Claim::Leased(lease)) => *lease,
        Ok(other) => return format!("{other:?}"),
        Err(error) => return named(error),
    };
    let effects = [("http".to_owned(), effect(EffectState::Done))];
    let settled = table
        .ledger
        .settle(lease, Settlement::Done, &effects, lease_over());
    match settled.await {
        Ok(Settled::Recorded(_)) => "worked on".to_owned(),
        Ok(Settled::Stale) => "stale".to_owned(),
        Err(error) => named(error),
    }
}

const CLAIMABLE: [State; 3] = [State::Received, State::Failed, State::Processing];

/// Breaks an attribute in each state and in each way. Returns the unexpected results.
async fn broken(name: &str, states: &[State], expected: &str) -> Vec<String> {
    let table = Table::fresh().await;
    let mut wrong = Vec::new();
    for state in states {
        for how in [Break::Drop, Break::Retype] {
            let found = Box::pin(work_on(&table, *state, name, how)).await;
            if found != expected {
                wrong.push(format!("{name}, {how:?} in {state}: {found}"));
            }
        }
    }
    wrong
}

#[tokio::test]
async fn a_row_without_what_decides_is_named_with_the_attribute() {
    for name in REQUIRED.iter().filter(|name| **name != "epoch") {
        assert_eq!(broken(name, &CLAIMABLE, "named").await, [""; 0]);
    }
}

#[tokio::test]
async fn a_row_without_an_epoch_is_not_given_a_new_one() {
    assert_eq!(broken("epoch", &CLAIMABLE, "named").await, [""; 0]);
}

#[tokio::test]
async fn a_lease_without_an_end_is_named() {
    assert_eq!(broken("lu", &[State::Processing], "named").await, [""; 0]);
}

#[tokio::test]
async fn a_retry_without_a_time_is_named() {
    assert_eq!(broken("due", &[State::Failed], "named").await, [""; 0]);
}

#[tokio::test]
async fn a_row_without_its_effects_is_named_and_no_attempt_is_spent_on_it() {
    let table = Table::fresh().await;
    for state in [State::Received, State::Failed] {
        for how in [Break::Drop, Break::Retype] {
            let key = claimable(&table, &format!("{state}/{how:?}"), state).await;
            let before = table.edit(&key, |row| how.of(row, "fx")).await;
            let claim = table
                .ledger
                .claim(&key, "worker", lease_over(), LEASE, ATTEMPTS);
            let error = format!("{:#}", claim.await.unwrap_err());
            assert!(error.contains(" fx "), "{state}, {how:?}: {error}");
            assert_eq!(table.row(&key).await, before);
        }
    }
}

#[tokio::test]
async fn whatever_else_is_missing_the_event_is_worked_on() {
    let table = Table::fresh().await;
    let mut wrong = Vec::new();
    let mut tried = 0;
    for state in CLAIMABLE {
        let key = claimable(&table, state.as_str(), state).await;
        let row = table.row(&key).await;
        let known = |name: &&String| {
            let name = name.as_str();
            let decides = REQUIRED.contains(&name) || ["lu", "due", "fx"].contains(&name);
            !decides && !["pk", "sk"].contains(&name)
        };
        for name in row.keys().filter(known) {
            for how in [Break::Drop, Break::Retype] {
                if matches!(how, Break::Retype) && KEYS.contains(&name.as_str()) {
                    continue;
                }
                tried += 1;
                let found = Box::pin(work_on(&table, state, name, how)).await;
                if found != "worked on" {
                    wrong.push(format!("{name}, {how:?} in {state}: {found}"));
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn no_reader_panics_on_a_broken_row() {
    let table = Table::fresh().await;
    let key = claimable(&table, "evt_1", State::Failed).await;
    let whole = table.row(&key).await;
    for name in whole
        .keys()
        .filter(|name| !["pk", "sk"].contains(&name.as_str()))
    {
        for how in [Break::Drop, Break::Retype] {
            if matches!(how, Break::Retype) && KEYS.contains(&name.as_str()) {
                continue;
            }
            let mut row = whole.clone();
            how.of(&mut row, name);
            table.put(row).await;
            let read = table.ledger.event(&key).await;
            let decides =
                REQUIRED.contains(&name.as_str()) || ["due", "fx"].contains(&name.as_str());
            assert_eq!(read.is_err(), decides, "{name} {how:?}");
            let _ = table.ledger.event_body(&key).await;
            let _ = table.ledger.has(&key).await.unwrap();
            let seen = UnixMillis(number(&whole, "gsk"));
            let _ = table
                .ledger
                .sweep()
                .sweep_one(&key, seen, ATTEMPTS, true, lease_over())
                .await;
            let again = table.ledger.receive(&event("evt_1"), NOW).await.unwrap();
            assert!(again != Received::New, "{name} {how:?}");
        }
    }
}

#[tokio::test]
async fn values_out_of_range_are_named() {
    let table = Table::fresh().await;
    let cases = [
        ("st", s("paused")),
        ("epoch", n(-1)),
        ("att", n("4294967296")),
        ("cr", n("1.5")),
        ("rcv", n("1e30")),
        ("bref", s("ftp")),
    ];
    for (name, value) in cases {
        let key = table.receive(&event(name)).await;
        table
            .edit(&key, |row| drop(row.insert(name.into(), value)))
            .await;
        let error = table.ledger.event(&key).await.unwrap_err().to_string();
        let expected = format!("row {:?}: attribute {name} is missing", key.pk());
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[tokio::test]
async fn an_error_tells_nothing_of_what_is_in_the_row() {
    let table = Table::fresh().await;
    let mut errors = Vec::new();
    for name in ["epoch", "att", "st"] {
        let key = table
            .receive(&event_with(name, Via::Webhook, "canary"))
            .await;
        table
            .edit(&key, |row| {
                row.insert(name.into(), s("canary"));
                row.insert("err".into(), s("canary"));
            })
            .await;
        errors.push(table.ledger.event(&key).await.unwrap_err());
        let worker = table.ledger.claim(&key, "worker", NOW, LEASE, ATTEMPTS);
        errors.push(worker.await.unwrap_err());
    }
    for error in errors {
        let error = format!("{error:#}");
        assert!(!error.contains("canary"), "{error}");
    }
}

/// Returns attributes of each type that only newer code knows.
fn newer() -> [(&'static str, AttributeValue); 8] {
    [
        ("z_text", s("text")),
        ("z_number", n("12345678901234567890.5")),
        ("z_bytes", AttributeValue::B(vec![0, 255].into())),
        ("z_flag", AttributeValue::Bool(true)),
        ("z_null", AttributeValue::Null(true)),
        ("z_set", AttributeValue::Ss(vec!["a".into(), "b".into()])),
        ("z_list", AttributeValue::L(vec![s("a"), n(1)])),
        (
            "z_map",
            AttributeValue::M([("a".to_owned(), AttributeValue::M(Item::new()))].into()),
        ),
    ]
}

#[tokio::test]
async fn attributes_of_newer_code_survive_every_transition() {
    let table = Table::fresh().await;
    let newer = newer();
    let key = table.receive(&event("evt_1")).await;
    let first = table
        .edit(&key, |row| {
            row.insert("sv".into(), n(SCHEMA + 1));
            let own = newer
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()));
            row.extend(own);
        })
        .await;
    let mut steps = 0;
    let mut sound = async |what: &str| {
        steps += 1;
        let row = table.row(&key).await;
        assert_sound(&first, &row);
        for (name, value) in &newer {
            assert_eq!(row.get(*name), Some(value), "{name} after {what}");
        }
        row
    };

    let look = NOW + FIRST_LOOK;
    let sweep = table.ledger.sweep();
    let swept = sweep.sweep_one(&key, look, ATTEMPTS, true, look);
    swept.await.unwrap();
    sound("a message").await;
    table.lease(&key, NOW).await;
    let row = sound("a claim").await;
    let seen = UnixMillis(number(&row, "gsk"));
    let swept = sweep.sweep_one(&key, seen, ATTEMPTS, true, NOW);
    swept.await.unwrap();
    sound("a wait").await;
    let lease = table.lease(&key, lease_over()).await;
    sound("a takeover").await;
    let intent = effect(EffectState::Intent);
    let intended = table.ledger.intend(&lease, "http", &intent).await;
    assert!(intended.unwrap());
    sound("an intent").await;
    table.settle(lease, retry_at(lease_over())).await;
    sound("a retry").await;
    let lease = table.lease(&key, lease_over()).await;
    let whole = table.row(&key).await;
    table.settle(lease, dead()).await;
    sound("a dead letter").await;
    // The other ways in which the same attempt can end.
    table.put(whole.clone()).await;
    let claim = table.claim_of(&key, lease_over() + LEASE + LEASE, 1).await;
    assert!(matches!(claim, Claim::Exhausted), "{claim:?}");
    sound("the end of the attempts").await;
    table.put(whole).await;
    table
        .edit(&key, |row| drop(row.insert("lu".into(), ms(NOW))))
        .await;
    let lease = table.lease(&key, lease_over()).await;
    table.settle(lease, Settlement::Done).await;
    sound("the end").await;
    assert_eq!(steps, 9);
}

#[tokio::test]
async fn a_row_of_version_one_is_read_and_processed() {
    let table = Table::fresh().await;
    let stored: Value = serde_json::from_str(include_str!("data/row-v1.json")).unwrap();
    let item = read_item(&stored);
    table.put(item.clone()).await;
    let key = EventKey::new("stripe-main", "evt_1PxA5bLkdIwHu7ix");

    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_version_one(&row);
    let body = table
        .ledger
        .event_body(&key)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(body.0.starts_with(b"{\"id\":\"evt_1PxA5bLkdIwHu7ix\""));

    // The attribute is in the place where current code reads it.
    assert_eq!(text(&item, "gpk"), work_partition(&key.pk()));
    let due = row.due.unwrap();
    let look = row.next_look.unwrap();
    let found = table.ledger.sweep().due(0, look, 10).await.unwrap();
    let shard = text(&item, "gpk")[2..].parse().unwrap();
    let there = table.ledger.sweep().due(shard, look, 10).await.unwrap();
    assert_eq!(there, [(key.clone(), look)]);
    assert!(shard == 0 || found.is_empty());
    let listed = table
        .ledger
        .received_in_hour("stripe-main", row.received_at, row.received_at, 9);
    assert_eq!(listed.await.unwrap()[0].key, key);

    let swept = table
        .ledger
        .sweep()
        .sweep_one(&key, look, ATTEMPTS, true, look)
        .await
        .unwrap();
    assert!(matches!(swept, SweepResult::Send(..)), "{swept:?}");
    let lease = leased(table.claim(&key, due).await);
    assert_eq!((lease.row.epoch, lease.row.attempts), (3, 3));
    let effects = [("http".to_owned(), effect(EffectState::Done))];
    let settled = table.ledger.settle(lease, Settlement::Done, &effects, due);
    assert_eq!(settled.await.unwrap(), Settled::Recorded(Settlement::Done));
    assert_sound(&item, &table.row(&key).await);
}

fn assert_version_one(row: &Row) {
    assert_eq!((row.state, row.schema), (State::Failed, 1));
    assert_eq!((row.epoch, row.run, row.generation), (2, 0, 0));
    assert_eq!((row.attempts, row.crashes, row.sends), (2, 1, 0));
    assert_eq!((row.via, row.proven), (Via::Webhook, Proven::Body));
    assert_eq!(
        (row.kind.as_str(), row.preset.as_str()),
        ("invoice.paid", "stripe")
    );
    assert_eq!(row.secret.as_deref(), Some("current.1"));
    assert_eq!(row.body_at, BodyAt::Inline);
    assert_eq!(row.error.as_deref(), Some("502 from hooks.example.test"));
    assert_eq!(row.effects["http"].state, EffectState::Unknown);
    assert_eq!(
        row.effects["http"].key,
        "wh_2r2h5kf6eplrs7vio3wgxo2c3p6npuzhowvs2h7d"
    );
    assert_eq!(row.history.len(), 1);
    assert_eq!(
        (row.history[0].what.as_str(), row.history[0].attempt),
        ("failed", 2)
    );
    assert_eq!(row.id().as_str().len(), 30);
}

#[tokio::test]
async fn only_done_rows_bodies_and_markers_expire_and_do_so_in_seconds() {
    let table = Table::fresh().await;
    let large = event_with("evt_1", Via::Webhook, crate::support::noise(3_000));
    let other = event_with("evt_1", Via::Webhook, "another body");
    table.receive(&large).await;
    table.receive(&other).await;
    table
        .receive(&crate::support::github("72d3162e", "{}"))
        .await;
    for (id, settlement) in [
        ("dead", dead()),
        ("failed", retry_at(NOW)),
        ("done", Settlement::Done),
    ] {
        let key = table.receive(&event(id)).await;
        let lease = table.lease(&key, NOW).await;
        table.settle(lease, settlement).await;
    }
    let held = table.receive(&event("held")).await;
    table.lease(&held, NOW).await;

    let mut states = Vec::new();
    for item in table.all().await {
        let kind = text(&item, "sk");
        let what = if kind == "M" {
            text(&item, "st")
        } else {
            kind[..1].to_owned()
        };
        // The counts of a day's quarantined events and the counter of their copies also expire.
        let expires = ["done", "B", "S", "A", "C"].contains(&what.as_str());
        assert_eq!(item.contains_key("ttl"), expires, "{what}");
        if expires {
            // DynamoDB would treat a time in milliseconds as a time in the far future, and would
            // keep the row.
            let days = (number(&item, "ttl") - NOW.secs()) / 86_400;
            assert!([2, 30, 90].contains(&days), "{what} for {days} days");
        }
        states.push(what);
    }
    states.sort_unstable();
    // The other body was stored twice, once before the ledger found the conflict, and once next to
    // the first body.
    assert_eq!(
        states,
        [
            "A",
            "A",
            "B",
            "C",
            "S",
            "dead_letter",
            "done",
            "failed",
            "processing",
            "quarantined",
            "received",
            "received"
        ]
    );
    assert_eq!(KEEP_ROW.as_secs(), 90 * 86_400);
}

#[tokio::test]
async fn a_row_is_in_the_work_index_while_somebody_has_to_do_something() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let (work, time) = {
        let row = table.row(&key).await;
        (text(&row, "gpk"), (text(&row, "tpk"), text(&row, "tsk")))
    };
    let dead_part = work.replace("W#", "D#");
    let placed = async |state: &str, place: [usize; 2]| {
        let open = table.index("work", "gpk", &work).await.len();
        let dead = table.index("work", "gpk", &dead_part).await.len();
        assert_eq!([open, dead], place, "{state}");
        // The time index always contains every event, under the same key.
        assert_eq!(table.index("time", "tpk", &time.0).await, [key.pk()]);
        let row = table.row(&key).await;
        assert_eq!((text(&row, "tpk"), text(&row, "tsk")), time, "{state}");
        assert_eq!(text(&row, "st"), state);
    };
    placed("received", [1, 0]).await;
    let lease = table.lease(&key, NOW).await;
    placed("processing", [1, 0]).await;
    table.settle(lease, retry_at(NOW)).await;
    placed("failed", [1, 0]).await;
    let lease = table.lease(&key, NOW).await;
    let held = table.row(&key).await;
    table.settle(lease, dead()).await;
    placed("dead_letter", [0, 1]).await;
    table.put(held).await;
    let lease = table.lease(&key, lease_over()).await;
    table.settle(lease, Settlement::Done).await;
    placed("done", [0, 0]).await;

    let apart = event_with("evt_1", Via::Webhook, "another body");
    let Received::Conflict(key) = table.ledger.receive(&apart, NOW).await.unwrap() else {
        panic!("expected no conflict");
    };
    let row = table.row(&key).await;
    assert!(text(&row, "gpk").starts_with("Q#") && row.contains_key("gsk"));
    assert!(text(&row, "tpk").starts_with("T#stripe-main#"));
}

#[tokio::test]
async fn events_are_found_by_hour_and_by_the_beginning_of_their_id() {
    let table = Table::fresh().await;
    let mut keys = Vec::new();
    for index in 0..25 {
        keys.push(table.receive(&event(&format!("evt_{index}"))).await);
    }
    let listed = table
        .ledger
        .received_in_hour("stripe-main", NOW, after(1), 100);
    let listed = listed.await.unwrap();
    let mut found: Vec<_> = listed.iter().map(|listed| listed.key.clone()).collect();
    found.sort();
    keys.sort();
    assert_eq!(found, keys);
    assert!(
        listed
            .iter()
            .all(|listed| listed.kind == "invoice.paid" && listed.received_at == NOW)
    );
    let later = table
        .ledger
        .received_in_hour("stripe-main", after(1), after(2), 100);
    assert_eq!(later.await.unwrap(), []);
    let one = table
        .ledger
        .with_id_prefix(&["stripe-main"], listed[3].id.as_str(), 10);
    assert_eq!(one.await.unwrap(), [listed[3].clone()]);
}

#[test]
fn ids_that_count_up_are_spread_over_the_index() {
    let mut parts = std::collections::BTreeMap::<String, usize>::new();
    for id in 1_000..1_800 {
        let key = EventKey::new("shop-main", &id.to_string());
        *parts.entry(work_partition(&key.pk())).or_default() += 1;
    }
    // With an even distribution, each partition would have a hundred events.
    let even = parts.len() == 8 && parts.values().all(|count| (50..200).contains(count));
    assert!(even, "{parts:?}");
}

/// Parses an item in the JSON format of DynamoDB.
fn read_item(json: &Value) -> Item {
    let attributes = json.as_object().unwrap().iter();
    attributes
        .map(|(name, value)| (name.clone(), read_value(value)))
        .collect()
}

fn read_value(json: &Value) -> AttributeValue {
    let (kind, value) = json.as_object().unwrap().iter().next().unwrap();
    let text = || value.as_str().unwrap().to_owned();
    match kind.as_str() {
        "S" => AttributeValue::S(text()),
        "N" => AttributeValue::N(text()),
        "B" => AttributeValue::B(STANDARD.decode(text()).unwrap().into()),
        "M" => AttributeValue::M(read_item(value)),
        "L" => AttributeValue::L(value.as_array().unwrap().iter().map(read_value).collect()),
        other => panic!("unknown type {other}"),
    }
}
