//! Tests when a worker can claim an event, also in races with other workers.

use std::time::Duration;

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::base::timing::{CLOCK_MARGIN, LEASE, LONG_LEASE};
use shared::inbox::ledger::{
    Claim, ExpiredLease, NEWEST_SCHEMA, SCHEMA, Settled, Settlement, State,
};
use shared::webhook::event::EventKey;

use crate::support::{
    ATTEMPTS, NOW, Table, after, event, lease_end, lease_over, leased, ms, n, retry_at, s,
};

#[tokio::test]
async fn a_claim_counts_its_attempt_and_yields_the_row_as_it_is() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let before = table.row(&key).await;
    let lease = table.lease(&key, after(7)).await;
    assert_eq!(
        (lease.row.epoch, lease.row.attempts, lease.row.crashes),
        (1, 1, 0)
    );
    assert_eq!(lease.row.state, State::Processing);
    assert_eq!(lease.until(), after(7) + LEASE);
    assert_eq!(lease.row.lease_until, Some(lease.until()));
    let owner = lease.row.owner.clone().unwrap();
    assert!(owner.starts_with("worker/") && owner.len() == 19, "{owner}");
    assert_eq!(lease.owner(), owner);
    // A worker starts no action in the last seconds of its lease.
    let last = lease.until() - CLOCK_MARGIN;
    assert!(lease.holds(last - Duration::from_millis(1)) && !lease.holds(last));

    // The rest of the row is unchanged. The time of the next sweep must not change, so that the
    // claim writes nothing to the index.
    let row = table.row(&key).await;
    for (name, value) in &before {
        if !["st", "epoch", "att"].contains(&name.as_str()) {
            assert_eq!(row.get(name), Some(value), "{name}");
        }
    }
    let body = table.ledger.leased_body(&lease).await.unwrap().unwrap();
    assert_eq!(body.0, r#"{"id":"evt_1"}"#);
}

#[tokio::test]
async fn a_renewed_lease_lasts_and_an_expired_one_is_not_renewed() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let (old, new) = (lease.until(), lease.until() + LONG_LEASE);
    let just_before = old - Duration::from_millis(1);
    assert!(table.ledger.renew(&lease, just_before, new).await.unwrap());
    assert!(lease.until() == new && lease.holds(old));
    assert_eq!(table.row(&key).await["lu"], ms(new));
    let other = table.claim(&key, old + 2 * CLOCK_MARGIN).await;
    assert!(matches!(other, Claim::Held), "{other:?}");
    // No other worker has taken over the event yet, but each could.
    for late in [0, 1] {
        let now = new + Duration::from_millis(late);
        let renewed = table.ledger.renew(&lease, now, now + LONG_LEASE);
        assert!(!renewed.await.unwrap());
    }
    assert_eq!(lease.until(), new);
    let next = table.lease(&key, new + 2 * CLOCK_MARGIN).await;
    let now = next.until() - CLOCK_MARGIN;
    let row = table.row(&key).await;
    assert!(
        !table
            .ledger
            .renew(&lease, now, now + LONG_LEASE)
            .await
            .unwrap()
    );
    assert_eq!(table.row(&key).await, row, "another worker has the event");
    table.settle(next, Settlement::Done).await;
    let row = table.row(&key).await;
    assert!(!table.ledger.renew(&lease, NOW, new).await.unwrap());
    assert_eq!(table.row(&key).await, row);
}

#[tokio::test]
async fn only_the_worker_of_the_newest_claim_renews_its_lease() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let row = table.row(&key).await;
    let changed = [("st", s("failed")), ("epoch", n(2)), ("own", s("another"))];
    for (name, value) in changed {
        let mut other = row.clone();
        other.insert(name.to_owned(), value);
        table.put(other.clone()).await;
        let renewed = table.ledger.renew(&lease, after(1), NOW + LONG_LEASE);
        assert!(!renewed.await.unwrap(), "{name}");
        assert_eq!(table.row(&key).await, other, "{name}");
    }
    table.put(row).await;
    let renewed = table.ledger.renew(&lease, after(1), NOW + LONG_LEASE);
    assert!(renewed.await.unwrap());
}

