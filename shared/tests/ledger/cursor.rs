//! Tests the cursor of a source. Only one run at a time can move the cursor, and only forward.

use std::time::Duration;

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cursor, ResumePoint, SyncLease};
use shared::webhook::event::EventKey;

use crate::support::{NOW, Table, after, n, number, s, text};

const RUN: Duration = Duration::from_secs(60);

impl Table {
    async fn sync(&self, owner: &str, now: UnixMillis) -> Option<SyncLease> {
        let lease = self
            .ledger
            .sync()
            .sync_lease("stripe-main", owner, now, RUN)
            .await;
        lease.unwrap()
    }

    async fn cursor(&self) -> shared::inbox::ledger::Item {
        self.item("SYNC#stripe-main", "CURSOR").await.unwrap()
    }
}

fn page(token: &str) -> ResumePoint {
    ResumePoint {
        token: token.into(),
        from: after(1),
        started: after(2),
    }
}

#[tokio::test]
async fn the_first_run_has_no_cursor_and_the_next_one_the_start_of_the_first() {
    let table = Table::fresh().await;
    let lease = table.sync("one", NOW).await.unwrap();
    assert_eq!(lease.cursor, Cursor::default());
    assert!(
        table
            .ledger
            .sync()
            .sync_advance(lease, after(3), after(9_000))
            .await
            .unwrap()
    );
    let row = table.cursor().await;
    assert_eq!(
        (number(&row, "cur"), number(&row, "last_ok")),
        (after(3).0, after(9_000).0)
    );
    assert!(!row.contains_key("own") && !row.contains_key("lu"));
    // The lease is free immediately.
    let lease = table.sync("two", after(9_001)).await.unwrap();
    assert_eq!(
        lease.cursor,
        Cursor {
            at: Some(after(3)),
            ..Cursor::default()
        }
    );
    assert_eq!(number(&table.cursor().await, "epoch"), 2);
}

#[tokio::test]
async fn a_held_cursor_is_refused_until_five_seconds_after_its_lease() {
    let table = Table::fresh().await;
    let first = table.sync("one", NOW).await.unwrap();
    let before = table.cursor().await;
    for ms in [0, 60_000, 65_000] {
        assert!(table.sync("two", after(ms)).await.is_none(), "{ms}");
    }
    assert_eq!(table.cursor().await, before);
    table.sync("two", after(65_001)).await.unwrap();
    // The first run has lost the lease, so all of its writes fail.
    let taken = table.cursor().await;
    assert!(
        !table
            .ledger
            .sync()
            .sync_page(&first, &page("p"), after(999_000))
            .await
            .unwrap()
    );
    assert!(
        !table
            .ledger
            .sync()
            .sync_advance(first, after(5), after(6))
            .await
            .unwrap()
    );
    assert_eq!(table.cursor().await, taken);
}

#[tokio::test]
async fn a_run_is_fenced_by_its_owner_and_by_its_epoch() {
    let table = Table::fresh().await;
    for (name, other) in [("own", s("two")), ("epoch", n(9))] {
        for ending in ["page", "advance", "advance to", "release", "restart"] {
            let lease = table.sync("one", NOW).await.unwrap();
            let mut row = table.cursor().await;
            // Adds the attributes that a restart removes.
            row.extend([("page".to_owned(), s("p0")), ("mk".to_owned(), s("m0"))]);
            row.insert(name.into(), other.clone());
            table.put(row.clone()).await;
            let ledger = &table.ledger;
            let moved = match ending {
                "page" => ledger.sync().sync_page(&lease, &page("p"), after(1)).await,
                "advance" => ledger.sync().sync_advance(lease, after(1), NOW).await,
                "advance to" => {
                    ledger
                        .sync()
                        .sync_advance_to(lease, after(1), "m", NOW)
                        .await
                }
                "restart" => ledger.sync().sync_restart(lease).await.map(|()| false),
                _ => ledger.sync().sync_release(lease).await.map(|()| false),
            };
            assert!(!moved.unwrap(), "{ending} under another {name}");
            assert_eq!(table.cursor().await, row, "{ending} under another {name}");
            table.delete("SYNC#stripe-main", "CURSOR").await;
        }
    }
}

