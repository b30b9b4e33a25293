//! backup-sync: the periodic tasks that resend lost messages, drain the spill queue and find missed
//! events.
//!
//! - `{"task":"sweep"}`, every five minutes, sends messages for open events whose message may be
//!   lost and for retries that are due. It then fetches the certificates and key sets that requests
//!   wait for (`{"task":"keys"}` does only this) and the objects that unsigned notices name
//!   (`{"task":"fetch"}` does only this), ends holds that expired, and reports the health of the
//!   inbox.
//! - `{"task":"drain"}`, every five minutes, moves spilled events into the ledger, and messages of
//!   the backlog queue into the work queue.
//! - `{"task":"sync"}`, every 15 minutes, asks providers for events since the cursor, and stores
//!   missed events in the same way as webhooks. It then checks which sources are silent.
//! - `{"task":"reconcile"}`, every day, compares the providers' objects with your own state, and
//!   reports the differences.
//! - `{"task":"endpoints"}`, every hour, checks whether the providers' subscriptions still point to
//!   this inbox. `{"task":"enable"}`, which an operator runs, enables a subscription again.
//! - `{"task":"count"}`, every hour, counts the events of past hours.

mod api;
mod count;
mod coverage;
mod deadline;
mod drain;
mod endpoint;
mod fetch_back;
mod health;
mod heartbeat;
mod holds;
mod keys;
mod reconcile;
mod retry;
mod silence;
mod sweep;
mod sync;
mod waiting;

use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join};
use serde::{Deserialize, Serialize};
use shared::aws::outbound::Outbound;
use shared::base::clock::Clock;
use shared::base::timing::{
    ASKING, BACKUP_SYNC, GRACE, LAST_WORDS, SWEEP, SWEEP_HOLD, SWEEP_KEYS, WATCHING,
};
use shared::delivery::breaker::Breakers;
use shared::delivery::pause::Pauses;
use shared::services::Services;
use tokio::time::{Instant, timeout_at};

use deadline::cut;
use endpoint::May;
use reconcile::Which;

pub use count::CountReport;
pub use deadline::RunTime;
pub use drain::DrainReport;
pub use endpoint::{Enabled, Synced};
pub use fetch_back::FetchReport;
pub use keys::KeysReport;
pub use silence::Silence;
pub use sweep::SweepReport;
pub use sync::{Named, SyncReport, SyncRequest};

/// A task, as a schedule or an operator requests it.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "task", rename_all = "lowercase")]
pub enum Task {
    Sweep,
    Count,
    Keys,
    Fetch,
    Endpoints {
        /// The only source to check. `None` means all sources.
        source: Option<String>,
    },
    Enable {
        source: String,
        /// Whether to also subscribe to the missing event types.
        #[serde(default)]
        add_types: bool,
    },
    Reconcile {
        /// The only source to compare. `None` means all sources.
        source: Option<String>,
        /// The name of the only comparison to run.
        name: Option<String>,
        /// Whether the run must not repair, whatever the comparison allows.
        #[serde(default)]
        report_only: bool,
    },
    Drain,
    Sync(SyncRequest),
}

impl Task {
    /// Returns the name of the task for a complete run, which a schedule requests. Returns `None`
    /// for a partial run, which an operator requests.
    fn round(&self) -> Option<&'static str> {
        match self {
            Self::Sweep => Some("sweep"),
            Self::Drain => Some("drain"),
            Self::Sync(order) if *order == SyncRequest::default() => Some("sync"),
            Self::Endpoints { source: None } => Some("endpoints"),
            Self::Reconcile {
                source: None,
                name: None,
                ..
            } => Some("reconcile"),
            _ => None,
        }
    }
}

/// The result of a task.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "task", rename_all = "lowercase")]
pub enum Report {
    Sweep(SweepReport),
    Count(CountReport),
    Keys(KeysReport),
    Fetch(FetchReport),
    Endpoints {
        endpoints: Vec<shared::monitoring::endpoint::Status>,
    },
    Enable(Box<Enabled>),
    Reconcile {
        reports: Vec<shared::monitoring::reconcile::Report>,
    },
    Drain(DrainReport),
    Sync {
        sources: Vec<SyncReport>,
        silent: Vec<Silence>,
    },
}

/// The services and clients of the tasks, created once per process.
pub struct BackupSync {
    services: Services,
    outbound: Outbound,
    breakers: Breakers,
    pauses: Pauses,
    health: health::Health,
    beats: heartbeat::Heartbeats,
    clock: Clock,
}

impl BackupSync {
    pub fn new(services: Services, clock: Clock) -> Self {
        let forward = &services.sources.config().forward;
        let outbound = Outbound::new(forward.allow_loopback || services.aws.is_local());
        Self::with_outbound(services, outbound, clock)
    }

