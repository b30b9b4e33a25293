//! Tests the sweep. It finds open events, sends one message for each of them, and never overrides a
//! worker.

use std::time::Duration;

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::base::timing::{CLOCK_MARGIN, FIRST_LOOK, LEASE, OLD, SWEEP_LEASE};
use shared::inbox::ledger::transition::WORK_SHARDS;
use shared::inbox::ledger::{
    Capacity, CapacityRequest, Claim, QueueCapacity, Settled, Settlement, State, SweepResult,
};
use shared::inbox::queue::{QueueName, WorkMessage};
use shared::webhook::event::EventKey;

use crate::support::{
    ATTEMPTS, NOW, Table, after, dead, event, lease_over, ms, n, number, retry_at, s,
};

/// Returns the time when the sweep first visits an event that was received at [`NOW`].
fn first_look() -> UnixMillis {
    NOW + FIRST_LOOK
}

impl Table {
    async fn look(&self, key: &EventKey, seen: UnixMillis, now: UnixMillis) -> SweepResult {
        let swept = self
            .ledger
            .sweep()
            .sweep_one(key, seen, ATTEMPTS, true, now)
            .await;
        swept.unwrap()
    }

    async fn to_look_at(&self, now: UnixMillis) -> Vec<(EventKey, UnixMillis)> {
        let mut found = Vec::new();
        for shard in 0..WORK_SHARDS {
            found.extend(self.ledger.sweep().due(shard, now, 500).await.unwrap());
        }
        found
    }

    async fn next_look(&self, key: &EventKey) -> UnixMillis {
        UnixMillis(number(&self.row(key).await, "gsk"))
    }
}

/// Returns the expected message. Messages for new events have priority over messages for old
/// events.
fn ring_in(lane: QueueName, key: &EventKey, run: u64, delay: Duration) -> SweepResult {
    let key = key.clone();
    SweepResult::Send(WorkMessage { key, run }, delay, lane)
}

fn ring(key: &EventKey, run: u64, delay: Duration) -> SweepResult {
    ring_in(QueueName::Main, key, run, delay)
}

#[tokio::test]
async fn each_open_event_is_found_when_its_time_has_come_and_not_before() {
    let table = Table::fresh().await;
    let mut keys = Vec::new();
    for index in 0..60_u8 {
        let id = shared::webhook::event::Sha::of(&[index]).hex();
        keys.push(table.receive(&event(&id)).await);
    }
    let early = first_look() - Duration::from_millis(1);
    assert_eq!(table.to_look_at(early).await, []);
    let found = table.to_look_at(first_look()).await;
    assert!(found.iter().all(|(_, seen)| *seen == first_look()));
    let mut found: Vec<EventKey> = found.into_iter().map(|(key, _)| key).collect();
    found.sort();
    keys.sort();
    assert_eq!(found, keys);
    // Every partition of the index contains some of the events.
    for shard in 0..WORK_SHARDS {
        let some = table
            .ledger
            .sweep()
            .due(shard, first_look(), 500)
            .await
            .unwrap();
        assert!(!some.is_empty(), "{shard}");
        let one = table
            .ledger
            .sweep()
            .due(shard, first_look(), 1)
            .await
            .unwrap();
        assert_eq!(one, some[..1]);
    }
}

#[tokio::test]
async fn settled_events_are_not_found() {
    let table = Table::fresh().await;
    for (index, settlement) in [Settlement::Done, dead()].into_iter().enumerate() {
        let key = table.receive(&event(&format!("evt_{index}"))).await;
        let lease = table.lease(&key, NOW).await;
        table.settle(lease, settlement).await;
    }
    assert_eq!(table.to_look_at(UnixMillis(i64::MAX)).await, []);
}

#[tokio::test]
async fn a_lost_message_is_sent_again_ever_more_rarely() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    table
        .edit(&key, |row| drop(row.insert("run".into(), n(2))))
        .await;
    let mut now = first_look();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        assert_eq!(
            table.look(&key, now, now).await,
            ring_in(QueueName::of(NOW, now), &key, 2, Duration::ZERO)
        );
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!((row.state, row.sent_at), (State::Received, Some(now)));
        let next = row.next_look.unwrap();
        pauses.push(next.since(now).as_secs());
        // Until then, the sweep skips the event, even with an outdated index entry.
        assert_eq!(table.look(&key, now, now).await, SweepResult::Skipped);
        now = next;
    }
    assert_eq!(pauses, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
}