#[tokio::test]
async fn a_run_that_stops_goes_on_where_it_was() {
    let table = Table::fresh().await;
    let lease = table.sync("one", NOW).await.unwrap();
    assert!(
        table
            .ledger
            .sync()
            .sync_page(&lease, &page("p1"), after(70_000))
            .await
            .unwrap()
    );
    assert!(
        table
            .ledger
            .sync()
            .sync_page(&lease, &page("p2"), after(80_000))
            .await
            .unwrap()
    );
    // The write of the page also renewed the lease.
    assert_eq!(number(&table.cursor().await, "lu"), after(80_000).0);
    assert!(table.sync("two", after(85_000)).await.is_none());
    table.ledger.sync().sync_release(lease).await.unwrap();

    let lease = table.sync("two", after(90_000)).await.unwrap();
    let paused = Cursor {
        at: None,
        page: Some(page("p2")),
        mark: None,
    };
    assert_eq!(lease.cursor, paused);
    // The end of the run removes the page.
    assert!(
        table
            .ledger
            .sync()
            .sync_advance(lease, after(2), after(99_000))
            .await
            .unwrap()
    );
    let lease = table.sync("three", after(100_000)).await.unwrap();
    assert_eq!(
        lease.cursor,
        Cursor {
            at: Some(after(2)),
            ..Cursor::default()
        }
    );
}

#[tokio::test]
async fn a_run_that_died_goes_on_where_it_was() {
    let table = Table::fresh().await;
    let lease = table.sync("one", NOW).await.unwrap();
    table
        .ledger
        .sync()
        .sync_page(&lease, &page("p1"), after(60_000))
        .await
        .unwrap();
    drop(lease);
    let lease = table.sync("two", after(65_001)).await.unwrap();
    assert_eq!(lease.cursor.page, Some(page("p1")));
}

#[tokio::test]
async fn the_cursor_never_goes_back() {
    let table = Table::fresh().await;
    let lease = table.sync("one", NOW).await.unwrap();
    assert!(
        table
            .ledger
            .sync()
            .sync_advance(lease, after(5_000), after(6_000))
            .await
            .unwrap()
    );
    let lease = table.sync("two", after(7_000)).await.unwrap();
    let before = table.cursor().await;
    assert!(
        !table
            .ledger
            .sync()
            .sync_advance(lease, after(4_999), after(8_000))
            .await
            .unwrap()
    );
    assert_eq!(table.cursor().await, before);
    let lease = table.sync("three", after(200_000)).await.unwrap();
    assert!(
        table
            .ledger
            .sync()
            .sync_advance(lease, after(5_000), after(8_000))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn a_place_never_comes_with_an_older_cursor() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    let lease = table.sync("one", NOW).await.unwrap();
    let first = ledger
        .sync()
        .sync_advance_to(lease, after(5_000), "m1", after(6_000));
    assert!(first.await.unwrap());
    let lease = table.sync("two", after(7_000)).await.unwrap();
    let before = table.cursor().await;
    let older = ledger
        .sync()
        .sync_advance_to(lease, after(4_999), "m2", after(8_000));
    assert!(!older.await.unwrap());
    assert_eq!(table.cursor().await, before);
    // The cursor can move to the same time, because that time is not older.
    let lease = table.sync("three", after(200_000)).await.unwrap();
    let again = ledger
        .sync()
        .sync_advance_to(lease, after(5_000), "m3", after(201_000));
    assert!(again.await.unwrap());
    assert_eq!(text(&table.cursor().await, "mk"), "m3");
}

#[tokio::test]
async fn who_only_looks_sees_the_cursor_and_takes_nothing() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    let seen = ledger.sync().sync_cursor("stripe-main").await.unwrap();
    assert_eq!(seen, Cursor::default());
    assert!(table.all().await.is_empty());
    let lease = table.sync("one", NOW).await.unwrap();
    assert!(
        ledger
            .sync()
            .sync_page(&lease, &page("p1"), after(9))
            .await
            .unwrap()
    );
    let before = table.all().await;
    let seen = ledger.sync().sync_cursor("stripe-main").await.unwrap();
    assert_eq!(seen.page, Some(page("p1")));
    assert_eq!(table.all().await, before);
}

#[tokio::test]
async fn a_redelivery_is_asked_for_so_often_and_counted_for_each_event() {
    let table = Table::fresh().await;
    let key = EventKey::new("github-main", "guid-1");
    let may = async |key: &EventKey| {
        table
            .ledger
            .sync()
            .count_redelivery_request(key, 3, NOW)
            .await
            .unwrap()
    };
    for _ in 0..3 {
        assert!(may(&key).await);
    }
    let item = table.item("SYNC#github-main", "ASKED#guid-1").await;
    for _ in 0..2 {
        assert!(!may(&key).await);
    }
    // A refused request does not count. Each other event has its own count.
    let again = table.item("SYNC#github-main", "ASKED#guid-1").await;
    assert_eq!(again, item);
    assert_eq!(number(&item.unwrap(), "n"), 3);
    assert!(may(&EventKey::new("github-main", "guid-2")).await);
    assert!(may(&EventKey::new("github-other", "guid-1")).await);
}

