//! Tests the end of an attempt. Only the worker with the newest claim may record it.

use std::time::Duration;

use shared::base::timing::{FIRST_LOOK, KEEP_ROW, LEASE};
use shared::inbox::ledger::{Claim, EffectRow, EffectState, Row, Settled, Settlement, State};
use shared::webhook::event::EventKey;

use crate::matrix::assert_sound;
use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, lease_over, leased, n, number, retry_at, s, text,
};

#[tokio::test]
async fn a_done_event_leaves_the_index_and_is_kept_for_ninety_days() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let owner = lease.row.owner.clone();
    let before = table.row(&key).await;
    assert_eq!(
        table.settle(lease, Settlement::Done).await,
        Settled::Recorded(Settlement::Done)
    );
    let stored = table.row(&key).await;
    assert_sound(&before, &stored);
    assert_eq!(number(&stored, "ttl"), (after(1_000) + KEEP_ROW).secs());
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.state, row.done_at), (State::Done, Some(after(1_000))));
    assert_eq!((row.done_by.clone(), row.due), (owner.clone(), None));
    let [moment] = row.history.as_slice() else {
        panic!("{:?}", row.history);
    };
    assert_eq!(
        (moment.at, moment.what.as_str(), moment.attempt),
        (after(1_000), "done", 1)
    );
    assert_eq!(
        (moment.lease_until, Some(moment.owner.clone())),
        (Some(NOW + LEASE), owner)
    );
}

#[tokio::test]
async fn a_failed_attempt_waits_in_the_index_for_its_time() {
    let table = Table::fresh().await;
    let due = after(600_000);
    for (ring, look) in [
        // The worker sends the message itself. The sweep checks the event two minutes later.
        (Some(Duration::from_secs(600)), due + FIRST_LOOK),
        (None, due - Duration::from_secs(60)),
    ] {
        let key = table.receive(&event(&format!("evt_{}", look.0))).await;
        table
            .edit(&key, |row| drop(row.insert("enq_n".into(), n(5))))
            .await;
        let lease = table.lease(&key, NOW).await;
        let before = table.row(&key).await;
        let error = "502".into();
        let settlement = Settlement::Retry {
            error,
            due,
            resend_after: ring,
        };
        let settled = table.settle(lease, settlement.clone()).await;
        assert_eq!(settled, Settled::Recorded(settlement));
        assert_sound(&before, &table.row(&key).await);
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!((row.state, row.due), (State::Failed, Some(due)));
        assert_eq!((row.next_look, row.sends), (Some(look), 0));
        assert_eq!(row.error.as_deref(), Some("502"));
        let moment = row.history.last().unwrap();
        assert_eq!(
            (moment.what.as_str(), moment.note.as_str()),
            ("failed", "502")
        );
        assert_eq!((row.epoch, row.attempts, row.crashes), (1, 1, 0));
    }
}

#[tokio::test]
async fn what_is_put_off_gets_its_attempt_back() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, retry_at(NOW)).await;
    for (round, ring) in [(1, Some(Duration::from_secs(60))), (2, None)] {
        let lease = table.lease(&key, after(round * 120_000)).await;
        assert_eq!(lease.row.attempts, 2);
        let before = table.row(&key).await;
        let due = after(round * 120_000 + 60_000);
        let settlement = Settlement::Deferred {
            why: "it is full".into(),
            due,
            resend_after: ring,
            in_line: false,
            first: None,
        };
        let settled = table.settle(lease, settlement.clone()).await;
        assert_eq!(settled, Settled::Recorded(settlement));
        assert_sound(&before, &table.row(&key).await);
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!((row.state, row.due), (State::Failed, Some(due)));
        assert_eq!((row.attempts, row.crashes), (1, 0));
        assert_eq!(u64::from(row.deferrals), round);
        assert_eq!(row.error.as_deref(), Some("it is full"));
        // The history contains only attempts, so that many deferrals do not remove the attempts
        // from it.
        assert_eq!(row.history.len(), 1);
    }
}

/// Claims the event for a worker that crashes, and then for a worker that defers the event. Returns
/// `None` if the event cannot be claimed.
async fn dies_and_is_put_off(
    table: &Table,
    key: &EventKey,
    in_line: bool,
    round: u32,
) -> Option<Row> {
    let now = after(u64::from(round) * 120_000);
    let Claim::Leased(_) = table.claim(key, now).await else {
        return None;
    };
    let now = now + LEASE + Duration::from_millis(5_001);
    let Claim::Leased(lease) = table.claim(key, now).await else {
        return None;
    };
    assert_eq!(lease.row.crashes, 1);
    let put_off = Settlement::Deferred {
        why: "it waits".into(),
        due: now,
        resend_after: None,
        in_line,
        first: None,
    };
    table.settle(*lease, put_off).await;
    table.ledger.event(key).await.unwrap()
}

