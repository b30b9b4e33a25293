//! Tests the reads of bodies. A read returns the exact bytes from every location, or an error with
//! the reason.

use std::sync::Arc;

use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextMut;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::get_item::GetItemInput;
use aws_sdk_dynamodb::types::AttributeValue;
use shared::base::timing::KEEP_BODY;
use shared::inbox::ledger::{BodyAt, Ledger, MissingBody, Received, Settled, Settlement, State};
use shared::webhook::event::{Event, EventKey, Sha, Via};

use crate::support::{NOW, Table, after, event_with, n, noise, number, s, text};

impl Table {
    pub(crate) async fn body(&self, key: &EventKey) -> Result<Vec<u8>, MissingBody> {
        let body = self.ledger.event_body(key).await.unwrap().unwrap();
        body.map(|body| body.0.to_vec())
    }

    pub(crate) async fn body_at(&self, key: &EventKey) -> BodyAt {
        self.ledger.event(key).await.unwrap().unwrap().body_at
    }

    /// Returns the body row of an event.
    pub(crate) async fn body_row(&self, event: &Event) -> Option<shared::inbox::ledger::Item> {
        self.item(&event.key().pk(), &body_sk(event)).await
    }
}

/// Returns whether a body is at the expected location.
type Place = fn(&BodyAt) -> bool;

fn body_sk(event: &Event) -> String {
    format!("B#{}", &Sha::of(event.body()).hex()[..16])
}

fn large(id: &str, bytes: usize) -> Event {
    event_with(id, Via::Webhook, noise(bytes))
}

#[tokio::test]
async fn exact_bytes_come_back_from_everywhere() {
    let table = Table::with_bucket().await;
    let all: Vec<u8> = (0..=255).collect();
    let bucket = |at: &BodyAt| matches!(at, BodyAt::Bucket(_));
    let row = |at: &BodyAt| *at == BodyAt::Row;
    let inline = |at: &BodyAt| *at == BodyAt::Inline;
    let cases: Vec<(&str, Vec<u8>, Place)> = vec![
        ("nothing", vec![], inline),
        ("one byte", vec![0], inline),
        ("every byte", all, inline),
        (
            "no UTF-8 with CRLF",
            b"\xff\xfe\r\n{}\r\n\0".to_vec(),
            inline,
        ),
        ("much of the same", vec![b'a'; 900_000], inline),
        ("a kilobyte", noise(1_024), row),
        ("2 KB", noise(2_048), row),
        ("the largest row", noise(32 * 1024), row),
        ("one byte more", noise(32 * 1024 + 1), bucket),
        ("a megabyte", noise(1024 * 1024), bucket),
        (
            "4 MB of text",
            noise(1024 * 1024)
                .iter()
                .flat_map(|b| format!("{b:04}").into_bytes())
                .collect(),
            bucket,
        ),
    ];
    for (index, (what, body, place)) in cases.into_iter().enumerate() {
        let event = event_with(&format!("evt_{index}"), Via::Webhook, body.clone());
        assert_eq!(
            table.ledger.receive(&event, NOW).await.unwrap(),
            Received::New,
            "{what}"
        );
        let at = table.body_at(event.key()).await;
        assert!(place(&at), "{what} is in {at:?}");
        assert!(table.body(event.key()).await == Ok(body.clone()), "{what}");
        let row = table.ledger.event(event.key()).await.unwrap().unwrap();
        assert_eq!(row.body_len, body.len() as u64);
        // The worker reads the body through its lease.
        let lease = table.lease(event.key(), NOW).await;
        let leased = table.ledger.leased_body(&lease).await.unwrap().unwrap();
        assert!(leased.0 == body, "{what}");
    }
}

#[tokio::test]
async fn a_body_that_begins_like_a_zstd_frame_comes_back_as_it_was() {
    let table = Table::with_bucket().await;
    for (index, bytes) in [500, 20_000, 60_000].into_iter().enumerate() {
        let mut body = vec![0x28, 0xb5, 0x2f, 0xfd];
        body.extend(noise(bytes));
        let event = event_with(&format!("evt_{index}"), Via::Webhook, body.clone());
        table.receive(&event).await;
        let back = table.body(event.key()).await;
        assert!(
            back == Ok(body),
            "{bytes} bytes in {:?}",
            table.body_at(event.key()).await
        );
    }
}

#[tokio::test]
async fn a_body_row_says_how_it_is_stored_and_expires() {
    let table = Table::fresh().await;
    let event = large("evt_1", 3_000);
    table.receive(&event).await;
    let row = table.body_row(&event).await.unwrap();
    assert_eq!(
        (text(&row, "enc").as_str(), number(&row, "n")),
        ("raw", 3_000)
    );
    assert_eq!(number(&row, "ttl"), (NOW + KEEP_BODY).secs());
    let keys: Vec<_> = row
        .keys()
        .filter(|name| name.starts_with('g') || name.starts_with('t'))
        .collect();
    assert_eq!(keys, ["ttl"], "a body is in no index");
    assert!(!table.row(event.key()).await.contains_key("b"));

    let mut body = noise(3_000);
    body.extend(vec![b' '; 50_000]);
    let event = event_with("evt_2", Via::Webhook, body);
    table.receive(&event).await;
    let row = table.body_row(&event).await.unwrap();
    assert_eq!(
        (text(&row, "enc").as_str(), number(&row, "n")),
        ("zstd.1", 53_000)
    );
}

