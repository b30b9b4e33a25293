//! Compares the DynamoDB of the simulation with that of the local stack. They share no code, and
//! must give the same result for every transition of every kind of row.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::Path;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, KeyType, ReturnValue, ReturnValuesOnConditionCheckFailure,
};
use local::{Emulators, Naming, Template, create_table};
use shared::aws::{Aws, CallPolicy};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::transition::{self, Change, Fence};
use shared::inbox::ledger::{EffectRow, EffectState, Item, Row};
use simulation::rng::Dice;
use simulation::scenario::Scenario;
use simulation::wire;
use simulation::wire::dynamodb::INDEXES;
use simulation::world::Shared;

const ROUNDS: usize = 1_000;

const TABLE: &str = "inbox";

const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

/// An answer in a form in which the answers of two stores can be compared.
#[derive(Debug, PartialEq)]
enum Answer {
    Applied(String),
    Refused(String),
    Trouble(String),
}

fn template() -> Template {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../template.yaml");
    Template::load(&path, &Naming::default()).unwrap()
}

fn simulated() -> Client {
    let world = Shared::new(Scenario {
        latency_ms: 0,
        ..Scenario::calm(1, 1)
    });
    world.lock().table.index_lag_ms = 0;
    let aws = Aws::over(
        wire::client(&world),
        "simulated".to_owned(),
        Credentials::from_keys("simulated", "simulated", None),
        Some("https://simulated".to_owned()),
        CallPolicy::LONG,
    );
    aws.dynamodb()
}

/// Returns clients for both stores, and the services that one of the stores needs.
async fn both() -> (Client, Client, Emulators) {
    let emulators = Emulators::start(None).unwrap();
    let real = emulators.clients().dynamodb;
    create_table(&real, template().table_definition().unwrap(), TABLE)
        .await
        .unwrap();
    (simulated(), real, emulators)
}

fn written(value: &AttributeValue) -> String {
    match value {
        AttributeValue::M(map) => shown(Some(map)),
        AttributeValue::L(list) => format!("{:?}", list.iter().map(written).collect::<Vec<_>>()),
        other => format!("{other:?}"),
    }
}

fn shown(item: Option<&Item>) -> String {
    let sorted = item.map(|item| {
        item.iter()
            .map(|(name, value)| (name, written(value)))
            .collect::<BTreeMap<_, _>>()
    });
    format!("{sorted:?}")
}

async fn change(client: &Client, pk: &str, change: &Change) -> Answer {
    let request = client
        .update_item()
        .table_name(TABLE)
        .key("pk", AttributeValue::S(pk.to_owned()))
        .key("sk", AttributeValue::S("M".to_owned()))
        .update_expression(&change.update)
        .condition_expression(&change.condition)
        .set_expression_attribute_values(
            Some(change.values.clone()).filter(|values| !values.is_empty()),
        )
        .set_expression_attribute_names(
            Some(change.names.clone()).filter(|names| !names.is_empty()),
        )
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match request.send().await {
        Ok(output) => Answer::Applied(shown(output.attributes.as_ref())),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                Answer::Refused(shown(refused.item.as_ref()))
            }
            _ => trouble(&error),
        },
    }
}

async fn put(client: &Client, item: &Item, condition: Option<&str>) -> Answer {
    let request = client
        .put_item()
        .table_name(TABLE)
        .set_item(Some(item.clone()))
        .set_condition_expression(condition.map(str::to_owned))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match request.send().await {
        Ok(_) => Answer::Applied(String::new()),
        Err(error) => match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                Answer::Refused(shown(refused.item.as_ref()))
            }
            _ => trouble(&error),
        },
    }
}

fn trouble<E: aws_sdk_dynamodb::error::ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> Answer {
    Answer::Trouble(error.code().unwrap_or("no code").to_owned())
}

async fn listed(client: &Client, partition: &str, until: i64, forward: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut start = None;
    loop {
        let answer = client
            .query()
            .table_name(TABLE)
            .index_name("work")
            .key_condition_expression("gpk = :shard AND gsk <= :now")
            .expression_attribute_values(":shard", AttributeValue::S(partition.to_owned()))
            .expression_attribute_values(":now", AttributeValue::N(until.to_string()))
            .scan_index_forward(forward)
            .limit(3)
            .set_exclusive_start_key(start)
            .send()
            .await
            .unwrap();
        found.extend(answer.items().iter().map(|item| shown(Some(item))));
        start = answer.last_evaluated_key;
        if start.is_none() {
            return found;
        }
    }
}

