//! Tests the stored arrival gaps of a source, the state of its sync, and the time ranges that no
//! list contains any more.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Lost, ResumePoint, SyncState};
use shared::monitoring::silence::{ArrivalGaps, REMEMBERED};

use crate::support::{NOW, Table, after, n, s};

const SOURCE: &str = "stripe-main";

/// Returns the arrival gaps after one more webhook.
fn after_one(rhythm: &ArrivalGaps, at: UnixMillis) -> ArrivalGaps {
    let mut next = rhythm.clone();
    next.heard(&[at], false, at);
    next
}

#[tokio::test]
async fn a_rhythm_is_read_back_and_what_newer_code_wrote_stays() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    assert_eq!(
        ledger.statistics().rhythm(SOURCE).await.unwrap(),
        ArrivalGaps::default()
    );
    let mut rhythm = after_one(&ArrivalGaps::default(), NOW);
    assert!(
        ledger
            .statistics()
            .keep_rhythm(SOURCE, None, &rhythm)
            .await
            .unwrap()
    );
    let mut item = table.item("SYNC#stripe-main", "RHYTHM").await.unwrap();
    item.insert("later_code".into(), s("keeps this"));
    table.put(item).await;
    for minute in 1..300 {
        let next = after_one(&rhythm, after(minute * 60_000));
        assert!(
            ledger
                .statistics()
                .keep_rhythm(SOURCE, rhythm.looked, &next)
                .await
                .unwrap()
        );
        rhythm = next;
    }
    assert_eq!(ledger.statistics().rhythm(SOURCE).await.unwrap(), rhythm);
    assert_eq!(rhythm.gaps, vec![60; REMEMBERED]);
    let item = table.item("SYNC#stripe-main", "RHYTHM").await.unwrap();
    assert_eq!(item.get("later_code"), Some(&s("keeps this")));
}

#[tokio::test]
async fn of_two_watches_that_heard_the_same_one_learns() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    let mut known = ArrivalGaps::default();
    for ms in [1_000, 2_000, 3_000] {
        let looked = known.looked;
        let (one, two) = (
            after_one(&known, after(ms)),
            after_one(&known, after(ms + 1)),
        );
        assert!(
            ledger
                .statistics()
                .keep_rhythm(SOURCE, looked, &one)
                .await
                .unwrap()
        );
        assert!(
            !ledger
                .statistics()
                .keep_rhythm(SOURCE, looked, &two)
                .await
                .unwrap()
        );
        known = ledger.statistics().rhythm(SOURCE).await.unwrap();
        assert_eq!(known, one);
    }
}

#[tokio::test]
async fn the_state_of_a_sync_is_what_its_runs_have_left() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    assert_eq!(ledger.sync().sync_state(SOURCE).await.unwrap(), None);
    let minute = Duration::from_secs(60);
    let lease = ledger
        .sync()
        .sync_lease(SOURCE, "one", NOW, minute)
        .await
        .unwrap();
    let lease = lease.unwrap();
    let page = ResumePoint {
        token: "p1".into(),
        from: after(1),
        started: after(2),
    };
    ledger
        .sync()
        .sync_page(&lease, &page, after(60_000))
        .await
        .unwrap();
    let state = ledger.sync().sync_state(SOURCE).await.unwrap().unwrap();
    let expected = SyncState {
        lease: Some(("one".into(), after(60_000))),
        paused: Some((after(2), after(1))),
        runs: 1,
        ..SyncState::default()
    };
    assert_eq!(state, expected);
    ledger
        .sync()
        .sync_advance(lease, after(2), after(9))
        .await
        .unwrap();
    let state = ledger.sync().sync_state(SOURCE).await.unwrap().unwrap();
    let expected = SyncState {
        cursor: Some(after(2)),
        ended: Some(after(9)),
        runs: 1,
        ..SyncState::default()
    };
    assert_eq!(state, expected);
}

#[tokio::test]
async fn a_span_out_of_reach_that_grows_is_one_span() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    let lost = |from: u64, to: u64| Lost {
        from: after(from),
        to: after(to),
        noted: after(to),
    };
    for span in [lost(0, 10), lost(0, 20), lost(5_000, 6_000)] {
        ledger.sync().note_lost(SOURCE, span).await.unwrap();
    }
    ledger
        .sync()
        .note_lost("another", lost(0, 1))
        .await
        .unwrap();
    let listed = ledger.sync().lost(SOURCE).await.unwrap();
    assert_eq!(listed, [lost(0, 20), lost(5_000, 6_000)]);
    let item = table
        .item("SYNC#stripe-main", &format!("LOST#{:013}", NOW.0))
        .await
        .unwrap();
    let expires = (after(20) + Duration::from_secs(180 * 86_400)).secs();
    assert_eq!(item.get("ttl"), Some(&n(expires)));
}