#[tokio::test]
async fn only_what_is_open_and_as_the_index_saw_it_is_looked_at_later() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let seen = table.next_look(&key).await;
    let later = async |seen: UnixMillis| {
        let next = seen + Duration::from_secs(600);
        table.ledger.sweep().postpone(&key, seen, next, seen).await
    };
    let before = table.row(&key).await;
    assert!(!later(seen - Duration::from_secs(1)).await.unwrap());
    assert_eq!(table.row(&key).await, before);
    // A worker holds the lease, although the lease expires before the time `seen`.
    table.lease(&key, NOW).await;
    let (before, seen) = (table.row(&key).await, table.next_look(&key).await);
    assert!(!later(seen).await.unwrap());
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn what_got_its_attempt_back_meanwhile_is_not_used_up() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let last =
        |row: &mut shared::inbox::ledger::Item| drop(row.insert("att".into(), n(ATTEMPTS - 1)));
    table.edit(&key, last).await;
    let lease = table.lease(&key, NOW).await;
    let (proxy, ledger) = table.through_proxy().await;
    let held = proxy.hold("UpdateItem", "dead_at");
    let seen = table.next_look(&key).await;
    let put_off = Settlement::Deferred {
        why: "it is full".into(),
        due: lease_over(),
        resend_after: None,
        in_line: false,
        first: None,
    };
    let (swept, settled) = held
        .around(
            ledger
                .sweep()
                .sweep_one(&key, seen, ATTEMPTS, true, lease_over()),
            table.settle(lease, put_off.clone()),
        )
        .await;
    assert_eq!(settled, Settled::Recorded(put_off));
    assert_eq!(swept.unwrap(), SweepResult::Skipped);
    let row = table.ledger.event(&key).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempts), (State::Failed, ATTEMPTS - 1));
}

#[tokio::test]
async fn each_queue_has_room_of_its_own() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let look = async |now, live, backlog| {
        let seen = table.next_look(&key).await;
        let room = QueueCapacity { live, backlog };
        let swept = table
            .ledger
            .sweep()
            .sweep_one(&key, seen, ATTEMPTS, room, now);
        swept.await.unwrap()
    };
    let (young, old) = (first_look(), NOW + OLD + Duration::from_secs(1));
    let (free, full) = (Capacity::Free, Capacity::Full);
    assert_eq!(
        look(young, full, free).await,
        SweepResult::Throttled(QueueName::Main)
    );
    assert_eq!(
        look(old, free, full).await,
        SweepResult::Throttled(QueueName::Backlog)
    );
    let rung = |lane| ring_in(lane, &key, 0, Duration::ZERO);
    assert_eq!(look(young, free, full).await, rung(QueueName::Main));
    assert_eq!(look(old, full, free).await, rung(QueueName::Backlog));
}

#[tokio::test]
async fn one_message_is_sent_for_a_row_while_no_worker_receives() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let look = async |space| {
        let now = table.next_look(&key).await;
        let room = QueueCapacity {
            live: space,
            backlog: Capacity::Full,
        };
        let swept = table
            .ledger
            .sweep()
            .sweep_one(&key, now, ATTEMPTS, room, now);
        swept.await.unwrap()
    };
    // The catcher's message may have been lost.
    let rung = ring(&key, 0, Duration::ZERO);
    assert_eq!(look(Capacity::Saturated).await, rung);
    for _ in 0..3 {
        let swept = look(Capacity::Saturated).await;
        assert_eq!(swept, SweepResult::Throttled(QueueName::Main));
    }
    assert_eq!(look(Capacity::Free).await, rung);
}

#[tokio::test]
async fn a_retry_is_rung_for_on_its_time() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    let due = after(1_800_000);
    table.settle(lease, retry_at(due)).await;
    let look = due - Duration::from_secs(60);
    assert_eq!(table.next_look(&key).await, look);
    let now = look + Duration::from_secs(20);
    let delay = Duration::from_secs(40);
    // No other task sends this message, so the sweep sends the message even if the queue is deep.
    let swept = table
        .ledger
        .sweep()
        .sweep_one(&key, look, ATTEMPTS, false, now)
        .await
        .unwrap();
    assert_eq!(swept, ring_in(QueueName::Backlog, &key, 0, delay));
    let next = due + Duration::from_secs(60);
    assert_eq!(table.next_look(&key).await, next);
    assert_eq!(
        table.look(&key, next, next).await,
        ring_in(QueueName::Backlog, &key, 0, Duration::ZERO)
    );
}

