//! backup-sync: what makes the inbox live when all else was lost.
//!
//! `{"task":"sweep"}` every five minutes: rings for open events whose message may be lost and for
//! retries that are due, then fetches the certificates and key sets that requests wait for
//! (`{"task":"keys"}` does that alone) and the objects that unsigned notices name (`{"task":"fetch"}`),
//! and says how the inbox is. `{"task":"drain"}` every five
//! minutes: puts what the catcher spilled into the ledger, and messages of the backlog among those of
//! now. `{"task":"sync"}` every 15 minutes: asks providers
//! for events since the cursor and puts what never arrived through the same door; then it looks which
//! sources have fallen silent. `{"task":"reconcile"}` every day: holds
//! the providers' objects against ours, and reports what differs.
//! `{"task":"endpoints"}` every hour: looks whether the providers' subscriptions still lead to us;
//! `{"task":"enable"}`, by an operator, enables one again. `{"task":"count"}` every hour:
//! counts the events of hours that are over.

mod api;
mod count;
mod coverage;
mod deadline;
mod drain;
mod endpoint;
mod fetch_back;
mod health;
mod heartbeat;
mod keys;
mod reconcile;
mod retry;
mod silence;
mod sweep;
mod sync;

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

pub use count::CountReport;
pub use deadline::RunTime;
pub use drain::DrainReport;
pub use endpoint::{Enabled, Synced};
pub use fetch_back::FetchReport;
pub use keys::KeysReport;
pub use silence::Silence;
pub use sweep::SweepReport;
pub use sync::{Named, SyncReport, SyncRequest};

/// What a schedule asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "task", rename_all = "lowercase")]
pub enum Task {
    Sweep,
    Count,
    Keys,
    Fetch,
    Endpoints {
        /// Only this source.
        source: Option<String>,
    },
    Enable {
        source: String,
        /// Have it tell of the types that are missing, too.
        #[serde(default)]
        add_types: bool,
    },
    Reconcile {
        /// Only this source.
        source: Option<String>,
        /// Only the comparison of this name.
        name: Option<String>,
    },
    Drain,
    Sync(SyncRequest),
}

impl Task {
    /// The name of the round that it is, if it is a whole one: what a schedule asks for, and not an
    /// operator who asks for a part.
    fn round(&self) -> Option<&'static str> {
        match self {
            Self::Sweep => Some("sweep"),
            Self::Drain => Some("drain"),
            Self::Sync(order) if *order == SyncRequest::default() => Some("sync"),
            Self::Endpoints { source: None } => Some("endpoints"),
            Self::Reconcile {
                source: None,
                name: None,
            } => Some("reconcile"),
            _ => None,
        }
    }
}

/// What was done.
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

/// Everything that the tasks need, made once per process.
pub struct BackupSync {
    parts: Services,
    outbound: Outbound,
    breakers: Breakers,
    pauses: Pauses,
    health: health::Health,
    beats: heartbeat::Heartbeats,
    clock: Clock,
}

impl BackupSync {
    pub fn new(parts: Services, clock: Clock) -> Self {
        let outbound = Outbound::new(parts.config.forward.allow_loopback);
        Self::with_outbound(parts, outbound, clock)
    }

    /// The same with a way out that was made elsewhere.
    pub fn with_outbound(parts: Services, outbound: Outbound, clock: Clock) -> Self {
        Self {
            breakers: Breakers::new(parts.aws.dynamodb(), &parts.table),
            pauses: Pauses::new(parts.inbox.ledger.clone()),
            health: health::Health::default(),
            beats: heartbeat::Heartbeats::default(),
            parts,
            outbound,
            clock,
        }
    }

    /// A run that has all the time that the template gives it.
    pub async fn run(&self, task: Task) -> anyhow::Result<Report> {
        self.run_within(task, RunTime::of(BACKUP_SYNC)).await
    }

    /// A run that ends by itself before its time is over. Its end is noted also where it failed: who
    /// looks at the schedules wants to know that it runs, and that it failed is told by its error.
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
        let report = cut(ends, "what it was at", self.work(task, time)).await;
        if let Some(round) = round
            && timeout_at(time.until(BACKUP_SYNC), self.beat(round))
                .await
                .is_err()
        {
            tracing::warn!("no time is left in this run to note the end of {round}");
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
            Task::Reconcile { source, name } => {
                let (source, name) = (source.as_deref(), name.as_deref());
                let reports = Box::pin(self.reconcile_all(source, name, time)).await?;
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
                // Its trouble is in the log; and that of the sync is no reason not to listen.
                let silent = self.watch(time.until(WATCHING)).await;
                let sources = synced?;
                Ok(Report::Sync { sources, silent })
            }
        }
    }

    /// What notices name, fetched until then. What is cut off is due again in the next run.
    async fn fetch_back_until(&self, ends: Instant) -> FetchReport {
        let fetched = timeout_at(ends, Box::pin(self.fetch_back())).await;
        fetched.unwrap_or_else(|_| {
            tracing::warn!("no time is left in this run to fetch what notices name");
            FetchReport::default()
        })
    }

    /// The sweep, and what comes with it. Each has its share of the time, and none waits for another
    /// to go well.
    async fn whole_sweep(&self, time: RunTime) -> anyhow::Result<SweepReport> {
        let began = (self.clock)();
        let ends = time.until(SWEEP + GRACE);
        let swept = cut(ends, "the sweep", self.sweep(time)).await;
        // Their trouble is in the log, and must not make a sweep that went well a failed one.
        let ends = time.until(SWEEP_KEYS);
        join(Box::pin(self.keys(time, ends)), self.fetch_back_until(ends)).await;
        let held = timeout_at(time.until(SWEEP_HOLD), self.hold_dead_letters());
        if held.await.is_err() {
            tracing::warn!("no time is left in this run to hold the bodies of dead letters");
        }
        // A sweep that failed handled none of its rows.
        let told = swept.as_ref().cloned().unwrap_or_else(|_| SweepReport {
            failed: 1,
            ..SweepReport::default()
        });
        self.report_health(&told, began).await;
        swept
    }
}
