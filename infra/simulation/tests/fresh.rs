//! The sweep over what came a moment ago, in virtual time: what nobody rang for is rung for, also
//! where the index shows it late, a request fails, or a source is configured no more.

#![expect(clippy::unwrap_used, reason = "in tests, a panic is the answer")]

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backup_sync::{BackupSync, Report, SweepReport, Task};
use shared::clock::Millis;
use shared::event::{Event, EventKey, Fetched, Via};
use shared::ledger::{Ledger, Watched};
use shared::outbound::{Answer, Inside};
use simulation::clock;
use simulation::sandbox::{SOURCE, Sandbox, Sandboxes};
use simulation::scenario::Scenario;
use simulation::world::Shared;
use tokio::task::LocalSet;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "NAME"
preset = "stripe"
[[source.action]]
kind = "keep"
"#;

struct World {
    stores: Shared,
    sandboxes: Sandboxes,
    ledger: Ledger,
    sweeper: Rc<Sandbox<BackupSync>>,
}

impl World {
    fn new() -> Self {
        clock::begin();
        let world = Shared::new(Scenario {
            latency_ms: 2,
            ..Scenario::calm(1, 1)
        });
        let sandboxes = Sandboxes::new(&world).unwrap();
        Self {
            ledger: sandboxes.ledger().unwrap(),
            sweeper: sweeper(&sandboxes, SOURCE),
            stores: world,
            sandboxes,
        }
    }

    /// An event that is received now, and that nobody rings for.
    async fn comes(&self, id: &str) -> EventKey {
        self.came(id, now()).await
    }

    async fn came(&self, id: &str, at: Millis) -> EventKey {
        let event = Event::fetched(Fetched {
            source: SOURCE,
            provider: "stripe",
            preset: "stripe",
            id,
            kind: "a.b",
            body: b"{}".as_slice().into(),
            now: at,
            via: Via::Webhook,
            config: "c",
        });
        let placed = self.ledger.place(&event).await.unwrap();
        let received = self
            .ledger
            .receive_placed(&event, &placed, Watched::ByTime, at);
        received.await.unwrap();
        event.key().clone()
    }

    async fn sweep(&self) -> SweepReport {
        let Report::Sweep(report) = self.sweeper.function.run(Task::Sweep).await.unwrap() else {
            panic!("another task");
        };
        report
    }

    /// Sweeps each minute, and how often it rang.
    async fn sweeps_for(&self, time: Duration) -> u64 {
        let (mut rung, until) = (0, tokio::time::Instant::now() + time);
        while tokio::time::Instant::now() < until {
            sleep(MINUTE).await;
            rung += self.sweep().await.rung;
        }
        rung
    }

    async fn is_indexed(&self, key: &EventKey) -> bool {
        let row = self.ledger.event(key).await.unwrap().unwrap();
        row.next_look.is_some()
    }
}

fn now() -> Millis {
    Millis(clock::true_ms())
}

fn sweeper(sandboxes: &Sandboxes, source: &str) -> Rc<Sandbox<BackupSync>> {
    let nobody: Inside = Arc::new(|_| Box::pin(async { Ok(Answer::default()) }));
    let sources = SOURCES.replace("NAME", source);
    sandboxes.backup_sync_of(&sources, nobody).unwrap()
}

fn live<T>(pass: impl AsyncFnOnce(World) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async { pass(World::new()).await })
}

#[test]
fn what_nobody_rang_for_is_rung_for_two_minutes_later() {
    live(async |world| {
        let key = world.comes("evt_1").await;
        sleep(MINUTE).await;
        assert_eq!(world.sweep().await.looked_at, 0);
        sleep(MINUTE + SECOND).await;
        let report = world.sweep().await;
        assert_eq!((report.looked_at, report.rung, report.failed), (1, 1, 0));
        assert!(world.is_indexed(&key).await);
        assert_eq!(world.stores.lock().queues.doorbells.sent, 1);
        // From here on it is swept like every other, and by its time no more.
        let more = world.sweeps_for(HOUR).await;
        assert_eq!(more, 0, "its doorbell waits");
    });
}

#[test]
fn what_the_index_shows_late_is_found_when_its_hour_is_over() {
    live(async |world| {
        world.stores.lock().table.index_lag_ms = 20 * 60_000;
        let key = world.comes("evt_1").await;
        world.stores.lock().table.index_lag_ms = 800;
        assert_eq!(world.sweeps_for(HOUR / 2).await, 0);
        assert!(!world.is_indexed(&key).await);
        assert!(world.sweeps_for(2 * HOUR).await > 0);
        assert!(world.is_indexed(&key).await);
    });
}

#[test]
fn what_is_put_long_after_it_was_received_is_found_too() {
    live(async |world| {
        let at = now();
        assert_eq!(world.sweeps_for(HOUR / 4).await, 0);
        world.came("evt_1", at).await;
        assert_eq!(world.sweeps_for(HOUR / 4).await, 0);
        assert!(world.sweeps_for(2 * HOUR).await > 0);
    });
}

#[test]
fn an_hour_of_which_all_was_seen_is_not_gone_over_again() {
    live(async |world| {
        world.sweep().await;
        for n in 0..50 {
            let key = world.comes(&format!("evt_{n}")).await;
            let claim = world.ledger.claim(&key, "worker", now(), MINUTE, 10).await;
            let shared::ledger::Claim::Leased(lease) = claim.unwrap() else {
                panic!("not leased");
            };
            let done = shared::ledger::Settlement::Done;
            world.ledger.settle(*lease, done, &[], now()).await.unwrap();
        }
        let calls = world.stores.lock().calls;
        let report = world.sweeps_for(3 * HOUR).await;
        assert_eq!(report, 0);
        let batches = world.stores.lock().table.batches;
        assert_eq!(
            batches, 4,
            "one for each part of the index with some of them"
        );
        assert!(world.stores.lock().calls > calls);
    });
}

#[test]
fn what_cannot_be_looked_at_is_tried_again_and_the_rest_goes_on() {
    live(async |world| {
        world.sweep().await;
        let key = world.comes("evt_1").await;
        sleep(2 * MINUTE + SECOND).await;
        world.stores.lock().table.batches_to_refuse = 1;
        let report = world.sweep().await;
        assert_eq!((report.failed, report.rung), (1, 0));
        sleep(MINUTE).await;
        let report = world.sweep().await;
        assert_eq!((report.failed, report.rung), (0, 1));
        assert!(world.is_indexed(&key).await);
    });
}

#[test]
fn a_source_that_is_configured_no_more_is_still_looked_at() {
    live(async |mut world| {
        world.sweep().await;
        let key = world.comes("evt_1").await;
        world.sweeper = sweeper(&world.sandboxes, "another");
        world.sweeps_for(4 * MINUTE).await;
        assert!(world.is_indexed(&key).await);
    });
}

#[test]
fn a_sweep_that_was_down_for_a_day_finds_all_of_it() {
    live(async |world| {
        world.sweep().await;
        let mut keys = Vec::new();
        for n in 0..24 {
            keys.push(world.comes(&format!("evt_{n}")).await);
            sleep(HOUR).await;
        }
        let report = world.sweep().await;
        assert_eq!((report.rung, report.failed), (24, 0));
        for key in keys {
            assert!(world.is_indexed(&key).await, "{key}");
        }
    });
}
