//! Tests retention. A settled event expires, and an open event keeps its body for as long as it
//! needs the body.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use shared::base::clock::UnixMillis;
use shared::base::timing::{KEEP_BODY, KEEP_ROW, KEEP_ROW_SHORT};
use shared::inbox::ledger::{BodyAt, Ledger, Received, Settled, Settlement, SweepResult};
use shared::inbox::queue::QueueName;
use shared::sources::Config;
use shared::sources::policy::Retention;
use shared::webhook::event::{Event, Sha, Via};

use crate::support::{ATTEMPTS, NOW, Table, dead, event_with, n, noise, number};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns a ledger for a source that keeps rows for 400 days and bodies for 7 days.
fn keeping(table: &Table) -> Ledger {
    let retention = Retention {
        rows: DAY * 400,
        bodies: DAY * 7,
    };
    let retentions = BTreeMap::from([("stripe-main".to_owned(), retention)]);
    table.ledger.clone().keeping(retentions.into())
}

fn large(id: &str, bytes: usize) -> Event {
    event_with(id, Via::Webhook, noise(bytes))
}

/// Returns the time when the body expires, or `None` if it does not expire.
async fn body_expires(table: &Table, event: &Event) -> Option<i64> {
    let row = table.body_row(event).await.expect("the body row exists");
    row.contains_key("ttl").then(|| number(&row, "ttl"))
}

/// Returns the tag of the event's object.
pub(crate) async fn tag(table: &Table, event: &Event) -> String {
    let BodyAt::Bucket(key) = table.body_at(event.key()).await else {
        panic!("the body is not in the bucket");
    };
    let (s3, bucket) = table.bucket.clone().unwrap();
    let request = s3.get_object_tagging().bucket(bucket).key(key);
    let tags = request.send().await.unwrap();
    let [tag] = tags.tag_set() else {
        panic!("{tags:?}");
    };
    assert_eq!(tag.key(), "mitt-keep");
    tag.value().to_owned()
}

#[tokio::test]
async fn a_source_says_for_how_long() {
    let mut table = Table::with_bucket().await;
    table.ledger = keeping(&table);
    let (small, big) = (large("evt_1", 3_000), large("evt_2", 40_000));
    for event in [&small, &big] {
        table.receive(event).await;
        let lease = table.lease(event.key(), NOW).await;
        let settled = table.ledger.settle(lease, Settlement::Done, &[], NOW).await;
        settled.unwrap();
        let row = table.row(event.key()).await;
        assert_eq!(number(&row, "ttl"), (NOW + DAY * 400).secs());
    }
    assert_eq!(
        body_expires(&table, &small).await,
        Some((NOW + DAY * 7).secs())
    );
    assert_eq!(tag(&table, &big).await, "7");

    let other = crate::support::github("72d3162e", "{}");
    table.receive(&other).await;
    let lease = table.lease(other.key(), NOW).await;
    let settled = table.ledger.settle(lease, Settlement::Done, &[], NOW).await;
    settled.unwrap();
    let row = table.row(other.key()).await;
    assert_eq!(number(&row, "ttl"), (NOW + KEEP_ROW).secs());
}