/// Workers claim a waiting event many times. During each claim, another event may crash the worker.
#[tokio::test]
async fn crashes_count_in_a_row() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let mut crashes = 0;
    while let Some(row) = dies_and_is_put_off(&table, &key, false, crashes).await {
        crashes += 1;
        assert_eq!((row.attempts, row.crashes, row.died), (crashes, 0, crashes));
    }
    // The attempt of a crashed worker counts, so the attempts end with the next crash.
    assert_eq!(crashes + 1, ATTEMPTS);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.reason.as_deref(), Some("attempts_exhausted"));
}

/// The worker runs no action of an event that waits for its turn, so the event cannot be the cause
/// of the crash.
#[tokio::test]
async fn who_stands_in_line_loses_no_attempt_to_a_crash() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, retry_at(NOW)).await;
    for round in 1..=2 * ATTEMPTS {
        let row = dies_and_is_put_off(&table, &key, true, round)
            .await
            .unwrap();
        // The attempt in which the event ran an action still counts.
        assert_eq!((row.attempts, row.crashes, row.died), (1, 0, round));
    }
}

#[tokio::test]
async fn a_dead_letter_moves_to_its_own_part_of_the_index() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, retry_at(NOW)).await;
    let lease = table.lease(&key, NOW).await;
    let before = table.row(&key).await;
    assert_eq!(table.settle(lease, dead()).await, Settled::Recorded(dead()));
    let stored = table.row(&key).await;
    assert_sound(&before, &stored);
    assert_eq!(
        text(&stored, "gpk"),
        text(&before, "gpk").replace("W#", "D#")
    );
    assert_eq!(number(&stored, "gsk"), after(1_000).0);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(
        (row.state, row.dead_at),
        (State::DeadLetter, Some(after(1_000)))
    );
    assert_eq!(row.reason.as_deref(), Some("permanent"));
    assert_eq!((row.error.as_deref(), row.due), (Some("404"), None));
    assert_eq!(row.history.last().unwrap().note, "permanent");
}

#[tokio::test]
async fn a_worker_cannot_write_after_a_takeover() {
    let table = Table::fresh().await;
    let put_off = Settlement::Deferred {
        why: "it is full".into(),
        due: after(60_000),
        resend_after: None,
        in_line: false,
        first: None,
    };
    let settlements = [Settlement::Done, retry_at(after(60_000)), put_off, dead()];
    // The changes that a later worker makes to the row.
    let successors = [
        None,
        Some(Settlement::Done),
        Some(retry_at(after(60_000))),
        Some(dead()),
    ];
    for (a, late) in settlements.iter().enumerate() {
        for (b, successor) in successors.iter().enumerate() {
            let key = table.receive(&event(&format!("evt_{a}_{b}"))).await;
            let zombie = table.lease(&key, NOW).await;
            let next = table.lease(&key, lease_over()).await;
            if let Some(settlement) = successor {
                table.settle(next, settlement.clone()).await;
            }
            let before = table.row(&key).await;
            let effect = effect(EffectState::Done);
            assert!(!table.ledger.intend(&zombie, "http", &effect).await.unwrap());
            let effects = [("http".to_owned(), effect)];
            let settled = table
                .ledger
                .settle(zombie, late.clone(), &effects, after(9));
            assert_eq!(
                settled.await.unwrap(),
                Settled::Stale,
                "{late:?} after {successor:?}"
            );
            assert_eq!(table.row(&key).await, before);
        }
    }
}

#[tokio::test]
async fn a_zombie_cannot_end_the_run_of_a_replay() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let zombie = table.lease(&key, NOW).await;
    // A replay starts a run. The epoch increases, and is never reset.
    let before = table
        .edit(&key, |row| {
            row.insert("st".into(), s("received"));
            row.insert("epoch".into(), n(2));
            row.insert("run".into(), n(1));
            row.insert("att".into(), n(0));
            row.remove("own");
            row.remove("lu");
        })
        .await;
    assert_eq!(table.settle(zombie, Settlement::Done).await, Settled::Stale);
    assert_eq!(table.row(&key).await, before);
    let lease = table.lease(&key, NOW).await;
    assert_eq!(
        (lease.row.epoch, lease.row.run, lease.row.attempts),
        (3, 1, 1)
    );
}

