//! Tests that a call answers the same with the SDK and without it, against the emulator of DynamoDB.

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::CancellationReason;
use aws_sdk_dynamodb::types::error::TransactionCanceledException;
use local::names::{ACCESS_KEY, REGION, SECRET_KEY};
use local::{Emulators, Naming, Template, create_table};
use proptest::prelude::*;

use super::*;
use crate::aws::{Aws, CallPolicy};

fn error(codes: &[&str]) -> SdkError<TransactWriteItemsError, ()> {
    let reasons = codes
        .iter()
        .map(|code| CancellationReason::builder().code(*code).build());
    let error = TransactionCanceledException::builder()
        .set_cancellation_reasons(Some(reasons.collect()))
        .build();
    let error = TransactWriteItemsError::TransactionCanceledException(error);
    SdkError::service_error(error, ())
}

#[test]
fn the_reasons_say_why_a_transaction_was_cancelled() {
    let of = |codes: &[&str]| cancelled(&error(codes));
    let refused = of(&["ConditionalCheckFailed", "None"]);
    assert_eq!(refused, Some(Transaction::Refused(0)));
    let both = of(&["TransactionConflict", "ConditionalCheckFailed"]);
    assert_eq!(both, Some(Transaction::Refused(1)));
    let conflict = of(&["None", "TransactionConflict"]);
    assert_eq!(conflict, Some(Transaction::Conflict));
    assert_eq!(of(&["ThrottlingError", "None"]), None);
    assert_eq!(of(&[]), None);
}

const NOWHERE: &str = "http://127.0.0.1:9";

const NAME: &str = "direct";

fn aws(url: &str) -> Aws {
    let credentials = Credentials::from_keys(ACCESS_KEY, SECRET_KEY, None);
    let endpoint = Some(url.to_owned());
    Aws::new(REGION.to_owned(), credentials, endpoint, CallPolicy::SHORT)
}

/// A new table of the template, with a client whose direct calls and whose SDK calls go to these URLs.
struct Fixture {
    emulators: Emulators,
    table: Table,
}

impl Fixture {
    async fn new() -> Self {
        let emulators = Emulators::start(None).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../template.yaml");
        let template = Template::load(std::path::Path::new(path), &Naming::default()).unwrap();
        let definition = template.table_definition().unwrap();
        let url = emulators.endpoints().dynamodb.clone();
        let client = aws(&url).dynamodb();
        Box::pin(create_table(&client, definition, NAME))
            .await
            .unwrap();
        let table = through(&url, NOWHERE);
        Self { emulators, table }
    }

    fn url(&self) -> &str {
        &self.emulators.endpoints().dynamodb
    }
}

fn through(direct: &str, sdk: &str) -> Table {
    let client = aws(direct).table().with_rest(aws(sdk).later(Aws::dynamodb));
    Table::new(client, NAME)
}

fn item(sk: &str, values: impl IntoIterator<Item = (String, AttributeValue)>) -> Item {
    let mut item: Item = values.into_iter().collect();
    item.insert("pk".to_owned(), item::s("E#a#1"));
    item.insert("sk".to_owned(), item::s(sk));
    item
}

fn values() -> impl Strategy<Value = AttributeValue> {
    let blob = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Blob::new);
    let leaf = prop_oneof![
        any::<String>().prop_map(AttributeValue::S),
        any::<i64>().prop_map(item::n),
        blob().prop_map(AttributeValue::B),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Null(true)),
        proptest::collection::hash_set(".+", 1..4)
            .prop_map(|all| AttributeValue::Ss(all.into_iter().collect())),
        proptest::collection::hash_set(0_u32..99, 1..4)
            .prop_map(|all| AttributeValue::Ns(all.iter().map(u32::to_string).collect())),
        proptest::collection::hash_set(0_u8..99, 1..4)
            .prop_map(|all| AttributeValue::Bs(all.iter().map(|one| Blob::new([*one])).collect())),
    ];
    leaf.prop_recursive(3, 20, 4, |value| {
        prop_oneof![
            proptest::collection::vec(value.clone(), 0..4).prop_map(AttributeValue::L),
            proptest::collection::hash_map(".{1,5}", value, 0..4).prop_map(AttributeValue::M),
        ]
    })
}

/// Sorts the members of sets, which have no order.
fn sorted(item: Item) -> Item {
    fn in_order(value: AttributeValue) -> AttributeValue {
        match value {
            AttributeValue::Ss(mut all) => {
                all.sort();
                AttributeValue::Ss(all)
            }
            AttributeValue::Ns(mut all) => {
                all.sort();
                AttributeValue::Ns(all)
            }
            AttributeValue::Bs(mut all) => {
                all.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
                AttributeValue::Bs(all)
            }
            AttributeValue::L(all) => AttributeValue::L(all.into_iter().map(in_order).collect()),
            AttributeValue::M(all) => AttributeValue::M(sorted(all)),
            other => other,
        }
    }
    let values = item.into_iter();
    values.map(|(name, one)| (name, in_order(one))).collect()
}