#[tokio::test]
async fn only_the_first_ring_for_a_retry_passes_into_a_deep_queue() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, NOW).await;
    table.settle(lease, retry_at(after(1_800_000))).await;
    let mut rung = Vec::new();
    // The event stays due, because its messages wait in the deep queue.
    for _ in 0..4 {
        let now = table.next_look(&key).await;
        let swept = table
            .ledger
            .sweep()
            .sweep_one(&key, now, ATTEMPTS, false, now)
            .await;
        rung.push(matches!(swept.unwrap(), SweepResult::Send(..)));
    }
    assert_eq!(rung, [true, false, false, false]);
}

#[tokio::test]
async fn a_live_lease_is_looked_at_again_when_it_is_over() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let lease = table.lease(&key, first_look()).await;
    let before = table.row(&key).await;
    assert_eq!(
        table.look(&key, first_look(), after(121_000)).await,
        SweepResult::Skipped
    );
    let next = lease.until() + Duration::from_secs(10);
    assert_eq!(table.next_look(&key).await, next);
    let row = table.row(&key).await;
    let changed: Vec<_> = row
        .keys()
        .filter(|name| row.get(*name) != before.get(*name))
        .collect();
    assert_eq!(changed, ["gsk"]);
    // The worker has crashed.
    assert_eq!(
        table.look(&key, next, next).await,
        ring(&key, 0, Duration::ZERO)
    );
}

#[tokio::test]
async fn a_lease_is_left_alone_until_clocks_must_agree_that_it_is_over() {
    let table = Table::fresh().await;
    for (late, rings) in [(0, false), (5_000, false), (5_001, true)] {
        let key = table.receive(&event(&format!("evt_{late}"))).await;
        let lease = table.lease(&key, first_look()).await;
        let now = lease.until() + Duration::from_millis(late);
        let swept = table.look(&key, first_look(), now).await;
        assert_eq!(
            matches!(swept, SweepResult::Send(..)),
            rings,
            "{late}: {swept:?}"
        );
        // The same margin applies to the end of the attempts.
        let key = table.receive(&event(&format!("evt_{late}_used_up"))).await;
        table.lease(&key, first_look()).await;
        let swept = table
            .ledger
            .sweep()
            .sweep_one(&key, first_look(), 1, true, now)
            .await
            .unwrap();
        assert_eq!(swept == SweepResult::Exhausted, rings, "{late}: {swept:?}");
    }
}

#[tokio::test]
async fn what_is_used_up_becomes_a_dead_letter() {
    let table = Table::fresh().await;
    for (name, value, reason) in [
        ("att", ATTEMPTS, "attempts_exhausted"),
        ("cr", 3, "crash_loop"),
    ] {
        let key = table.receive(&event(name)).await;
        table
            .edit(&key, |row| drop(row.insert(name.into(), n(value))))
            .await;
        assert_eq!(
            table.look(&key, first_look(), first_look()).await,
            SweepResult::Exhausted
        );
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(
            (row.state, row.reason.as_deref()),
            (State::DeadLetter, Some(reason))
        );
        let key = table.receive(&event(&format!("{name}-1"))).await;
        table
            .edit(&key, |row| drop(row.insert(name.into(), n(value - 1))))
            .await;
        let swept = table.look(&key, first_look(), first_look()).await;
        assert_eq!(swept, ring(&key, 0, Duration::ZERO));
    }
}

#[tokio::test]
async fn worker_and_sweep_agree_on_exhausted_attempts() {
    let table = Table::fresh().await;
    let mut apart = Vec::new();
    for state in ["received", "failed", "processing"] {
        for (att, cr) in [(1, 0), (9, 1), (9, 2), (4, 3), (10, 0), (10, 3)] {
            for early in [0, 1] {
                let key = table
                    .receive(&event(&format!("{state}/{att}/{cr}/{early}")))
                    .await;
                let row = table
                    .edit(&key, |row| {
                        row.insert("st".into(), s(state));
                        row.insert("due".into(), ms(after(early)));
                        row.insert("att".into(), n(att));
                        row.insert("cr".into(), n(cr));
                        if state == "processing" {
                            row.insert("own".into(), s("a worker that died"));
                            row.insert("lu".into(), ms(NOW - LEASE));
                        }
                    })
                    .await;
                let swept = table.look(&key, first_look(), NOW).await;
                table.put(row).await;
                let claim = table.claim(&key, NOW).await;
                if matches!(claim, Claim::Exhausted) != (swept == SweepResult::Exhausted) {
                    apart.push(key.id().to_owned());
                }
            }
        }
    }
    assert_eq!(apart, [""; 0], "state/attempts/crashes/milliseconds to go");
}

