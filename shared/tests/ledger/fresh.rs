//! Tests that a new event is not in the `work` index until the sweep finds the event still open.

use std::time::Duration;

use shared::base::calendar::{self, Hour};
use shared::base::clock::UnixMillis;
use shared::base::timing::FIRST_LOOK;
use shared::inbox::ledger::transition::{WORK_SHARDS, work_partition};
use shared::inbox::ledger::{
    Checksum, FoundBy, HourPart, Item, Received, Settlement, State, SweepCheckpoint, SweepResult,
};
use shared::webhook::event::EventKey;

use crate::support::{ATTEMPTS, NOW, Table, after, dead, event, ms, number, retry_at, s, text};

impl Table {
    /// Stores an event as the catcher does.
    async fn came(&self, id: &str) -> EventKey {
        let event = event(id);
        let placed = self.ledger.store_body(&event).await.unwrap();
        let received = self
            .ledger
            .receive_stored(&event, &placed, FoundBy::TimeIndex, NOW);
        assert_eq!(received.await.unwrap(), Received::New);
        event.key().clone()
    }

    async fn unwatched(&self, keys: &[EventKey]) -> Vec<EventKey> {
        let (open, _) = self.ledger.sweep().unindexed_keys(keys).await.unwrap();
        open.into_iter().map(|(key, _)| key).collect()
    }

    async fn in_the_last_hour(&self) -> Vec<EventKey> {
        let mut found = Vec::new();
        for (from, to) in calendar::cut(NOW - Duration::from_secs(3600), NOW) {
            for part in HourPart::of("stripe-main", from, to) {
                let page = self
                    .ledger
                    .sweep()
                    .events_of_part(&part, None)
                    .await
                    .unwrap();
                assert!(page.next.is_none());
                found.extend(page.found.into_iter().map(|event| event.key));
            }
        }
        found.sort();
        found
    }

    async fn fresh_ones(&self) -> Vec<EventKey> {
        let fresh = self
            .ledger
            .sweep()
            .recent_events(&["stripe-main"], NOW, 1000)
            .await
            .unwrap();
        assert!(!fresh.or_more);
        fresh.open
    }
}

fn is_indexed(row: &Item) -> bool {
    assert_eq!(row.contains_key("gpk"), row.contains_key("gsk"));
    row.contains_key("gpk")
}

#[tokio::test]
async fn it_is_in_the_index_of_time_alone_from_its_receipt_to_its_end() {
    let table = Table::fresh().await;
    let key = table.came("evt_1").await;
    assert!(!is_indexed(&table.row(&key).await));
    assert_eq!(number(&table.row(&key).await, "enq"), NOW.0);
    let lease = table.lease(&key, NOW).await;
    assert!(!is_indexed(&table.row(&key).await));
    assert_eq!(table.fresh_ones().await, std::slice::from_ref(&key));
    table.settle(lease, Settlement::Done).await;
    assert!(!is_indexed(&table.row(&key).await));
    assert_eq!(table.fresh_ones().await, []);
    assert_eq!(table.in_the_last_hour().await, [key]);
}

#[tokio::test]
async fn what_does_not_end_at_once_gets_its_place() {
    let table = Table::fresh().await;
    let put_off = Settlement::Deferred {
        why: "full".into(),
        due: after(60_000),
        resend_after: None,
        in_line: false,
        first: None,
    };
    for (id, settlement) in [
        ("evt_1", retry_at(after(60_000))),
        ("evt_2", put_off),
        ("evt_3", dead()),
    ] {
        let key = table.came(id).await;
        let lease = table.lease(&key, NOW).await;
        table.settle(lease, settlement).await;
        let row = table.row(&key).await;
        assert!(is_indexed(&row), "{id}");
        assert_eq!(text(&row, "gpk")[2..], work_partition(&key.pk())[2..]);
        assert_eq!(table.unwatched(&[key]).await, [], "{id}");
    }
}

