//! The sweep with many rows that are due: the number of messages that it sends in a run. The sweep
//! must never fill a queue above its limit, or run longer than its time.

use std::cell::Cell;
use std::time::Duration;

use backup_sync::{Report, RunTime, SweepReport, Task};
use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::base::timing::{BACKUP_SYNC, ROUND_EVERY};
use shared::inbox::ledger::{Claim, Settlement};
use shared::inbox::queue::WorkMessage;
use shared::webhook::event::{Event, Fetched, Via};
use simulation::sandbox::SOURCE;
use tokio::time::{Instant, sleep, timeout};

use super::feed::ring;
use super::world::{HOUR, MINUTE, SECOND, World, live, now, sweeper};

/// The queue depth up to which the sweep sends messages.
const DEPTH: u64 = 1_000;

/// The largest depths of the queues during a test.
#[derive(Debug, Default)]
struct Seen {
    live: Cell<u64>,
    backlog: Cell<u64>,
}

impl World {
    /// Adds events whose messages are lost. Their times of receipt are distributed evenly between
    /// these two ages.
    async fn lost(&self, count: usize, ages: (Duration, Duration)) {
        let at = |n: usize| {
            let span = ages.1.saturating_sub(ages.0);
            let share =
                f64::from(u32::try_from(n).unwrap()) / f64::from(u32::try_from(count).unwrap());
            now() - ages.0 - span.mul_f64(share)
        };
        let (keys, begun) = ((0..count).map(|n| (n, at(n))).collect::<Vec<_>>(), now());
        for lot in keys.chunks(500) {
            let puts = lot.iter().map(|(n, at)| async move {
                let id = format!("evt_{}_{n:06}", ages.1.as_secs());
                if begun.since(*at) > HOUR {
                    // Older code, a retry or a replay gives the row this place in the index.
                    self.ledger.receive(&event(&id, *at), *at).await.unwrap();
                } else {
                    self.came(&id, *at).await;
                }
            });
            join_all(puts).await;
        }
        // After this time, the indexes contain the rows.
        sleep(3 * SECOND).await;
    }

    /// Processes waiting messages, fifty at a time, which is the limit of the template.
    async fn work(&self, seen: &Seen) {
        loop {
            seen.look(self);
            let heard = self.hear(50);
            if heard.is_empty() {
                sleep(Duration::from_millis(20)).await;
            }
            join_all(heard.iter().map(|text| self.work_on(text))).await;
        }
    }

    async fn work_on(&self, text: &str) {
        let bell = WorkMessage::from_message(text).unwrap();
        let claim = self.ledger.claim(&bell.key, "worker", now(), MINUTE, 10);
        if let Claim::Leased(lease) = claim.await.unwrap() {
            let settled = self.ledger.settle(*lease, Settlement::Done, &[], now());
            settled.await.unwrap();
        }
    }