#[tokio::test]
async fn a_body_in_the_bucket_is_told_where_it_is() {
    let table = Table::with_bucket().await;
    let event = large("evt_1", 40_000);
    table.receive(&event).await;
    let BodyAt::Bucket(key) = table.body_at(event.key()).await else {
        panic!("the body is not in the bucket");
    };
    let parts: Vec<&str> = key.split('/').collect();
    assert_eq!(parts[..2], ["bodies", "stripe-main"]);
    assert_eq!(parts[2].len(), 32);
    assert_eq!(parts[3..], [Sha::of(event.body()).hex()]);
    assert!(table.body_row(&event).await.is_none());
}

#[tokio::test]
async fn a_large_body_without_a_bucket_is_not_acknowledged() {
    let table = Table::fresh().await;
    let error = table
        .ledger
        .receive(&large("evt_1", 40_000), NOW)
        .await
        .unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "the body does not fit into the table, and no bucket is configured; set MITT_BODY_BUCKET"
    );
    assert!(table.all().await.is_empty());
}

#[tokio::test]
async fn a_body_is_durable_before_the_row_that_points_to_it() {
    let table = Table::fresh().await;
    let event = large("evt_1", 3_000);
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("PutItem", "attribute_not_exists(pk)");
    let (received, body) = held
        .around(ledger.receive(&event, NOW), table.body_row(&event))
        .await;
    assert_eq!(received.unwrap(), Received::New);
    assert!(body.is_some(), "the row was written before its body");
}

#[tokio::test]
async fn a_large_body_is_in_the_bucket_before_its_row() {
    let table = Table::with_bucket().await;
    let event = large("evt_1", 40_000);
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("PutItem", "attribute_not_exists");
    let (s3, bucket) = table.bucket.clone().unwrap();
    let (received, listed) = held
        .around(
            ledger.receive(&event, NOW),
            s3.list_objects_v2().bucket(bucket).send(),
        )
        .await;
    assert_eq!(received.unwrap(), Received::New);
    assert_eq!(listed.unwrap().contents().len(), 1);
}

#[tokio::test]
async fn a_catcher_that_dies_behind_the_body_leaves_an_event_to_be_received() {
    let table = Table::fresh().await;
    let event = large("evt_1", 3_000);
    table.receive(&event).await;
    table.delete(&event.key().pk(), "M").await;
    // Only the body remains. It does not count as an event, and does not block an event with the
    // same key.
    assert!(table.ledger.event(event.key()).await.unwrap().is_none());
    assert!(!table.ledger.has(event.key()).await.unwrap());
    assert_eq!(
        table.ledger.receive(&event, after(1)).await.unwrap(),
        Received::New
    );
    assert_eq!(table.body(event.key()).await, Ok(event.body().to_vec()));
}

/// A replica of the table that has no body yet. An eventually consistent read finds no body.
#[derive(Debug)]
struct Behind;