#[tokio::test]
async fn what_is_open_is_found_by_its_time_and_looked_at() {
    let table = Table::fresh().await;
    let mut keys = Vec::new();
    for n in 0..12 {
        keys.push(table.came(&format!("evt_{n}")).await);
    }
    keys.sort();
    assert_eq!(table.in_the_last_hour().await, keys);
    let (done, claimed) = (keys[3].clone(), keys[7].clone());
    let lease = table.lease(&done, NOW).await;
    table.settle(lease, Settlement::Done).await;
    table.lease(&claimed, NOW).await;

    let mut open = table.unwatched(&keys).await;
    open.sort();
    let expected = keys.iter().filter(|key| **key != done);
    assert_eq!(open, expected.cloned().collect::<Vec<_>>());

    let now = NOW + FIRST_LOOK;
    assert!(!table.ledger.sweep().index_event(&done, now).await.unwrap());
    for key in &open {
        assert!(
            table.ledger.sweep().index_event(key, now).await.unwrap(),
            "{key}"
        );
        assert!(
            !table.ledger.sweep().index_event(key, now).await.unwrap(),
            "{key} again"
        );
        let row = table.row(key).await;
        assert_eq!(text(&row, "gpk"), work_partition(&key.pk()));
        assert_eq!(number(&row, "gsk"), now.0);
        let swept = table
            .ledger
            .sweep()
            .sweep_one(key, now, ATTEMPTS, true, now)
            .await;
        assert!(matches!(swept.unwrap(), SweepResult::Send(..)), "{key}");
    }
    assert_eq!(table.fresh_ones().await, []);
    let mut found = 0;
    for shard in 0..WORK_SHARDS {
        let waits = table.ledger.sweep().due(shard, UnixMillis(i64::MAX), 100);
        found += waits.await.unwrap().len();
    }
    assert_eq!(found, open.len());
}

#[tokio::test]
async fn what_is_gone_or_ended_gets_no_place() {
    let table = Table::fresh().await;
    let unknown = EventKey::new("stripe-main", "evt_none");
    assert_eq!(table.unwatched(std::slice::from_ref(&unknown)).await, []);
    assert!(
        !table
            .ledger
            .sweep()
            .index_event(&unknown, NOW)
            .await
            .unwrap()
    );
    assert!(table.item(&unknown.pk(), "M").await.is_none());
    for state in [State::Done, State::DeadLetter, State::Quarantined] {
        let key = table.came(&format!("evt_{state}")).await;
        table
            .edit(&key, |row| {
                row.insert("st".into(), s(state.as_str()));
            })
            .await;
        assert_eq!(table.unwatched(std::slice::from_ref(&key)).await, []);
        assert!(
            !table.ledger.sweep().index_event(&key, NOW).await.unwrap(),
            "{state}"
        );
    }
}

#[tokio::test]
async fn how_far_the_sweep_has_gone_is_kept() {
    let table = Table::fresh().await;
    assert_eq!(table.ledger.sweep().sweep_checkpoint().await.unwrap(), None);
    let mut marks = SweepCheckpoint::new(NOW);
    marks.at = NOW;
    marks.add_seen(Hour::of(NOW), Checksum::of(&[EventKey::new("s", "evt_1")]));
    table
        .ledger
        .sweep()
        .store_sweep_checkpoint(&marks)
        .await
        .unwrap();
    assert_eq!(
        table.ledger.sweep().sweep_checkpoint().await.unwrap(),
        Some(marks)
    );
}

#[tokio::test]
async fn after_a_rollback_the_sweep_continues_where_it_last_saw_every_partition() {
    let table = Table::fresh().await;
    let sweep = table.ledger.sweep();
    let marks = SweepCheckpoint::new(NOW);
    sweep.store_sweep_checkpoint(&marks).await.unwrap();
    sweep.store_sweep_position(&marks).await.unwrap();
    // A sweep of an older release moves the checkpoint, and does not write the attribute.
    let mut older = table.item("SYS", "FRESH").await.unwrap();
    older.remove("tl").unwrap();
    older.insert("at".into(), ms(NOW));
    older.insert("hour".into(), s(Hour::of(NOW).name()));
    table.put(older).await;
    let found = sweep.sweep_checkpoint().await.unwrap().unwrap();
    assert_eq!((found.at, found.hour), (marks.at, marks.hour));
    assert_eq!(found.by_day_from, None);
}
