//! backup-sync: what makes the inbox live when all else was lost.
//!
//! `{"task":"sweep"}` every five minutes: rings for open events whose doorbell may be lost and for
//! retries that are due, then fetches the certificates and key sets that requests wait for
//! (`{"task":"keys"}` does that alone) and says how the inbox is. `{"task":"drain"}` every five
//! minutes: puts what the catcher spilled into the ledger, and doorbells of the backlog among those of
//! now. `{"task":"sync"}` every 15 minutes: asks providers
//! for events since the cursor and puts what never arrived through the same door; then it looks which
//! sources have fallen silent. `{"task":"reconcile"}` every day: holds
//! the providers' objects against ours, and reports what differs.
//! `{"task":"endpoints"}` every hour: looks whether the providers' subscriptions still lead to us;
//! `{"task":"enable"}`, by an operator, enables one again. `{"task":"count"}` every hour:
//! counts the events of hours that are over.

mod again;
mod api;
mod beat;
mod count;
mod coverage;
mod drain;
mod endpoint;
mod health;
mod keys;
mod reconcile;
mod silence;
mod sweep;
mod sync;

use serde::{Deserialize, Serialize};
use shared::breaker::Breakers;
use shared::clock::Clock;
use shared::outbound::Outbound;
use shared::pause::Pauses;
use shared::settings::Parts;

use endpoint::May;

pub use count::CountReport;
pub use drain::DrainReport;
pub use endpoint::{Enabled, Synced};
pub use keys::KeysReport;
pub use silence::Silence;
pub use sweep::SweepReport;
pub use sync::{Named, Order, SyncReport};

/// What a schedule asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "task", rename_all = "lowercase")]
pub enum Task {
    Sweep,
    Count,
    Keys,
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
    Sync(Order),
}

impl Task {
    /// The name of the round that it is, if it is a whole one: what a schedule asks for, and not an
    /// operator who asks for a part.
    fn round(&self) -> Option<&'static str> {
        match self {
            Self::Sweep => Some("sweep"),
            Self::Drain => Some("drain"),
            Self::Sync(order) if *order == Order::default() => Some("sync"),
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
    Endpoints {
        endpoints: Vec<shared::endpoint::Status>,
    },
    Enable(Box<Enabled>),
    Reconcile {
        reports: Vec<shared::reconcile::Report>,
    },
    Drain(DrainReport),
    Sync {
        sources: Vec<SyncReport>,
        silent: Vec<Silence>,
    },
}

/// Everything that the tasks need, made once per process.
pub struct BackupSync {
    parts: Parts,
    outbound: Outbound,
    breakers: Breakers,
    pauses: Pauses,
    health: health::Health,
    beats: beat::Beats,
    clock: Clock,
}

impl BackupSync {
    pub fn new(parts: Parts, clock: Clock) -> Self {
        let outbound = Outbound::new(parts.config.forward.allow_loopback);
        Self::with_outbound(parts, outbound, clock)
    }

    /// The same with a way out that was made elsewhere.
    pub fn with_outbound(parts: Parts, outbound: Outbound, clock: Clock) -> Self {
        Self {
            breakers: Breakers::new(parts.aws.dynamodb(), &parts.table),
            pauses: Pauses::new(parts.inbox.ledger.clone()),
            health: health::Health::default(),
            beats: beat::Beats::default(),
            parts,
            outbound,
            clock,
        }
    }

    pub async fn run(&self, task: Task) -> anyhow::Result<Report> {
        let round = task.round();
        let report = self.work(task).await?;
        if let Some(round) = round {
            self.beat(round).await;
        }
        Ok(report)
    }

    async fn work(&self, task: Task) -> anyhow::Result<Report> {
        match task {
            Task::Sweep => {
                let began = (self.clock)();
                let report = Box::pin(self.sweep()).await?;
                // Its trouble is in the log, and must not make a sweep that went well a failed one.
                self.keys().await;
                self.hold_dead_letters().await;
                self.tell_health(&report, began).await;
                Ok(Report::Sweep(report))
            }
            Task::Count => Ok(Report::Count(self.count_hours().await?)),
            Task::Keys => Ok(Report::Keys(self.keys().await)),
            Task::Endpoints { source } => Ok(Report::Endpoints {
                endpoints: Box::pin(self.endpoints(source.as_deref())).await?,
            }),
            Task::Enable { source, add_types } => {
                let may = if add_types {
                    May::AddTypes
                } else {
                    May::Enable
                };
                let enabled = Box::pin(self.enable(&source, may)).await?;
                Ok(Report::Enable(Box::new(enabled)))
            }
            Task::Reconcile { source, name } => Ok(Report::Reconcile {
                reports: Box::pin(self.reconcile_all(source.as_deref(), name.as_deref())).await?,
            }),
            Task::Drain => Ok(Report::Drain(Box::pin(self.drain()).await?)),
            Task::Sync(order) => {
                let synced = self.sync_all(&order).await;
                if order.dry_run {
                    let (sources, silent) = (synced?, Vec::new());
                    return Ok(Report::Sync { sources, silent });
                }
                // Its trouble is in the log; and that of the sync is no reason not to listen.
                let silent = self.watch().await;
                let sources = synced?;
                Ok(Report::Sync { sources, silent })
            }
        }
    }
}