#[tokio::test]
async fn a_lease_that_is_over_still_settles_while_nobody_took_it() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let settled = table
        .ledger
        .settle(lease, Settlement::Done, &[], lease_over());
    assert_eq!(settled.await.unwrap(), Settled::Recorded(Settlement::Done));
}

#[tokio::test]
async fn a_dead_letter_that_the_sweep_recorded_is_not_taken_for_ones_own() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = leased(table.claim_of(&key, NOW, 1).await);
    let look = number(&table.row(&key).await, "gsk");
    let look = shared::base::clock::UnixMillis(look);
    let swept = table
        .ledger
        .sweep()
        .sweep_one(&key, look, 1, true, after(200_000));
    assert_eq!(
        swept.await.unwrap(),
        shared::inbox::ledger::SweepResult::Exhausted
    );
    let before = table.row(&key).await;
    // The stale worker cannot settle, so the ledger stores neither its result nor its effects.
    let effects = [("http".to_owned(), effect(EffectState::Done))];
    let settled = table.ledger.settle(lease, dead(), &effects, after(200_001));
    assert_eq!(settled.await.unwrap(), Settled::Stale);
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn errors_are_cut_and_the_history_stays_short() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    for attempt in 1..=25 {
        let lease = leased(table.claim_of(&key, NOW, 100).await);
        // Each character has two bytes, so that the limit is between two characters or inside a
        // character.
        let error = "x".repeat(attempt % 2) + &"é".repeat(400) + "|end";
        let settlement = Settlement::Retry {
            error,
            due: NOW,
            resend_after: None,
        };
        table.settle(lease, settlement).await;
    }
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    let error = row.error.unwrap();
    assert!(error.len() <= 256 && error.len() > 250, "{}", error.len());
    assert_eq!(row.history.len(), 20);
    let attempts: Vec<u32> = row.history.iter().map(|moment| moment.attempt).collect();
    assert_eq!(attempts, (6..=25).collect::<Vec<_>>());
    assert!(row.history.iter().all(|m| m.note.chars().count() == 80));
}

#[tokio::test]
async fn history_that_only_newer_code_reads_is_kept() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let foreign = s("of a later version");
    let list = aws_sdk_dynamodb::types::AttributeValue::L(vec![foreign.clone()]);
    table
        .edit(&key, |row| drop(row.insert("h".into(), list)))
        .await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, Settlement::Done).await;
    let row = table.row(&key).await;
    let history = row["h"].as_l().unwrap();
    assert_eq!((history.len(), &history[0]), (2, &foreign));
    let read = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(read.history.len(), 1);
}

#[tokio::test]
async fn effects_ride_on_each_settlement() {
    let table = Table::fresh().await;
    for (index, settlement) in [Settlement::Done, retry_at(NOW), dead()]
        .into_iter()
        .enumerate()
    {
        let key = table.receive(&event(&format!("evt_{index}"))).await;
        let lease = table.lease(&key, NOW).await;
        let names = ["http", "open-issue", "name with # and ."];
        let effects = names.map(|name| (name.to_owned(), effect(EffectState::Done)));
        let settled = table
            .ledger
            .settle(lease, settlement.clone(), &effects, after(5));
        assert_eq!(settled.await.unwrap(), Settled::Recorded(settlement));
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(row.effects.into_iter().collect::<Vec<_>>(), {
            let mut effects = effects.to_vec();
            effects.sort_by(|a, b| a.0.cmp(&b.0));
            effects
        });
    }
}

#[tokio::test]
async fn of_two_who_settle_one_is_stale() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let key = table.receive(&event(&format!("evt_{round}"))).await;
        let zombie = table.lease(&key, NOW).await;
        // The worker continues while another worker takes over.
        let (late, next) = tokio::join!(
            table.settle(zombie, Settlement::Done),
            table.claim_of(&key, lease_over(), ATTEMPTS)
        );
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        match (late, next) {
            (Settled::Recorded(_), Claim::Settled(State::Done)) => {
                assert_eq!((row.state, row.epoch), (State::Done, 1));
            }
            (Settled::Stale, Claim::Leased(_)) => {
                assert_eq!((row.state, row.epoch), (State::Processing, 2));
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
}

pub(crate) fn effect(state: EffectState) -> EffectRow {
    EffectRow {
        state,
        key: "wh_1".into(),
        keyed: true,
        at: NOW,
        run: 0,
        note: "issue 7".into(),
        lease: None,
    }
}