#[tokio::test]
async fn an_event_that_is_gone_is_left() {
    let table = Table::fresh().await;
    let key = EventKey::new("stripe-main", "evt_1");
    assert_eq!(table.look(&key, NOW, NOW).await, SweepResult::Skipped);
    assert!(table.all().await.is_empty());
}

#[tokio::test]
async fn a_row_that_only_newer_code_knows_is_not_given_up_by_this() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let before = table
        .edit(&key, |row| {
            row.insert("sv".into(), n(3));
            row.insert("att".into(), n(ATTEMPTS));
        })
        .await;
    let swept = table.look(&key, first_look(), first_look()).await;
    assert_eq!(swept, SweepResult::Skipped);
    assert_eq!(table.row(&key).await, before);
}

#[tokio::test]
async fn only_one_of_sixteen_parallel_sweeps_sends_a_message() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let key = table.receive(&event(&format!("evt_{round}"))).await;
        let sweeps = (0..16).map(|_| table.look(&key, first_look(), first_look()));
        let swept = join_all(sweeps).await;
        let rung = swept
            .iter()
            .filter(|swept| matches!(swept, SweepResult::Send(..)))
            .count();
        let left = swept
            .iter()
            .filter(|swept| **swept == SweepResult::Skipped)
            .count();
        assert_eq!((rung, left), (1, 15), "round {round}");
        assert_eq!(number(&table.row(&key).await, "enq_n"), 1);
    }
}

/// The row changes between the read of a sweep and its write. The sweep then does not change the
/// row.
#[tokio::test]
async fn a_sweep_that_was_overtaken_leaves_the_row() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    for (index, what) in [
        "swept",
        "claimed",
        "claimed by a late clock",
        "taken over",
        "done",
        "failed",
    ]
    .iter()
    .enumerate()
    {
        let key = table.receive(&event(&format!("evt_{index}"))).await;
        let mut lease = None;
        if ["taken over", "done", "failed"].contains(what) {
            lease = Some(table.lease(&key, NOW).await);
        }
        let held = proxy.hold("UpdateItem", "enq_n");
        let now = first_look();
        let (swept, overtaken) = held
            .around(
                ledger.sweep().sweep_one(&key, now, ATTEMPTS, true, now),
                async {
                    match *what {
                        "swept" => drop(table.look(&key, now, now).await),
                        "claimed" | "taken over" => drop(table.lease(&key, now).await),
                        // The lease has expired by the clock of the sweep, but the difference is
                        // smaller than the clock margin.
                        "claimed by a late clock" => drop(table.lease(&key, now - LEASE).await),
                        "done" => drop(table.settle(lease.unwrap(), Settlement::Done).await),
                        _ => drop(table.settle(lease.unwrap(), retry_at(now)).await),
                    }
                    table.row(&key).await
                },
            )
            .await;
        assert_eq!(swept.unwrap(), SweepResult::Skipped, "{what}");
        assert_eq!(table.row(&key).await, overtaken, "{what}");
    }
}

#[tokio::test]
async fn a_sweep_that_waits_for_a_lease_does_not_overrule_how_it_ended() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    for (index, settlement) in [Settlement::Done, retry_at(after(9_000)), dead()]
        .into_iter()
        .enumerate()
    {
        let key = table.receive(&event(&format!("evt_{index}"))).await;
        let lease = table.lease(&key, first_look()).await;
        let held = proxy.hold("UpdateItem", "SET gsk = :next");
        let (swept, settled) = held
            .around(
                ledger
                    .sweep()
                    .sweep_one(&key, first_look(), ATTEMPTS, true, first_look()),
                async {
                    table.settle(lease, settlement).await;
                    table.row(&key).await
                },
            )
            .await;
        assert_eq!(swept.unwrap(), SweepResult::Skipped);
        assert_eq!(table.row(&key).await, settled);
    }
}

#[tokio::test]
async fn a_sweep_gives_up_nothing_that_was_taken_up_since() {
    let table = Table::fresh().await;
    let (proxy, ledger) = table.through_proxy().await;
    for state in [State::Received, State::Failed, State::Processing] {
        let key = table.receive(&event(state.as_str())).await;
        let mut now = first_look();
        if state != State::Received {
            let lease = table.lease(&key, NOW).await;
            if state == State::Failed {
                table.settle(lease, retry_at(NOW)).await;
                now = table.next_look(&key).await;
            }
        }
        let seen = table.next_look(&key).await;
        now = now.max(lease_over());
        // The sweep allows no attempt, but the worker allows ten attempts.
        let held = proxy.hold("UpdateItem", "dead_at");
        let (swept, taken) = held
            .around(ledger.sweep().sweep_one(&key, seen, 0, true, now), async {
                table.lease(&key, now).await;
                table.row(&key).await
            })
            .await;
        assert_eq!(swept.unwrap(), SweepResult::Skipped, "{state}");
        assert_eq!(table.row(&key).await, taken, "{state}");
    }
}