#[test]
fn any_item_is_stored_and_read_as_by_the_sdk() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let fixture = runtime.block_on(Fixture::new());
    let sdk = through(NOWHERE, fixture.url());
    let names = proptest::collection::hash_map("[a-z]{3,9}", values(), 0..6);
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(values in names)| {
        let wanted = item("M", values);
        runtime.block_on(async {
            let put = fixture.table.put("put", wanted.clone(), None, Returns::Nothing).await;
            assert!(put.unwrap().is_applied());
            let wanted = sorted(wanted);
            for table in [&fixture.table, &sdk] {
                let read = table.get("get", ("E#a#1", "M")).await.unwrap().unwrap();
                assert_eq!(sorted(read), wanted);
            }
        });
    });
}

#[tokio::test]
async fn a_write_answers_as_with_the_sdk() {
    let fixture = Fixture::new().await;
    let sdk = through(NOWHERE, fixture.url());
    for (n, table) in [&fixture.table, &sdk].into_iter().enumerate() {
        let sk = format!("M{n}");
        let key = ("E#a#1", sk.as_str());
        let new = || item(&sk, [("n".to_owned(), item::n(1))]);
        let absent = || Some(("attribute_not_exists(pk)", Item::new()));
        let put = table.put("put", new(), absent(), Returns::Refused).await;
        assert!(matches!(put.unwrap(), Write::Applied(None)));
        let put = table.put("put", new(), absent(), Returns::Refused).await;
        assert!(matches!(put.unwrap(), Write::Refused(Some(old)) if old == new()));
        let put = table.put("put", new(), absent(), Returns::Nothing).await;
        assert!(matches!(put.unwrap(), Write::Refused(None)));

        let change = |at: i64| {
            Change::new("change", "#n = :at", "SET #n = #n + :one, x = :x")
                .named("#n", "n")
                .with(":at", item::n(at))
                .with(":one", item::n(1))
                .with(":x", item::s("\u{1}\"\\/\u{7f}ä"))
        };
        let changed = |n: i64| {
            let x = ("x".to_owned(), item::s("\u{1}\"\\/\u{7f}ä"));
            Item::from([("n".to_owned(), item::n(n)), x])
        };
        let update = table.update(key, change(1), Returns::Nothing).await;
        assert!(matches!(update.unwrap(), Write::Applied(None)));
        let update = table.update(key, change(2), Returns::Updated).await;
        assert!(matches!(update.unwrap(), Write::Applied(Some(new)) if new == changed(3)));
        let update = table.update(key, change(3), Returns::All).await;
        assert!(
            matches!(update.unwrap(), Write::Applied(Some(new)) if new == item(&sk, changed(4)))
        );
        let update = table.update(key, change(3), Returns::All).await;
        assert!(
            matches!(update.unwrap(), Write::Refused(Some(old)) if old == item(&sk, changed(4)))
        );
        let update = table.update(key, change(3), Returns::Nothing).await;
        assert!(matches!(update.unwrap(), Write::Refused(None)));
        let unconditional = Change::new("change", "", "REMOVE x");
        let update = table.update(key, unconditional, Returns::Nothing).await;
        assert!(update.unwrap().is_applied());

        let read = table.get_eventually("get", key, Some("n")).await.unwrap();
        assert_eq!(read, Some(Item::from([("n".to_owned(), item::n(4))])));
        assert_eq!(table.get("get", ("E#a#1", "none")).await.unwrap(), None);
    }
}

#[tokio::test]
async fn the_sdk_repeats_what_has_no_usable_answer() {
    let fixture = Fixture::new().await;
    // The SDK does not repeat an invalid call.
    let table = through(fixture.url(), NOWHERE);
    let invalid = item("", []);
    let put = table.put("put an invalid item", invalid, None, Returns::Nothing);
    let error = put.await.err().unwrap();
    assert!(
        is_failed_call(&error) && is_invalid_item(&error),
        "{error:#}"
    );
    // Without an answer, the SDK sends the call.
    let table = through(NOWHERE, fixture.url());
    let put = table
        .put("put", item("M", []), None, Returns::Nothing)
        .await;
    assert!(put.unwrap().is_applied());
    let table = through(NOWHERE, NOWHERE);
    let put = table.put("put an item", item("M", []), None, Returns::Nothing);
    let error = put.await.err().unwrap();
    assert!(
        is_failed_call(&error) && !is_invalid_item(&error),
        "{error:#}"
    );
}

#[test]
fn a_response_that_is_not_understood_is_left_to_the_sdk() {
    let answer = |status, body: &'static str| {
        Answer::of(&crate::aws::Reply {
            status,
            body: body.into(),
        })
    };
    let refused =
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}"#;
    assert!(matches!(answer(400, refused), Some(Answer::Refused(None))));
    assert!(matches!(answer(200, "{}"), Some(Answer::Applied(None))));
    for (status, body) in [
        (200, ""),
        (200, "<html>"),
        (200, refused),
        (500, refused),
        (400, "{}"),
        (200, r#"{"Item":{"a":{"S":1}}}"#),
        (200, r#"{"Item":{"a":{}}}"#),
        (200, r#"{"Item":{"a":{"S":"1","N":"1"}}}"#),
        (200, r#"{"Item":{"a":{"new":"1"}}}"#),
        (200, r#"{"Item":{"a":{"B":"%"}}}"#),
        (
            400,
            r#"{"__type":"x#ProvisionedThroughputExceededException"}"#,
        ),
    ] {
        assert!(answer(status, body).is_none(), "{status} {body}");
    }
}