#[tokio::test]
async fn a_lost_response_to_a_renewal_is_no_lost_lease() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let (proxy, ledger) = table.through_proxy().await;
    let lease = table.lease(&key, NOW).await;
    proxy.lose_answer("UpdateItem", "lu > :now");
    let until = NOW + LONG_LEASE;
    assert!(ledger.renew(&lease, after(1), until).await.unwrap());
    assert_eq!(lease.until(), until);
}

#[tokio::test]
async fn what_was_never_received_is_missing_and_stays_so() {
    let table = Table::fresh().await;
    let key = EventKey::new("stripe-main", "evt_1");
    assert!(matches!(table.claim(&key, NOW).await, Claim::Missing));
    assert!(table.all().await.is_empty());
}

#[tokio::test]
async fn the_last_attempt_is_granted_and_none_after_it() {
    let table = Table::fresh().await;
    for state in ["received", "failed"] {
        let key = table.receive(&event(state)).await;
        let used = |row: &mut shared::inbox::ledger::Item, att: u32| {
            row.insert("st".into(), s(state));
            row.insert("due".into(), ms(NOW));
            row.insert("att".into(), n(att));
        };
        table.edit(&key, |row| used(row, ATTEMPTS)).await;
        assert!(matches!(table.claim(&key, NOW).await, Claim::Exhausted));
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!((row.state, row.attempts), (State::DeadLetter, ATTEMPTS));
        assert_eq!(row.reason.as_deref(), Some("attempts_exhausted"));

        let key = table.receive(&event(&format!("{state}-2"))).await;
        table.edit(&key, |row| used(row, ATTEMPTS - 1)).await;
        assert_eq!(table.lease(&key, NOW).await.row.attempts, ATTEMPTS);
    }
}

#[tokio::test]
async fn a_retry_is_granted_on_its_time_and_not_before() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, retry_at(after(10_000))).await;
    let before = table.row(&key).await;
    let claim = table.claim(&key, after(9_999)).await;
    assert!(
        matches!(claim, Claim::NotDue(due) if due == after(10_000)),
        "{claim:?}"
    );
    assert_eq!(table.row(&key).await, before);
    let lease = table.lease(&key, after(10_000)).await;
    assert_eq!(
        (lease.row.epoch, lease.row.attempts, lease.row.crashes),
        (2, 2, 0)
    );
}

#[tokio::test]
async fn a_lease_is_taken_over_five_seconds_after_its_end() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table.lease(&key, NOW).await;
    let before = table.row(&key).await;
    let end = lease_end().0;
    for early in [
        NOW,
        UnixMillis(end),
        UnixMillis(end + 1),
        UnixMillis(end + 5_000),
    ] {
        let claim = table.claim(&key, early).await;
        assert!(matches!(claim, Claim::Held), "{early}: {claim:?}");
    }
    assert_eq!(table.row(&key).await, before);
    let lease = table.lease(&key, UnixMillis(end + 5_001)).await;
    assert_eq!(
        (lease.row.epoch, lease.row.attempts, lease.row.crashes),
        (2, 2, 1)
    );
    assert_eq!(lease.until(), UnixMillis(end + 5_001) + LEASE);
}

#[tokio::test]
async fn the_third_crash_is_the_last() {
    let table = Table::fresh().await;
    for (crashes, taken) in [(1, true), (2, false)] {
        let key = table.receive(&event(&format!("evt_{crashes}"))).await;
        table.lease(&key, NOW).await;
        table
            .edit(&key, |row| drop(row.insert("cr".into(), n(crashes))))
            .await;
        let claim = table.claim(&key, lease_over()).await;
        if taken {
            assert_eq!(leased(claim).row.crashes, 2);
        } else {
            assert!(matches!(claim, Claim::Exhausted), "{claim:?}");
            let row = table.ledger.event(&key).await.unwrap().unwrap();
            assert_eq!(row.state, State::DeadLetter);
            assert_eq!(
                (row.reason.as_deref(), row.crashes),
                (Some("crash_loop"), 3)
            );
            assert_eq!(row.dead_at, Some(lease_over()));
            assert_eq!(row.history.last().unwrap().what, "dead_letter");
        }
    }
}