#[tokio::test]
async fn a_page_of_a_run_older_than_the_cursor_is_not_gone_on_from() {
    let table = Table::fresh().await;
    let lease = table.sync("one", NOW).await.unwrap();
    let ledger = &table.ledger;
    assert!(
        ledger
            .sync()
            .sync_advance(lease, after(5_000), after(6_000))
            .await
            .unwrap()
    );
    // This run read its clock before the other run ended, so it cannot move the cursor.
    let lease = table.sync("two", after(7_000)).await.unwrap();
    let old = ResumePoint {
        started: after(4_999),
        ..page("p1")
    };
    assert!(
        ledger
            .sync()
            .sync_page(&lease, &old, after(80_000))
            .await
            .unwrap()
    );
    ledger.sync().sync_release(lease).await.unwrap();
    let lease = table.sync("three", after(90_000)).await.unwrap();
    assert_eq!(
        (lease.cursor.at, lease.cursor.page.as_ref()),
        (Some(after(5_000)), None)
    );
    assert!(
        ledger
            .sync()
            .sync_advance(lease, after(90_000), after(91_000))
            .await
            .unwrap()
    );
    assert!(!table.cursor().await.contains_key("page"));
}

#[tokio::test]
async fn a_run_that_cannot_go_on_is_begun_anew() {
    let table = Table::fresh().await;
    let lease = table.sync("one", NOW).await.unwrap();
    assert!(
        table
            .ledger
            .sync()
            .sync_page(&lease, &page("p1"), after(80_000))
            .await
            .unwrap()
    );
    table.ledger.sync().sync_restart(lease).await.unwrap();
    let lease = table.sync("two", after(1)).await.unwrap();
    assert_eq!((lease.cursor.at, lease.cursor.page.as_ref()), (None, None));
}

#[tokio::test]
async fn sources_have_cursors_of_their_own() {
    let table = Table::fresh().await;
    table.sync("one", NOW).await.unwrap();
    let other = table
        .ledger
        .sync()
        .sync_lease("github-main", "one", NOW, RUN)
        .await
        .unwrap();
    assert!(other.is_some());
}

#[tokio::test]
async fn of_sixteen_runs_one_gets_the_cursor() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let now = after(round * 1_000_000);
        let owners: Vec<String> = (0..16).map(|run| format!("{round}/{run}")).collect();
        let leases = join_all(owners.iter().map(|owner| table.sync(owner, now))).await;
        assert_eq!(leases.iter().flatten().count(), 1, "round {round}");
        let winner = leases.iter().position(Option::is_some).unwrap();
        let row = table.cursor().await;
        assert_eq!(text(&row, "own"), owners[winner]);
        assert_eq!(number(&row, "epoch"), i64::try_from(round).unwrap() + 1);
    }
}

#[tokio::test]
async fn attributes_of_newer_code_are_kept() {
    let table = Table::fresh().await;
    table
        .put(
            [
                ("pk".to_owned(), s("SYNC#stripe-main")),
                ("sk".to_owned(), s("CURSOR")),
                ("zz".to_owned(), s("of a later version")),
            ]
            .into(),
        )
        .await;
    let lease = table.sync("one", NOW).await.unwrap();
    table
        .ledger
        .sync()
        .sync_page(&lease, &page("p"), after(60_000))
        .await
        .unwrap();
    table
        .ledger
        .sync()
        .sync_advance(lease, after(1), after(2))
        .await
        .unwrap();
    assert_eq!(text(&table.cursor().await, "zz"), "of a later version");
}

#[tokio::test]
async fn a_place_in_a_list_is_kept_by_every_run_until_the_provider_refuses_it() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    let lease = table.sync("one", NOW).await.unwrap();
    let ended = ledger
        .sync()
        .sync_advance_to(lease, after(1), "m1", after(2_000));
    assert!(ended.await.unwrap());

    // A run that stops early stores its page and the position.
    let lease = table.sync("two", after(3_000)).await.unwrap();
    assert_eq!(lease.cursor.mark.as_deref(), Some("m1"));
    let paused = ResumePoint {
        started: after(3_000),
        ..page("p2")
    };
    assert!(
        ledger
            .sync()
            .sync_page(&lease, &paused, after(9_000))
            .await
            .unwrap()
    );
    ledger.sync().sync_release(lease).await.unwrap();
    let lease = table.sync("three", after(10_000)).await.unwrap();
    assert_eq!(lease.cursor.mark.as_deref(), Some("m1"));
    assert_eq!(lease.cursor.page, Some(paused));
    let ended = ledger
        .sync()
        .sync_advance_to(lease, after(3_000), "m2", after(11_000));
    assert!(ended.await.unwrap());

    let lease = table.sync("four", after(20_000)).await.unwrap();
    assert_eq!(lease.cursor.mark.as_deref(), Some("m2"));
    ledger.sync().sync_restart(lease).await.unwrap();
    let lease = table.sync("five", after(30_000)).await.unwrap();
    let lost = Cursor {
        at: Some(after(3_000)),
        ..Cursor::default()
    };
    assert_eq!(lease.cursor, lost);
}
