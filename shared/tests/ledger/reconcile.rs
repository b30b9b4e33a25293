//! Tests that only one run at a time makes a report, and that a report is kept for a limited time.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::monitoring::reconcile::ReconcileLease;
use shared::monitoring::reconcile::{Repair, Report};

use crate::support::{NOW, Table, after, n, s};

const RUN: Duration = Duration::from_secs(60);

impl Table {
    async fn turn(&self, owner: &str, now: UnixMillis) -> Option<ReconcileLease> {
        let lease = self.ledger.provider_reports().reconcile_lease(
            "stripe-main",
            "subscriptions",
            owner,
            now,
            RUN,
        );
        lease.await.unwrap()
    }

    async fn reports(&self, limit: i32, now: UnixMillis) -> Vec<UnixMillis> {
        let reports =
            self.ledger
                .provider_reports()
                .reports("stripe-main", "subscriptions", limit, now);
        let started = |report: &Report| report.started;
        reports.await.unwrap().iter().map(started).collect()
    }
}

fn repair() -> Repair {
    Repair {
        at: after(5),
        by: "anna".to_owned(),
        why: "because".to_owned(),
        events: 3,
        complete: true,
    }
}

#[tokio::test]
async fn one_run_has_the_turn_until_it_ends_or_its_time_is_over() {
    let table = Table::fresh().await;
    let first = table.turn("one", NOW).await.unwrap();
    assert!(table.turn("two", after(59_000)).await.is_none());
    let other =
        table
            .ledger
            .provider_reports()
            .reconcile_lease("stripe-main", "invoices", "two", NOW, RUN);
    assert!(
        other.await.unwrap().is_some(),
        "each comparison has its own lease"
    );
    // The run was killed. A later run takes the lease, and the writes of the first run change
    // nothing.
    let late = after(120_000);
    let second = table.turn("one", late).await.unwrap();
    table
        .ledger
        .provider_reports()
        .reconcile_release(first)
        .await
        .unwrap();
    assert!(table.turn("three", late).await.is_none());
    table
        .ledger
        .provider_reports()
        .reconcile_release(second)
        .await
        .unwrap();
    assert!(table.turn("three", late).await.is_some());
}

#[tokio::test]
async fn a_turn_is_given_back_by_its_owner_and_epoch_alone() {
    let table = Table::fresh().await;
    for (name, other) in [("own", s("two")), ("epoch", n(9))] {
        let turn = table.turn("one", NOW).await.unwrap();
        let place = ("SYNC#stripe-main", "TURN#subscriptions");
        let mut row = table.item(place.0, place.1).await.unwrap();
        row.insert(name.into(), other);
        table.put(row.clone()).await;
        table
            .ledger
            .provider_reports()
            .reconcile_release(turn)
            .await
            .unwrap();
        let left = table.item(place.0, place.1).await;
        assert_eq!(left, Some(row), "under another {name}");
        table.delete(place.0, place.1).await;
    }
}

#[tokio::test]
async fn a_turn_is_over_five_seconds_after_its_lease() {
    let table = Table::fresh().await;
    table.turn("one", NOW).await.unwrap();
    for ms in [0, 60_000, 65_000] {
        assert!(table.turn("two", after(ms)).await.is_none(), "{ms}");
    }
    assert!(table.turn("two", after(65_001)).await.is_some());
}

#[tokio::test]
async fn reports_are_read_newest_first_and_end_with_their_time() {
    let table = Table::fresh().await;
    for (name, at) in [
        ("subscriptions", 1),
        ("subscriptions", 2),
        ("subscriptions-old", 3),
    ] {
        let report = Report::new("stripe-main", name, after(at));
        table
            .ledger
            .provider_reports()
            .keep_report(&report)
            .await
            .unwrap();
    }
    assert_eq!(table.reports(9, after(9)).await, [after(2), after(1)]);
    assert_eq!(table.reports(1, after(9)).await, [after(2)]);
    let month = Duration::from_secs(31 * 24 * 3600);
    assert!(table.reports(9, NOW + month).await.is_empty());
}

#[tokio::test]
async fn a_repair_stands_in_its_report_and_makes_none() {
    let table = Table::fresh().await;
    let report = Report::new("stripe-main", "subscriptions", after(1));
    assert!(
        !table
            .ledger
            .provider_reports()
            .note_repair(&report, &repair())
            .await
            .unwrap()
    );
    assert!(table.reports(9, after(9)).await.is_empty());
    table
        .ledger
        .provider_reports()
        .keep_report(&report)
        .await
        .unwrap();
    assert!(
        table
            .ledger
            .provider_reports()
            .note_repair(&report, &repair())
            .await
            .unwrap()
    );
    let kept = table
        .ledger
        .provider_reports()
        .reports("stripe-main", "subscriptions", 1, after(9));
    assert_eq!(kept.await.unwrap()[0].repair, Some(repair()));
}

#[tokio::test]
async fn a_sync_is_sent_back_and_never_forward_nor_under_a_run() {
    let table = Table::fresh().await;
    let rewind = async |before, now| {
        let rewind = table
            .ledger
            .provider_reports()
            .sync_rewind("stripe-main", before, now);
        rewind.await.unwrap()
    };
    let sync = async |owner: &str, now| {
        let lease = table
            .ledger
            .sync()
            .sync_lease("stripe-main", owner, now, RUN);
        lease.await.unwrap().unwrap()
    };
    assert!(!rewind(after(1), after(2)).await, "the sync has never run");
    let lease = sync("one", after(5_000)).await;
    table
        .ledger
        .sync()
        .sync_advance(lease, after(5_000), after(6_000))
        .await
        .unwrap();
    assert!(
        !rewind(after(7_000), after(8_000)).await,
        "the new cursor is later"
    );
    assert!(rewind(after(2_000), after(8_000)).await);
    let lease = sync("two", after(9_000)).await;
    assert_eq!(lease.cursor.at, Some(after(2_000)));
    assert!(
        !rewind(after(1_000), after(10_000)).await,
        "a run holds the lease"
    );
    // If the run was killed and its lease has expired, the rewind succeeds.
    assert!(rewind(after(1_000), after(90_000)).await);
}