#[tokio::test]
async fn an_event_that_kills_each_worker_ends_as_a_dead_letter() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let mut now = NOW;
    let mut workers = 0;
    while let Claim::Leased(lease) = table.claim(&key, now).await {
        now = lease.until() + Duration::from_millis(5_001);
        workers += 1;
        assert!(workers < 9, "expected the workers to run out of attempts");
    }
    assert_eq!(workers, 3);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(row.reason.as_deref(), Some("crash_loop"));
}

#[tokio::test]
async fn an_event_that_always_fails_ends_as_a_dead_letter() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let mut now = NOW;
    let mut attempts = 0;
    while let Claim::Leased(lease) = table.claim_of(&key, now, 4).await {
        attempts += 1;
        assert!(attempts < 9, "expected the event to run out of attempts");
        now = now + Duration::from_secs(1);
        let settled = table.settle(*lease, retry_at(now)).await;
        assert!(matches!(settled, Settled::Recorded(_)));
    }
    assert_eq!(attempts, 4);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.state, row.epoch), (State::DeadLetter, 4));
    assert_eq!(row.error.as_deref(), Some("502"), "the last error is kept");
}

#[tokio::test]
async fn only_rows_up_to_the_next_version_are_processed() {
    let table = Table::fresh().await;
    assert_eq!(NEWEST_SCHEMA, SCHEMA + 1);
    let next = table.receive(&event("next")).await;
    table
        .edit(&next, |row| drop(row.insert("sv".into(), n(SCHEMA + 1))))
        .await;
    assert_eq!(table.lease(&next, NOW).await.row.schema, SCHEMA + 1);
    let lease = table.lease(&next, lease_over()).await;
    let settled = table.settle(lease, Settlement::Done).await;
    assert_eq!(settled, Settled::Recorded(Settlement::Done));
    let row = table.ledger.event(&next).await.unwrap().unwrap();
    assert_eq!((row.state, row.schema), (State::Done, SCHEMA + 1));

    for (state, att) in [
        ("received", 0),
        ("failed", 0),
        ("processing", 0),
        ("received", 99),
    ] {
        let later = table.receive(&event(&format!("{state}-{att}"))).await;
        let before = table
            .edit(&later, |row| {
                row.insert("sv".into(), n(SCHEMA + 2));
                row.insert("st".into(), s(state));
                row.insert("att".into(), n(att));
                row.insert("due".into(), ms(NOW));
                row.insert("lu".into(), ms(NOW));
                row.insert("own".into(), s("another/1"));
            })
            .await;
        let claim = table.claim(&later, lease_over()).await;
        assert!(matches!(claim, Claim::TooNew(3)), "{state}: {claim:?}");
        assert_eq!(table.row(&later).await, before);
    }
}

#[tokio::test]
async fn only_one_of_sixteen_workers_gets_the_lease() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let key = table.receive(&event(&format!("evt_{round}"))).await;
        let claims = join_all((0..16).map(|_| table.claim(&key, NOW))).await;
        let held = claims
            .iter()
            .filter(|claim| matches!(claim, Claim::Held))
            .count();
        assert_eq!(held, 15, "round {round}");
        let winner = claims.into_iter().find_map(|claim| match claim {
            Claim::Leased(lease) => Some(lease),
            _ => None,
        });
        let winner = winner.unwrap();
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!((row.epoch, row.attempts), (1, 1));
        assert_eq!(row.owner, winner.row.owner);
    }
}