#[tokio::test]
async fn a_sweep_and_a_worker_do_not_disturb_each_other() {
    let table = Table::fresh().await;
    for round in 0..50 {
        let key = table.receive(&event(&format!("evt_{round}"))).await;
        let now = first_look();
        let (swept, lease) = tokio::join!(table.look(&key, now, now), table.lease(&key, now));
        let row = table.ledger.event(&key).await.unwrap().unwrap();
        assert_eq!(
            (row.state, row.owner),
            (State::Processing, lease.row.owner.clone())
        );
        assert_eq!((row.epoch, row.attempts), (1, 1));
        let rung = matches!(swept, SweepResult::Send(..));
        assert_eq!(row.sends, u32::from(rung), "round {round}: {swept:?}");
        // The event stays in the index in both orders of the writes.
        assert!(row.next_look.unwrap() >= now);
        assert!(lease.until() == now + LEASE);
    }
}

#[tokio::test]
async fn a_ring_whose_note_was_not_heard_is_late_and_not_lost() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let (proxy, ledger) = table.through_proxy().await;
    proxy.lose_answer("UpdateItem", "enq_n");
    let now = first_look();
    let swept = ledger
        .sweep()
        .sweep_one(&key, now, ATTEMPTS, true, now)
        .await
        .unwrap();
    assert_eq!(swept, SweepResult::Skipped);
    let next = table.next_look(&key).await;
    assert_eq!(next, now + Duration::from_secs(60));
    assert_eq!(
        table.look(&key, next, next).await,
        ring(&key, 0, Duration::ZERO)
    );
}

#[tokio::test]
async fn one_sweep_at_a_time_rings() {
    let table = Table::fresh().await;
    let ledger = &table.ledger;
    let takes = async |owner, now| ledger.sweep().sweep_lease(owner, now).await.unwrap();
    assert!(takes("one", NOW).await);
    assert!(!takes("two", NOW).await);
    // The holder renews the lease.
    let later = NOW + SWEEP_LEASE / 2;
    assert!(takes("one", later).await);
    let over = later + SWEEP_LEASE + CLOCK_MARGIN;
    assert!(!takes("two", over).await, "clocks may differ by this time");
    assert!(takes("two", over + Duration::from_millis(1)).await);
    // A sweep that has lost the lease cannot release it.
    ledger.sweep().sweep_release("one").await.unwrap();
    assert!(!takes("one", over).await);
    ledger.sweep().sweep_release("two").await.unwrap();
    assert!(takes("one", over).await);
}

#[tokio::test]
async fn a_lease_of_a_wrong_clock_keeps_no_sweep_away() {
    let table = Table::fresh().await;
    let year = Duration::from_secs(365 * 24 * 3600);
    let ledger = &table.ledger;
    assert!(
        ledger
            .sweep()
            .sweep_lease("ahead", NOW + year)
            .await
            .unwrap()
    );
    assert!(ledger.sweep().sweep_lease("one", NOW).await.unwrap());
    let skewed = NOW - Duration::from_secs(30);
    assert!(!ledger.sweep().sweep_lease("two", skewed).await.unwrap());
}

#[tokio::test]
async fn a_place_in_the_queue_is_asked_for_before_the_row_is_written() {
    let table = Table::fresh().await;
    let key = table.receive(&event("evt_1")).await;
    let (seen, now) = (table.next_look(&key).await, first_look());
    let before = table.row(&key).await;
    let mut asked = None;
    let ask = |wanted: CapacityRequest| {
        asked = Some((wanted.lane, wanted.sends, wanted.first, wanted.delay));
        false
    };
    let swept = table
        .ledger
        .sweep()
        .sweep_one_if(&key, seen, ATTEMPTS, now, ask);
    assert_eq!(
        swept.await.unwrap(),
        SweepResult::Throttled(QueueName::Main)
    );
    assert_eq!(asked, Some((QueueName::Main, 0, false, Duration::ZERO)));
    assert_eq!(table.row(&key).await, before);
}