#[tokio::test]
async fn the_body_of_what_stays_open_does_not_expire() {
    let table = Table::with_bucket().await;
    let (small, big) = (large("evt_1", 3_000), large("evt_2", 40_000));
    for event in [&small, &big] {
        table.receive(event).await;
    }
    let look = async |event: &Event, now: UnixMillis, room| {
        let seen = UnixMillis(number(&table.row(event.key()).await, "gsk"));
        let swept = table
            .ledger
            .sweep()
            .sweep_one(event.key(), seen, ATTEMPTS, room, now);
        swept.await.unwrap()
    };
    let (young, old) = (NOW + DAY, NOW + DAY * 2);
    look(&small, young, true).await;
    assert_eq!(
        body_expires(&table, &small).await,
        Some((NOW + KEEP_BODY).secs())
    );
    // The sweep updates the bodies even if the queue is so deep that the sweep sends no messages.
    for event in [&small, &big] {
        assert_eq!(
            look(event, old, false).await,
            SweepResult::Throttled(QueueName::Backlog)
        );
    }
    assert_eq!(body_expires(&table, &small).await, None);
    assert_eq!(tag(&table, &big).await, "open");

    // When the event is done, the body is kept for one more day, or for the rest of its retention.
    for (event, now) in [(&small, NOW + KEEP_BODY * 2), (&big, old)] {
        let lease = table.lease(event.key(), now).await;
        let settled = table.ledger.settle(lease, Settlement::Done, &[], now).await;
        settled.unwrap();
    }
    let day_later = NOW + KEEP_BODY * 2 + DAY;
    assert_eq!(body_expires(&table, &small).await, Some(day_later.secs()));
    assert_eq!(tag(&table, &big).await, "30");
}

#[tokio::test]
async fn the_body_of_a_dead_letter_does_not_expire() {
    let table = Table::with_bucket().await;
    let events = [large("evt_1", 3_000), large("evt_2", 40_000)];
    for event in &events {
        table.receive(event).await;
        let lease = table.lease(event.key(), NOW).await;
        let settled = table.ledger.settle(lease, dead(), &[], NOW).await;
        settled.unwrap();
        let row = table.row(event.key()).await;
        assert!(!row.contains_key("ttl"), "a dead letter expires");
    }
    let hold = async |now| table.ledger.hold_dead_letters(now).await.unwrap();
    let hour = Duration::from_secs(3600);
    assert_eq!(hold(NOW + hour).await, Some(2));
    assert_eq!(body_expires(&table, &events[0]).await, None);
    assert_eq!(tag(&table, &events[1]).await, "open");
    // The task runs once an hour, and only on events that became dead letters since its last run.
    assert_eq!(hold(NOW + hour + hour / 2).await, None);
    assert_eq!(hold(NOW + hour * 2).await, Some(0));
    assert_eq!(hold(NOW + hour * 2 + hour / 2).await, None);

    // A dead letter expires again after it is replayed and done.
    let row = |row: &mut shared::inbox::ledger::Item| {
        row.insert("st".into(), AttributeValue::S("received".into()));
        row.insert("run".into(), n(1));
        row.insert("att".into(), n(0));
        row.insert("gpk".into(), AttributeValue::S("W#0".into()));
    };
    table.edit(events[0].key(), row).await;
    let lease = table.lease(events[0].key(), NOW + hour).await;
    let done = table
        .ledger
        .settle(lease, Settlement::Done, &[], NOW + hour);
    done.await.unwrap();
    let expires = (NOW + KEEP_BODY).secs();
    assert_eq!(body_expires(&table, &events[0]).await, Some(expires));
}

#[tokio::test]
async fn a_second_delivery_does_not_let_go_of_a_body() {
    let table = Table::with_bucket().await;
    let events = [large("evt_1", 3_000), large("evt_2", 40_000)];
    for event in &events {
        table.receive(event).await;
        let lease = table.lease(event.key(), NOW).await;
        let settled = table.ledger.settle(lease, dead(), &[], NOW).await;
        settled.unwrap();
    }
    let held = table.ledger.hold_dead_letters(NOW + DAY).await.unwrap();
    assert_eq!(held, Some(2));
    for event in &events {
        let again = table.ledger.receive(event, NOW + DAY * 2).await.unwrap();
        assert_eq!(again, Received::Settled);
    }
    assert_eq!(body_expires(&table, &events[0]).await, None);
    assert_eq!(tag(&table, &events[1]).await, "open");
}

