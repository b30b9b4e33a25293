//! An inbox without catcher and processor. The tests store events, receive messages and run tasks.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backup_sync::{BackupSync, DrainReport, Report, SweepReport, Task};
use shared::aws::outbound::{Answer, Inside};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{FoundBy, Ledger};
use shared::webhook::event::{Event, EventKey, Fetched, Via};
use simulation::clock;
use simulation::sandbox::{SOURCE, Sandbox, Sandboxes};
use simulation::scenario::Scenario;
use simulation::world::Shared;
use tokio::task::LocalSet;
use tokio::time::sleep;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "NAME"
preset = "stripe"
[[source.action]]
kind = "keep"
"#;

pub(crate) struct World {
    pub(crate) stores: Shared,
    pub(crate) sandboxes: Sandboxes,
    pub(crate) ledger: Ledger,
    pub(crate) sweeper: Rc<Sandbox<BackupSync>>,
}

impl World {
    pub(crate) fn new() -> Self {
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

    /// Stores an event that is received now, and sends no message for it.
    pub(crate) async fn comes(&self, id: &str) -> EventKey {
        self.came(id, now()).await
    }

    pub(crate) async fn came(&self, id: &str, at: UnixMillis) -> EventKey {
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
        let placed = self.ledger.store_body(&event).await.unwrap();
        let received = self
            .ledger
            .receive_stored(&event, &placed, FoundBy::TimeIndex, at);
        received.await.unwrap();
        event.key().clone()
    }

    pub(crate) async fn sweep(&self) -> SweepReport {
        let Report::Sweep(report) = self.sweeper.function.run(Task::Sweep).await.unwrap() else {
            panic!("another task");
        };
        report
    }

    pub(crate) async fn drain(&self) -> DrainReport {
        let Report::Drain(report) = self.sweeper.function.run(Task::Drain).await.unwrap() else {
            panic!("another task");
        };
        report
    }

    /// Sweeps each minute for this time. Returns the number of messages sent.
    pub(crate) async fn sweeps_for(&self, time: Duration) -> u64 {
        let (mut rung, until) = (0, tokio::time::Instant::now() + time);
        while tokio::time::Instant::now() < until {
            sleep(MINUTE).await;
            rung += self.sweep().await.sent;
        }
        rung
    }

    pub(crate) async fn is_indexed(&self, key: &EventKey) -> bool {
        let row = self.ledger.event(key).await.unwrap().unwrap();
        row.next_look.is_some()
    }
}

pub(crate) fn now() -> UnixMillis {
    UnixMillis(clock::true_ms())
}

pub(crate) fn sweeper(sandboxes: &Sandboxes, source: &str) -> Rc<Sandbox<BackupSync>> {
    let nobody: Inside = Arc::new(|_| Box::pin(async { Ok(Answer::default()) }));
    let sources = SOURCES.replace("NAME", source);
    sandboxes.backup_sync_of(&sources, nobody).unwrap()
}

pub(crate) fn live<T>(pass: impl AsyncFnOnce(World) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async { pass(World::new()).await })
}