/// Returns a row in any valid state, and sometimes in an invalid state.
fn row(dice: &mut Dice, pk: &str) -> Item {
    let states = [
        "processing",
        "processing",
        "processing",
        "received",
        "failed",
        "done",
        "dead_letter",
        "quarantined",
    ];
    let state = states[usize::try_from(dice.below(8)).unwrap()];
    let mut item = Item::from([
        ("pk".to_owned(), s(pk)),
        ("sk".to_owned(), s("M")),
        (
            "sv".to_owned(),
            n(i64::try_from(dice.between(1, 2) + dice.below(20) / 19).unwrap()),
        ),
        ("st".to_owned(), s(state)),
        ("epoch".to_owned(), n(i64::try_from(dice.below(3)).unwrap())),
        ("run".to_owned(), n(0)),
        (
            "att".to_owned(),
            n(i64::try_from(dice.below(3)).unwrap() * 5),
        ),
        (
            "cr".to_owned(),
            n(i64::try_from(dice.below(7) / 2).unwrap()),
        ),
        ("rcv".to_owned(), n(NOW.0)),
        ("bref".to_owned(), s("i")),
        (
            "h".to_owned(),
            AttributeValue::L(vec![s("1|failed|1||a|x")]),
        ),
        ("fx".to_owned(), AttributeValue::M(Item::new())),
        ("lu".to_owned(), n(near(dice))),
        ("due".to_owned(), n(near(dice))),
    ]);
    add_optional(&mut item, dice);
    for name in ["lu", "due", "cr", "fx", "epoch"] {
        if dice.hits(500) {
            item.remove(name);
        }
    }
    item
}