#[tokio::test]
async fn a_zombie_does_not_let_go_of_a_body() {
    let table = Table::fresh().await;
    let event = large("evt_1", 3_000);
    table.receive(&event).await;
    let old = NOW + DAY * 3;
    let zombie = table.lease(event.key(), old).await;
    let later = old + Duration::from_secs(60);
    let next = table.lease(event.key(), later).await;
    let settled = table.ledger.settle(next, dead(), &[], later).await;
    settled.unwrap();
    let held = table.ledger.hold_dead_letters(later + DAY).await.unwrap();
    assert_eq!(held, Some(1));
    let late = table
        .ledger
        .settle(zombie, Settlement::Done, &[], later + DAY);
    assert_eq!(late.await.unwrap(), Settled::Stale);
    assert_eq!(body_expires(&table, &event).await, None);
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_read_keeps_no_other_one_waiting() {
    let table = Table::with_bucket().await;
    let events: Vec<Event> = (0..20).map(|n| large(&format!("evt_{n}"), 3_000)).collect();
    for event in &events {
        table.receive(event).await;
        let lease = table.lease(event.key(), NOW).await;
        let settled = table.ledger.settle(lease, dead(), &[], NOW).await;
        settled.unwrap();
    }
    let damage = |row: &mut shared::inbox::ledger::Item| drop(row.remove("bref"));
    table.edit(events[0].key(), damage).await;
    let held = table.ledger.hold_dead_letters(NOW + DAY).await.unwrap();
    assert_eq!(held, Some(19));
    for event in &events[1..] {
        assert_eq!(body_expires(&table, event).await, None);
    }
}

#[tokio::test]
async fn a_body_that_is_gone_is_in_nobodys_way() {
    let table = Table::with_bucket().await;
    let events = [large("evt_1", 3_000), large("evt_2", 40_000)];
    for event in &events {
        table.receive(event).await;
        let lease = table.lease(event.key(), NOW).await;
        let settled = table.ledger.settle(lease, dead(), &[], NOW).await;
        settled.unwrap();
    }
    let body = format!("B#{}", &Sha::of(events[0].body()).hex()[..16]);
    table.delete(&events[0].key().pk(), &body).await;
    let BodyAt::Bucket(key) = table.body_at(events[1].key()).await else {
        panic!("the body is not in the bucket");
    };
    let (s3, bucket) = table.bucket.clone().unwrap();
    let deleted = s3.delete_object().bucket(bucket).key(key).send().await;
    deleted.unwrap();
    let held = table.ledger.hold_dead_letters(NOW + DAY).await.unwrap();
    assert_eq!(held, Some(2));
    assert!(
        table.body_row(&events[0]).await.is_none(),
        "the body was written again"
    );
}

#[tokio::test]
async fn a_source_without_late_duplicates_keeps_rows_for_35_days() {
    let mut table = Table::fresh().await;
    let file = "schema = 1\n[[source]]\nname = \"stripe-main\"\npreset = \"stripe\"\n\
                action = [{ kind = \"keep\" }]\n[source.sync]\n\
                [[source]]\nname = \"github-org\"\npreset = \"github\"\n\
                action = [{ kind = \"keep\" }]\n[source.sync]\n\
                fields = { owner = \"a\", repo = \"b\", hook = \"1\" }\n";
    table.ledger = table
        .ledger
        .clone()
        .with_sources(&Config::parse(file).unwrap());
    let (stripe, github) = (
        large("evt_1", 100),
        crate::support::github("72d3162e", "{}"),
    );
    for (event, kept) in [(&stripe, KEEP_ROW_SHORT), (&github, KEEP_ROW)] {
        table.receive(event).await;
        let lease = table.lease(event.key(), NOW).await;
        let settled = table.ledger.settle(lease, Settlement::Done, &[], NOW).await;
        settled.unwrap();
        let row = table.row(event.key()).await;
        assert_eq!(number(&row, "ttl"), (NOW + kept).secs(), "{}", event.key());
    }
    assert_eq!(KEEP_ROW_SHORT, DAY * 35);
}
