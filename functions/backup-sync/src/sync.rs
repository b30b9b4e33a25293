//! The sync: asks a provider which events there were, and keeps those that never arrived.
//!
//! The cursor is the clock at the START of the last complete run; a run asks from an overlap
//! before it, inclusively; the cursor moves only after every put; a failed put ends the run.
//! Each of these rules is one whose breach was shown to lose events.
//!
//! A list that is read from a place and not from a time keeps that place beside the cursor, by the
//! same rules.

mod ask;
mod exchange;
mod github_app;
mod item;
mod link;
mod missing;
mod page;
mod pages;
mod span;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use shared::clock::Millis;
use shared::config::{Source, SourceSync};
use shared::event::EventKey;
use shared::preset::Sync;
use shared::secrets::Secret;

use crate::BackupSync;
use crate::coverage::Counting;
use ask::Pace;
use pages::{End, NoSuchPage};

/// How long a run may go on; the function is killed at 300 s.
const BUDGET: Duration = Duration::from_secs(240);

/// What a run of one source did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SyncReport {
    pub source: String,
    pub pages: u64,
    /// Events that the provider listed.
    pub listed: u64,
    /// Of them, those that we did not have: gaps.
    pub found: u64,
    /// Of them, those that the provider was asked to deliver again.
    pub asked: u64,
    /// Of them, those that the provider does not have any more.
    pub gone: u64,
    /// The whole span was asked for. If not, the next run goes on where this one stopped.
    pub complete: bool,
    /// Another run was at it.
    pub skipped: bool,
    /// Seconds of our absence that the provider's list no longer reaches back to.
    pub unreachable_s: u64,
}

/// One run over one source.
struct Run<'r> {
    source: &'r Source,
    sync: &'r Sync,
    settings: &'r SourceSync,
    key: Secret,
    ends: Millis,
    /// The token that was had for the key, where the provider wants one.
    bearer: Option<String>,
    /// Before this the provider takes no request.
    pace: Pace,
    /// What was asked for again in this run: a delivery log names an event many times.
    asked: BTreeSet<EventKey>,
    report: SyncReport,
    counting: Option<Counting>,
}

impl BackupSync {
    /// Every source, or one. A source that fails does not keep the others from their turn; that
    /// one failed is said at the end.
    pub(crate) async fn sync_all(&self, only: Option<&str>) -> anyhow::Result<Vec<SyncReport>> {
        if let Some(name) = only
            && self
                .parts
                .config
                .source(name)
                .is_none_or(|source| source.sync.is_none())
        {
            bail!("source {name:?} has no sync");
        }
        let mut reports = Vec::new();
        let mut failed = Vec::new();
        for source in self.parts.config.sources() {
            let Some(settings) = &source.sync else {
                continue;
            };
            if only.is_some_and(|name| name != source.name) {
                continue;
            }
            match self.sync_one(source, settings).await {
                Ok(report) => {
                    tracing::info!(
                        source = source.name,
                        pages = report.pages,
                        listed = report.listed,
                        found = report.found,
                        complete = report.complete,
                        "synced {}: {} of {} events were missing",
                        source.name,
                        report.found,
                        report.listed,
                    );
                    reports.push(report);
                }
                Err(error) => {
                    tracing::error!(
                        source = source.name,
                        error = format!("{error:#}"),
                        "could not sync {}",
                        source.name
                    );
                    failed.push(format!("{}: {error:#}", source.name));
                }
            }
        }
        if failed.is_empty() {
            Ok(reports)
        } else {
            bail!("could not sync {}", failed.join("; "))
        }
    }

    async fn sync_one(&self, source: &Source, settings: &SourceSync) -> anyhow::Result<SyncReport> {
        let now = (self.clock)();
        let live = self.parts.secrets.live(&settings.secret, now).await?;
        let key = live
            .first()
            .cloned()
            .with_context(|| format!("there is no API key {:?}", settings.secret))?;
        let owner = owner()?;
        let report = SyncReport {
            source: source.name.clone(),
            ..SyncReport::default()
        };
        let mut run = Run {
            source,
            sync: &settings.list,
            settings,
            key,
            ends: now + BUDGET,
            bearer: None,
            pace: None,
            asked: BTreeSet::new(),
            report,
            counting: None,
        };
        // The lease outlasts the function: who holds it is alive or was killed.
        let Some(lease) = self
            .parts
            .inbox
            .ledger
            .sync_lease(&source.name, &owner, now, BUDGET + Duration::from_secs(60))
            .await?
        else {
            run.report.skipped = true;
            return Ok(run.report);
        };
        // The run begins with the lease: another one may have ended while we waited for it.
        let now = (self.clock)();
        match self.pages(&mut run, &lease, now).await {
            Ok(Some(End { started, mark })) => {
                self.count(run.counting.take(), settings).await;
                let (ledger, now) = (&self.parts.inbox.ledger, (self.clock)());
                run.report.complete = match mark {
                    None => ledger.sync_advance(lease, started, now).await?,
                    Some(mark) => ledger.sync_advance_to(lease, started, &mark, now).await?,
                };
                Ok(run.report)
            }
            Ok(None) => {
                self.parts.inbox.ledger.sync_release(lease).await?;
                Ok(run.report)
            }
            Err(error) => {
                // What the pages before it brought is kept, and so is where to go on, unless there
                // is no going on from there.
                let ledger = &self.parts.inbox.ledger;
                let ended = if error.is::<NoSuchPage>() {
                    ledger.sync_restart(lease).await
                } else {
                    ledger.sync_release(lease).await
                };
                if let Err(second) = ended {
                    tracing::warn!(
                        error = format!("{second:#}"),
                        "the sync lease has to run out"
                    );
                }
                Err(error)
            }
        }
    }
}

fn owner() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    shared::chance::fill(&mut bytes)?;
    Ok(format!("backup-sync/{}", hex::encode(bytes)))
}