impl Intercept for Behind {
    fn name(&self) -> &'static str {
        "behind"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(get) = context.input_mut().downcast_mut::<GetItemInput>()
            && get.consistent_read != Some(true)
            && let Some(key) = &mut get.key
        {
            key.insert("sk".to_owned(), s("not yet"));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_body_is_read_once_and_again_where_a_replica_does_not_have_it_yet() {
    let table = Table::fresh().await;
    let event = large("evt_1", 3_000);
    table.receive(&event).await;
    let (proxy, ledger) = table.through_proxy().await;
    let read = ledger.event_body(event.key()).await.unwrap().unwrap();
    assert_eq!(read.unwrap().0, *event.body());
    assert_eq!(proxy.count()["GetItem"], 2, "the row, and its body");

    let behind = table.db.config().to_builder().interceptor(Behind);
    let behind = aws_sdk_dynamodb::Client::from_conf(behind.build());
    let behind = Ledger::new(behind, &table.name, None);
    let read = behind.event_body(event.key()).await.unwrap().unwrap();
    assert_eq!(read.unwrap().0, *event.body());
}

#[tokio::test]
async fn a_body_that_is_gone_is_said_to_be_gone() {
    let table = Table::with_bucket().await;
    let in_row = large("evt_1", 3_000);
    table.receive(&in_row).await;
    table.delete(&in_row.key().pk(), &body_sk(&in_row)).await;
    assert_eq!(table.body(in_row.key()).await, Err(MissingBody::Gone));

    let in_bucket = large("evt_2", 40_000);
    table.receive(&in_bucket).await;
    let BodyAt::Bucket(key) = table.body_at(in_bucket.key()).await else {
        panic!("the body is not in the bucket");
    };
    let (s3, bucket) = table.bucket.clone().unwrap();
    s3.delete_object()
        .bucket(bucket)
        .key(key)
        .send()
        .await
        .unwrap();
    assert_eq!(table.body(in_bucket.key()).await, Err(MissingBody::Gone));

    // The row of an erased event remains, and the worker can settle the event.
    let erased = event_with("evt_3", Via::Webhook, "{}");
    table.receive(&erased).await;
    table.edit(erased.key(), |row| drop(row.remove("b"))).await;
    assert_eq!(table.body(erased.key()).await, Err(MissingBody::Gone));
    let lease = table.lease(erased.key(), NOW).await;
    assert_eq!(
        table.ledger.leased_body(&lease).await.unwrap(),
        Err(MissingBody::Gone)
    );
    let settled = table.settle(lease, Settlement::Done).await;
    assert_eq!(settled, Settled::Recorded(Settlement::Done));
}

#[tokio::test]
async fn a_body_that_was_changed_is_damaged() {
    let table = Table::with_bucket().await;
    let blob = |bytes: Vec<u8>| AttributeValue::B(bytes.into());
    let swapped = zstd_frame_of(b"another body");

    let inline = event_with("evt_1", Via::Webhook, "{}");
    table.receive(&inline).await;
    table
        .edit(inline.key(), |row| {
            drop(row.insert("b".into(), blob(b"[]".to_vec())));
        })
        .await;
    assert_eq!(table.body(inline.key()).await, Err(MissingBody::Damaged));

    for (index, bytes) in [noise(3_000), vec![], swapped.clone()]
        .into_iter()
        .enumerate()
    {
        for enc in ["raw", "zstd"] {
            let event = large(&format!("evt_{index}_{enc}"), 3_000);
            table.receive(&event).await;
            let mut row = table.body_row(&event).await.unwrap();
            row.insert("b".into(), blob(bytes.clone()));
            row.insert("enc".into(), s(enc));
            table.put(row).await;
            assert_eq!(
                table.body(event.key()).await,
                Err(MissingBody::Damaged),
                "{index} {enc}"
            );
        }
    }
    // The stored body has one flipped bit.
    let event = large("evt_bit", 3_000);
    table.receive(&event).await;
    let mut row = table.body_row(&event).await.unwrap();
    let mut bytes = event.body().to_vec();
    bytes[1_500] ^= 1;
    row.insert("b".into(), blob(bytes));
    table.put(row).await;
    assert_eq!(table.body(event.key()).await, Err(MissingBody::Damaged));

    let event = large("evt_bucket", 40_000);
    table.receive(&event).await;
    let BodyAt::Bucket(key) = table.body_at(event.key()).await else {
        panic!("the body is not in the bucket");
    };
    let (s3, bucket) = table.bucket.clone().unwrap();
    for bytes in [noise(40_000), vec![], swapped] {
        let put = s3.put_object().bucket(&bucket).key(&key);
        put.body(bytes.into()).send().await.unwrap();
        assert_eq!(table.body(event.key()).await, Err(MissingBody::Damaged));
    }
}

#[tokio::test]
async fn a_body_that_claims_to_be_short_fills_no_memory() {
    let table = Table::fresh().await;
    let mut body = noise(2_000);
    body.extend(vec![0; 3_000_000]);
    let event = event_with("evt_1", Via::Webhook, body);
    table.receive(&event).await;
    table
        .edit(event.key(), |row| drop(row.insert("len".into(), n(5))))
        .await;
    assert_eq!(table.body(event.key()).await, Err(MissingBody::Damaged));
}

#[tokio::test]
async fn both_bodies_of_a_conflict_are_kept() {
    let table = Table::with_bucket().await;
    for bytes in [3_000, 40_000] {
        let first = large(&format!("evt_{bytes}"), bytes);
        let second = large(&format!("evt_{bytes}"), bytes);
        table.receive(&first).await;
        let Received::Conflict(apart) = table.ledger.receive(&second, after(1)).await.unwrap()
        else {
            panic!("expected no conflict");
        };
        assert_eq!(table.body(first.key()).await, Ok(first.body().to_vec()));
        assert_eq!(table.body(&apart).await, Ok(second.body().to_vec()));
        let row = table.ledger.event(&apart).await.unwrap().unwrap();
        assert_eq!(row.state, State::Quarantined);
    }
}

#[tokio::test]
async fn deliveries_at_once_leave_one_whole_body() {
    let table = Arc::new(Table::fresh().await);
    for round in 0..10 {
        let event = large(&format!("evt_{round}"), 3_000);
        let racers = (0..8).map(|_| table.ledger.receive(&event, NOW));
        futures::future::join_all(racers).await;
        assert_eq!(table.body(event.key()).await, Ok(event.body().to_vec()));
    }
    assert_eq!(table.all().await.len(), 20);
}

/// Creates a zstd frame with one raw block, so that the test needs no compressor.
fn zstd_frame_of(bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    // The frame has the magic number, one segment with its size in a byte, and one last raw block.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, length];
    let header = 1 | u32::from(length) << 3;
    frame.extend(&header.to_le_bytes()[..3]);
    frame.extend(bytes);
    frame
}