fn n(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn near(dice: &mut Dice) -> i64 {
    NOW.0 - 40_000 + i64::try_from(dice.below(9)).unwrap() * 10_000
}

/// Adds attributes that a row does not always have.
fn add_optional(item: &mut Item, dice: &mut Dice) {
    if dice.hits(5_000) {
        let effect = Item::from([(
            "s".to_owned(),
            s(if dice.hits(5_000) { "done" } else { "intent" }),
        )]);
        item.insert(
            "fx".to_owned(),
            AttributeValue::M(Item::from([("http".to_owned(), AttributeValue::M(effect))])),
        );
    }
    if dice.hits(7_000) {
        item.insert(
            "own".to_owned(),
            s(if dice.hits(5_000) { "a" } else { "b" }),
        );
    }
    if dice.hits(7_000) {
        item.insert("gpk".to_owned(), s(&format!("W#{}", dice.below(2))));
        item.insert("gsk".to_owned(), n(near(dice)));
    }
}

fn any_change(dice: &mut Dice, row: &Row, item: &Item) -> Change {
    let effect = EffectRow {
        state: EffectState::Intent,
        key: "k".into(),
        keyed: true,
        at: NOW,
        run: 0,
        note: "n".into(),
        lease: None,
    };
    let effects = [("http".to_owned(), effect.clone())];
    let effects = if dice.hits(5_000) { &effects[..] } else { &[] };
    let number = |name: &str| item.get(name)?.as_n().ok()?.parse::<i64>().ok();
    // The values are mostly those in the row, so that the store does not reject every write.
    let stands = dice.hits(8_000);
    let seen = number("epoch")
        .filter(|_| stands)
        .and_then(|epoch| epoch.try_into().ok())
        .unwrap_or(1);
    let owner = item
        .get("own")
        .and_then(|own| own.as_s().ok())
        .filter(|_| stands);
    let fence = Fence {
        epoch: seen,
        owner: owner.map_or("a", String::as_str),
    };
    let look = number("gsk").filter(|_| stands).map_or(NOW, UnixMillis);
    match dice.below(22) {
        0 | 1 => transition::claim("a", NOW, UnixMillis(NOW.0 + 35_000), 10),
        2 | 3 => transition::take_over(seen, "b", NOW, UnixMillis(NOW.0 + 35_000), 10),
        4 => transition::intent(fence, "http", &effect),
        5 => transition::done(fence, row, effects, NOW, NOW),
        6 => transition::retry(fence, row, effects, "x", NOW, UnixMillis(NOW.0 + 5), NOW),
        7 => transition::dead_letter(fence, row, effects, "permanent", "x", NOW),
        8 => transition::exhaust(seen, row, 10, "crash_loop", NOW),
        9 => transition::sweep::send(look, UnixMillis(NOW.0 + 60_000), NOW),
        10 => transition::sweep::wait(look, UnixMillis(NOW.0 + 60_000)),
        11 => transition::sync::lease("a", NOW, UnixMillis(NOW.0 + 60_000)),
        12 => transition::sync::advance(fence, NOW, NOW),
        13 => transition::sync::release(fence),
        14 => transition::defer(fence, row, effects, "full", 3, NOW, look),
        15 => transition::sweep::skip(look, NOW),
        16 => transition::retention::hold_body(),
        17 => transition::retention::release_body(NOW),
        18 => transition::retention::held_until(NOW),
        19 => transition::sync::advance_to(fence, NOW, "m", NOW),
        20 => transition::sync::restart(fence),
        _ => transition::sync::page(fence, "p", NOW, NOW, NOW),
    }
}

#[tokio::test]
async fn both_stores_answer_every_transition_alike() {
    let (simulated, real, _emulators) = both().await;
    let mut dice = Dice::new(7, 0);
    let (mut applied, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let pk = format!("E#s#{}", dice.below(40));
        let item = row(&mut dice, &pk);
        let condition = [
            "attribute_not_exists(pk)",
            "attribute_not_exists(pk) OR epoch = sv",
            "st = own",
        ];
        let condition = condition
            .get(usize::try_from(dice.below(9)).unwrap())
            .copied();
        assert_eq!(
            put(&simulated, &item, condition).await,
            put(&real, &item, condition).await,
            "{round}: {item:?}"
        );
        let whole = row_of(&pk);
        for _ in 0..3 {
            let any = any_change(&mut dice, &whole, &item);
            let (one, two) = (
                change(&simulated, &pk, &any).await,
                change(&real, &pk, &any).await,
            );
            assert_eq!(one, two, "{round}: {any:?} on {item:?}");
            match one {
                Answer::Applied(_) => applied += 1,
                Answer::Refused(_) => refused += 1,
                Answer::Trouble(_) => {}
            }
        }
    }
    // Without this check, the stores could agree because neither applies or rejects anything.
    assert!(
        applied > ROUNDS / 4 && refused > ROUNDS / 4,
        "{applied} applied, {refused} refused"
    );
    for partition in ["W#0", "W#1", "D#0", "D#3"] {
        for (until, forward) in [
            (NOW.0, true),
            (NOW.0 + 90_000, true),
            (NOW.0 + 90_000, false),
            (0, true),
        ] {
            assert_eq!(
                listed(&simulated, partition, until, forward).await,
                listed(&real, partition, until, forward).await,
                "{partition} until {until}"
            );
        }
    }
}

/// Returns a valid row, as a worker has it when it writes.
fn row_of(pk: &str) -> Row {
    let mut dice = Dice::new(1, 1);
    loop {
        if let Ok(row) = Row::read(&row(&mut dice, pk)) {
            return row;
        }
    }
}

#[tokio::test]
async fn what_dynamodb_refuses_the_simulation_refuses() {
    let (simulated, real, _emulators) = both().await;
    let item = row(&mut Dice::new(3, 0), "E#s#1");
    put(&simulated, &item, None).await;
    put(&real, &item, None).await;
    let base = transition::sync::release(Fence {
        epoch: 0,
        owner: "a",
    });
    let cases: [(&str, &str); 8] = [
        ("own = :own AND epoch = :nothing", "REMOVE own"),
        ("own = :own", "REMOVE own"),
        ("own = :own AND epoch = :epoch AND", "REMOVE own"),
        ("own = :own AND epoch = :epoch", "SET a.b.c = :own"),
        ("own <> :own AND epoch <> :epoch", "ADD st :epoch"),
        ("own <> :own AND epoch <> :epoch", "SET gsk = :own"),
        ("own <> :own AND epoch <> :epoch", "SET pk = :own"),
        ("own <> :own AND epoch <> :epoch", "SET st = missing"),
    ];
    for (condition, update) in cases {
        let mut wrong = base.clone();
        wrong.condition = condition.to_owned();
        wrong.update = update.to_owned();
        // With this value, the error cannot come from the condition.
        wrong
            .values
            .insert(":own".to_owned(), AttributeValue::S("nobody".to_owned()));
        wrong
            .values
            .insert(":epoch".to_owned(), AttributeValue::N("99".to_owned()));
        if condition.contains("own = :own") && update.contains("a.b") {
            wrong.condition = "own <> :own AND epoch <> :epoch".to_owned();
        }
        let (one, two) = (
            change(&simulated, "E#s#1", &wrong).await,
            change(&real, "E#s#1", &wrong).await,
        );
        assert_eq!(one, two, "{condition} / {update}");
        assert_eq!(
            one,
            Answer::Trouble("ValidationException".to_owned()),
            "{condition} / {update}"
        );
    }
}

#[test]
fn the_indexes_are_those_of_the_template() {
    let template = template();
    let definition = template.table_definition().unwrap();
    let name_of = |keys: &[aws_sdk_dynamodb::types::KeySchemaElement], kind: &KeyType| {
        keys.iter()
            .find(|key| key.key_type() == kind)
            .unwrap()
            .attribute_name()
            .to_owned()
    };
    let indexes: Vec<_> = definition
        .indexes
        .iter()
        .map(|index| {
            let keys = index.key_schema();
            (
                index.index_name().to_owned(),
                name_of(keys, &KeyType::Hash),
                name_of(keys, &KeyType::Range),
            )
        })
        .collect();
    let known: Vec<_> = INDEXES
        .iter()
        .map(|(n, p, s)| ((*n).to_owned(), (*p).to_owned(), (*s).to_owned()))
        .collect();
    assert_eq!(indexes, known);
}