#[tokio::test]
async fn what_a_worker_abandoned_can_be_left_as_it_is() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let leave = async |now| {
        let claim = table
            .ledger
            .claim_or(ExpiredLease::Leave, &key, "other", now, LEASE, ATTEMPTS);
        claim.await.unwrap()
    };
    table.lease(&key, NOW).await;
    let before = table.ledger.event(&key).await.unwrap().unwrap();
    assert!(matches!(leave(NOW).await, Claim::Held));
    assert!(matches!(leave(lease_over()).await, Claim::Abandoned));
    let after = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!(
        (after.epoch, after.crashes, after.owner),
        (before.epoch, 0, before.owner)
    );
    // If no worker has claimed an event, the event cannot be abandoned.
    let key = table.receive(&event("evt_2")).await;
    let claim = table
        .ledger
        .claim_or(ExpiredLease::Leave, &key, "worker", NOW, LEASE, ATTEMPTS);
    assert!(matches!(claim.await.unwrap(), Claim::Leased(_)));
}

#[tokio::test]
async fn only_one_of_sixteen_takeovers_gets_the_lease() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let key = table.receive(&event(&format!("evt_{round}"))).await;
        table.lease(&key, NOW).await;
        let claims = join_all((0..16).map(|_| table.claim(&key, lease_over()))).await;
        let won = claims
            .iter()
            .filter(|claim| matches!(claim, Claim::Leased(_)))
            .count();
        let held = claims
            .iter()
            .filter(|claim| matches!(claim, Claim::Held))
            .count();
        assert_eq!((won, held), (1, 15), "round {round}");
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!((row.epoch, row.attempts, row.crashes), (2, 2, 1));
    }
}

#[tokio::test]
async fn of_sixteen_who_see_it_used_up_one_records_the_dead_letter() {
    let table = Table::fresh().await;
    for round in 0..25 {
        let key = table.receive(&event(&format!("evt_{round}"))).await;
        drop(table.lease(&key, NOW).await);
        let claims = join_all((0..16).map(|_| table.claim_of(&key, lease_over(), 1))).await;
        let exhausted = claims
            .iter()
            .filter(|claim| matches!(claim, Claim::Exhausted))
            .count();
        let settled = Claim::Settled(State::DeadLetter);
        let settled = |claim: &&Claim| format!("{claim:?}") == format!("{settled:?}");
        assert_eq!(exhausted, 1, "round {round}: {claims:?}");
        assert_eq!(claims.iter().filter(settled).count(), 15, "{claims:?}");
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(row.history.len(), 1);
    }
}

#[tokio::test]
async fn a_claim_and_the_end_of_the_attempts_exclude_each_other() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let key = table.receive(&event(&format!("evt_{round}"))).await;
        let lease = table.lease(&key, NOW).await;
        table.settle(lease, retry_at(NOW)).await;
        // The workers have two different settings, which allow ten attempts and one attempt.
        let racers = (0..16).map(|racer| table.claim_of(&key, NOW, [ATTEMPTS, 1][racer % 2]));
        let claims = join_all(racers).await;
        let leases = claims
            .iter()
            .filter(|claim| matches!(claim, Claim::Leased(_)))
            .count();
        let dead = claims
            .iter()
            .filter(|claim| matches!(claim, Claim::Exhausted))
            .count();
        assert_eq!(leases + dead, 1, "round {round}: {claims:?}");
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        let state = if leases == 1 {
            State::Processing
        } else {
            State::DeadLetter
        };
        assert_eq!((row.state, row.epoch), (state, 1 + leases as u64));
    }
}

#[tokio::test]
async fn who_sees_it_used_up_does_not_overrule_who_took_it_since() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, retry_at(NOW)).await;
    let (proxy, ledger) = table.through_proxy().await;
    // The request of a worker that allows one attempt waits before it records the dead letter. At
    // the same time, a worker that allows ten attempts claims the event and fails again.
    let held = proxy.hold("UpdateItem", "dead_at");
    let (claim, ()) = held
        .around(ledger.claim(&key, "worker", NOW, LEASE, 1), async {
            let lease = table.lease(&key, NOW).await;
            table.settle(lease, retry_at(after(60_000))).await;
        })
        .await;
    // The first worker read the row again and saw the second failure, so the history contains both
    // failures.
    assert!(matches!(claim.unwrap(), Claim::Exhausted));
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    let history: Vec<&str> = row
        .history
        .iter()
        .map(|moment| moment.what.as_str())
        .collect();
    assert_eq!(history, ["failed", "failed", "dead_letter"]);
}