    async fn watch(&self, seen: &Seen) {
        loop {
            seen.look(self);
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Runs a task as its schedule starts it, with the time limit of Lambda.
    async fn run(&self, task: Task) -> Report {
        let sandbox = sweeper(&self.sandboxes, SOURCE);
        let run = timeout(BACKUP_SYNC, sandbox.function.run(task)).await;
        run.expect("it was killed").unwrap()
    }

    async fn swept(&self) -> SweepReport {
        let Report::Sweep(report) = self.run(Task::Sweep).await else {
            panic!("another task");
        };
        report
    }

    /// Runs a sweep and a drain every five minutes while a processor works, until no event is open.
    /// Returns the number of events that each run settled, and its duration.
    async fn recovers(&self, seen: &Seen) -> Vec<(usize, Duration)> {
        let mut runs = Vec::new();
        let rounds = async {
            let mut before = self.stores.lock().table.open_rows();
            while before > 0 && runs.len() < 100 {
                let began = Instant::now();
                tokio::join!(self.swept(), self.run(Task::Drain));
                let took = began.elapsed();
                sleep(SECOND).await;
                let left = self.stores.lock().table.open_rows();
                runs.push((before - left, took));
                before = left;
                sleep(ROUND_EVERY.saturating_sub(began.elapsed())).await;
            }
        };
        tokio::select! {
            () = rounds => {}
            () = self.work(seen) => {}
            () = self.watch(seen) => {}
        }
        runs
    }
}

impl Seen {
    fn look(&self, world: &World) {
        let (live, backlog) = world.waiting();
        self.live.set(self.live.get().max(live));
        self.backlog.set(self.backlog.get().max(backlog));
    }
}

fn event(id: &str, at: UnixMillis) -> Event {
    Event::fetched(Fetched {
        source: SOURCE,
        provider: "stripe",
        preset: "stripe",
        id,
        kind: "a.b",
        body: b"{}".as_slice().into(),
        now: at,
        via: Via::Webhook,
        config: "c",
    })
}

const YOUNG: (Duration, Duration) = (Duration::from_secs(180), Duration::from_secs(360));
const LONG_AGO: (Duration, Duration) = (Duration::from_secs(7_000), Duration::from_secs(8_000));

#[test]
fn due_rows_are_all_rung_for_in_one_run_while_heard() {
    live(async |world| {
        world.lost(5_000, YOUNG).await;
        let seen = Seen::default();
        let runs = world.recovers(&seen).await;
        assert_eq!(runs.len(), 1, "{runs:?}");
        assert!(seen.live.get() <= DEPTH, "{seen:?}");
    });
}

#[test]
fn old_rows_pass_the_backlog_at_the_pace_of_the_processor() {
    live(async |world| {
        world.lost(5_000, LONG_AGO).await;
        let seen = Seen::default();
        let runs = world.recovers(&seen).await;
        // The drain has found the backlog queue empty before the sweep fills it. The next drain
        // moves the rest.
        assert!(runs.len() <= 2, "{runs:?}");
        assert!(
            seen.live.get() <= DEPTH && seen.backlog.get() <= DEPTH,
            "{seen:?}"
        );
    });
}

#[test]
fn sweeps_that_overlap_fill_no_queue_twice() {
    for (ages, unheard) in [(YOUNG, (DEPTH, 0)), (LONG_AGO, (50, DEPTH))] {
        live(async |world| {
            world.lost(3_000, ages).await;
            // Sweeps that start each minute and take longer than a minute.
            let later = async |secs| {
                sleep(SECOND * secs).await;
                world.swept().await
            };
            let (one, two, ..) =
                tokio::join!(later(0), later(0), later(1), later(5), later(60), later(61));
            assert_eq!(world.waiting(), unheard, "{one:?} {two:?}");
        });
    }
}

#[test]
fn a_full_queue_costs_no_read_for_each_row() {
    live(async |world| {
        world.lost(3_000, YOUNG).await;
        world.swept().await;
        assert_eq!(world.waiting().0, DEPTH);
        let calls = world.stores.lock().calls;
        let report = world.swept().await;
        let calls = world.stores.lock().calls - calls;
        assert_eq!((report.sent, report.more), (0, true), "{report:?}");
        assert!(calls < 150, "{calls} calls");
    });
}

#[test]
fn young_rows_do_not_wait_behind_old_ones() {
    live(async |world| {
        world.lost(2_000, LONG_AGO).await;
        world.lost(20, YOUNG).await;
        // The work queue accepts no old events, because it has more messages than a batch, and the
        // backlog queue is full.
        let stores = || world.stores.lock();
        ring(&mut stores().queues.work_messages, 900_000..900_060);
        ring(&mut stores().queues.backlog, 910_000..911_000);
        let report = world.swept().await;
        assert_eq!(report.sent, 20, "{report:?}");
        assert_eq!(world.waiting(), (80, DEPTH));
    });
}

#[test]
fn a_sweep_that_was_killed_delays_the_next_by_its_lease() {
    live(async |world| {
        world.lost(1_500, YOUNG).await;
        let sandbox = sweeper(&world.sandboxes, SOURCE);
        let killed = timeout(SECOND, sandbox.function.run(Task::Sweep)).await;
        assert!(killed.is_err());
        let report = world.swept().await;
        assert_eq!((report.checked, report.more), (0, true), "{report:?}");
        world.stores.lock().queues.work_messages.purge();
        sleep(MINUTE).await;
        let report = world.swept().await;
        assert!(report.sent > 0, "{report:?}");
    });
}

#[test]
fn however_slow_the_table_is_the_run_ends_and_says_so() {
    live(async |world| {
        world.lost(2_000, YOUNG).await;
        for rounds in 1..=2 {
            world.stores.lock().scenario.latency_ms = 4_500;
            let began = Instant::now();
            for task in [Task::Sweep, Task::Drain] {
                // If Lambda killed the run, the call would return no result.
                let sandbox = sweeper(&world.sandboxes, SOURCE);
                let run = timeout(BACKUP_SYNC, sandbox.function.run(task)).await;
                let _ = run.expect("it was killed");
            }
            assert!(began.elapsed() < 2 * BACKUP_SYNC);
            world.stores.lock().scenario.latency_ms = 2;
            let beats = world.ledger.operations().heartbeats().await.unwrap();
            let late = |task: &str| now().since(beats[task]);
            assert!(late("sweep") < 2 * BACKUP_SYNC, "{rounds} {beats:?}");
            assert!(late("drain") < BACKUP_SYNC, "{rounds} {beats:?}");
        }
    });
}

#[test]
fn a_run_with_less_time_makes_each_part_shorter() {
    live(async |world| {
        world.lost(2_000, YOUNG).await;
        let (began, time) = (Instant::now(), RunTime::of(3 * SECOND));
        let sandbox = sweeper(&world.sandboxes, SOURCE);
        let report = sandbox.function.run_within(Task::Sweep, time).await;
        assert!(began.elapsed() < 3 * SECOND, "{:?}", began.elapsed());
        assert!(report.is_ok(), "{report:?}");
        assert!(
            world
                .ledger
                .operations()
                .heartbeats()
                .await
                .unwrap()
                .contains_key("sweep")
        );
    });
}

/// Rows of recent events need at most two runs. For the backlog, `make bench-sweep` prints the
/// rate.
#[test]
#[ignore = "takes minutes: make bench-sweep"]
fn a_hundred_thousand_rows_are_sent_within_two_runs() {
    const ROWS: usize = 100_000;
    for (what, ages, most) in [
        ("3 to 6 minutes ago", YOUNG, 2),
        ("two hours ago", LONG_AGO, 100),
    ] {
        live(async |world| {
            world.lost(ROWS, ages).await;
            let seen = Seen::default();
            let runs = world.recovers(&seen).await;
            let (live, backlog) = (seen.live.get(), seen.backlog.get());
            println!("{ROWS} rows received {what}: live queue at most {live}, backlog {backlog}");
            for (index, (rows, took)) in runs.iter().enumerate() {
                println!("  run {}: {rows} rows in {} s", index + 1, took.as_secs());
            }
            assert!(live <= DEPTH && backlog <= DEPTH);
            assert!(runs.len() <= most, "{} runs", runs.len());
            let all: usize = runs.iter().map(|(rows, _)| rows).sum();
            assert_eq!(all, ROWS);
        });
    }
}