    /// Creates the tasks with the given HTTP client.
    pub fn with_outbound(services: Services, outbound: Outbound, clock: Clock) -> Self {
        Self {
            breakers: Breakers::new(services.aws.table(), &services.table),
            pauses: Pauses::new(services.inbox.ledger.clone()),
            health: health::Health::default(),
            beats: heartbeat::Heartbeats::default(),
            services,
            outbound,
            clock,
        }
    }

    /// Runs a task with the full timeout of the template.
    pub async fn run(&self, task: Task) -> anyhow::Result<Report> {
        self.run_within(task, RunTime::of(BACKUP_SYNC)).await
    }

    /// Runs a task within the given time. A failed run also writes its heartbeat: the heartbeat
    /// shows that the schedule runs, and the error shows that the task failed.
    pub fn run_within(
        &self,
        task: Task,
        time: RunTime,
    ) -> LocalBoxFuture<'_, anyhow::Result<Report>> {
        self.run_to_its_end(task, time).boxed_local()
    }

    async fn run_to_its_end(&self, task: Task, time: RunTime) -> anyhow::Result<Report> {
        let round = task.round();
        let ends = time.until(LAST_WORDS);
        self.services.sources.refresh((self.clock)()).await;
        let report = cut(ends, "the task", self.work(task, time)).await;
        if let Some(round) = round
            && timeout_at(time.until(BACKUP_SYNC), self.beat(round))
                .await
                .is_err()
        {
            tracing::warn!("no time was left in this run to write the heartbeat of {round}");
        }
        report
    }

    async fn work(&self, task: Task, time: RunTime) -> anyhow::Result<Report> {
        match task {
            Task::Sweep => Ok(Report::Sweep(Box::pin(self.whole_sweep(time)).await?)),
            Task::Count => Ok(Report::Count(self.count_hours(time).await?)),
            Task::Keys => {
                let ends = time.until(ASKING);
                Ok(Report::Keys(Box::pin(self.keys(time, ends)).await))
            }
            Task::Fetch => {
                let ends = time.until(ASKING);
                Ok(Report::Fetch(self.fetch_back_until(ends).await))
            }
            Task::Endpoints { source } => Ok(Report::Endpoints {
                endpoints: Box::pin(self.endpoints(source.as_deref(), time)).await?,
            }),
            Task::Enable { source, add_types } => {
                let may = if add_types {
                    May::AddTypes
                } else {
                    May::Enable
                };
                let enabled = Box::pin(self.enable(&source, may, time)).await?;
                Ok(Report::Enable(Box::new(enabled)))
            }
            Task::Reconcile {
                source,
                name,
                report_only,
            } => {
                let which = Which {
                    source: source.as_deref(),
                    name: name.as_deref(),
                    may_repair: !report_only,
                };
                let reports = Box::pin(self.reconcile_all(which, time)).await?;
                Ok(Report::Reconcile { reports })
            }
            Task::Drain => Ok(Report::Drain(Box::pin(self.drain(time)).await?)),
            Task::Sync(order) => {
                let ends = time.until(ASKING + GRACE);
                let synced = cut(ends, "the sync", self.sync_all(&order, time)).await;
                if order.dry_run {
                    let (sources, silent) = (synced?, Vec::new());
                    return Ok(Report::Sync { sources, silent });
                }
                // The silence check logs its own errors, and runs even if the sync failed.
                let silent = self.watch(time.until(WATCHING)).await;
                let sources = synced?;
                Ok(Report::Sync { sources, silent })
            }
        }
    }

    /// Fetches the objects that notices name, until `ends`. An object whose fetch did not end is
    /// due again in the next run.
    async fn fetch_back_until(&self, ends: Instant) -> FetchReport {
        let fetched = timeout_at(ends, Box::pin(self.fetch_back())).await;
        fetched.unwrap_or_else(|_| {
            tracing::warn!("no time was left in this run to fetch the objects that notices name");
            FetchReport::default()
        })
    }

    /// Runs the sweep and the tasks that follow it. Each task has its share of the time, and runs
    /// even if another task failed.
    async fn whole_sweep(&self, time: RunTime) -> anyhow::Result<SweepReport> {
        let began = (self.clock)();
        let ends = time.until(SWEEP + GRACE);
        let swept = cut(ends, "the sweep", self.sweep(time)).await;
        // These tasks log their own errors, which must not fail a successful sweep.
        let ends = time.until(SWEEP_KEYS);
        join(Box::pin(self.keys(time, ends)), self.fetch_back_until(ends)).await;
        let held = Box::pin(join(self.hold_dead_letters(), self.end_holds(began)));
        let held = timeout_at(time.until(SWEEP_HOLD), held);
        if held.await.is_err() {
            tracing::warn!(
                "no time was left in this run to hold the bodies of dead letters and to end holds"
            );
        }
        // A failed sweep counts as a failed row.
        let told = swept.as_ref().cloned().unwrap_or_else(|_| SweepReport {
            failed: 1,
            ..SweepReport::default()
        });
        self.report_health(&told, began).await;
        swept
    }
}