#[tokio::test]
async fn who_takes_over_late_finds_it_held() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table.lease(&key, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", "cr :one");
    let (claim, other) = held
        .around(
            ledger.claim(&key, "worker", lease_over(), LEASE, ATTEMPTS),
            table.lease(&key, lease_over()),
        )
        .await;
    assert!(matches!(claim.unwrap(), Claim::Held));
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.epoch, row.owner), (2, other.row.owner));
}

#[tokio::test]
async fn a_lease_that_was_prolonged_meanwhile_is_not_taken_over() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    for attempts in [ATTEMPTS, 1] {
        let key = table.receive(&event(&format!("evt_{attempts}"))).await;
        table.lease(&key, NOW).await;
        // A version of the code that renews its leases uses the same epoch.
        let write = if attempts == 1 { "dead_at" } else { "cr :one" };
        let held = proxy.hold("UpdateItem", write);
        let prolong =
            |row: &mut shared::inbox::ledger::Item| drop(row.insert("lu".into(), ms(lease_over())));
        let claim = ledger.claim(&key, "worker", lease_over(), LEASE, attempts);
        let (claim, prolonged) = held.around(claim, table.edit(&key, prolong)).await;
        assert!(matches!(claim, Ok(Claim::Held)), "{claim:?}");
        assert_eq!(table.row(&key).await, prolonged);
    }
}

#[tokio::test]
async fn what_newer_code_has_written_meanwhile_is_not_taken_over() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table.lease(&key, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", "cr :one");
    let newer = |row: &mut shared::inbox::ledger::Item| drop(row.insert("sv".into(), n(9)));
    let claim = ledger.claim(&key, "worker", lease_over(), LEASE, ATTEMPTS);
    let (claim, changed) = held.around(claim, table.edit(&key, newer)).await;
    assert!(!matches!(claim, Ok(Claim::Leased(_))), "{claim:?}");
    assert_eq!(table.row(&key).await, changed);
}

#[tokio::test]
async fn what_is_used_up_or_over_meanwhile_is_not_taken_over() {
    let table = Table::fresh().await;
    for (name, value) in [("cr", n(2)), ("att", n(ATTEMPTS)), ("st", s("done"))] {
        let key = table.receive(&event(name)).await;
        table.lease(&key, NOW).await;
        let (proxy, ledger) = table.through_proxy().await;
        let held = proxy.hold("UpdateItem", "cr :one");
        let change = |row: &mut shared::inbox::ledger::Item| drop(row.insert(name.into(), value));
        let claim = ledger.claim(&key, "worker", lease_over(), LEASE, ATTEMPTS);
        let (claim, _) = held.around(claim, table.edit(&key, change)).await;
        let refused = matches!(claim, Ok(Claim::Exhausted | Claim::Settled(State::Done)));
        assert!(refused, "{name}: {claim:?}");
    }
}

#[tokio::test]
async fn who_takes_over_has_seen_whom() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table.lease(&key, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", "cr :one");
    // Another worker has taken over the event. By the clock of the first worker, the lease of the
    // other worker has also expired.
    let late = lease_over() + LEASE + LEASE;
    let claim = ledger.claim(&key, "worker", late, LEASE, ATTEMPTS);
    let (claim, _) = held.around(claim, table.lease(&key, lease_over())).await;
    let lease = leased(claim.unwrap());
    assert_eq!((lease.row.epoch, lease.row.crashes), (3, 2));
    // The worker sends four updates. The claim is refused, and the takeover is refused because of
    // the epoch. The next claim is also refused, and the second takeover succeeds.
    assert_eq!(proxy.count()["UpdateItem"], 4);
}
