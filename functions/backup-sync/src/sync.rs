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
mod fault;
mod github_app;
mod item;
mod link;
mod missing;
mod page;
mod pages;
mod span;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use shared::clock::Millis;
use shared::config::{Source, SourceSync};
use shared::event::EventKey;
use shared::ledger::SyncLease;
use shared::preset::Sync;
use shared::secrets::Secret;

use crate::BackupSync;
use crate::coverage::Counting;
use ask::Pace;
use fault::Fault;
use pages::{End, NoSuchPage};

/// How long a run may go on; the function is killed at 300 s.
const BUDGET: Duration = Duration::from_secs(240);

/// How much later than now a cursor may be, as clocks differ.
const AHEAD: Duration = Duration::from_secs(300);

/// What is to be synced, and how.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Order {
    /// Only this source.
    pub source: Option<String>,
    /// Only look what a run would find: nothing is written, and no redelivery is asked for.
    #[serde(default)]
    pub dry_run: bool,
    /// Seconds before now from which on to ask, where that is earlier than the cursor.
    pub lookback_s: Option<u64>,
}

impl Order {
    pub(crate) fn of(source: &str) -> Self {
        Self {
            source: Some(source.to_owned()),
            ..Self::default()
        }
    }
}

/// An event that a run which only looked found to be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

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
    /// The first hundred that are missing, where a run only looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Named>,
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
    lookback: Option<Duration>,
    only_looks: bool,
    /// What was wrong with an event; the others are seen to before it is told.
    fault: Option<Fault>,
}

impl BackupSync {
    /// Every source, or one. A source that fails does not keep the others from their turn; that
    /// one failed is said at the end.
    pub(crate) async fn sync_all(&self, order: &Order) -> anyhow::Result<Vec<SyncReport>> {
        if let Some(name) = &order.source {
            let source = self.parts.config.source(name);
            let has_sync = source.is_some_and(|source| source.sync.is_some());
            ensure!(has_sync, "source {name:?} has no sync");
        }
        let mut reports = Vec::new();
        let mut failed = Vec::new();
        for source in self.parts.config.sources() {
            let Some(settings) = &source.sync else {
                continue;
            };
            if order
                .source
                .as_ref()
                .is_some_and(|name| *name != source.name)
            {
                continue;
            }
            match self.sync_one(source, settings, order).await {
                Ok(report) => {
                    say_done(&report, order);
                    reports.push(report);
                }
                Err(error) => {
                    say_failed(&source.name, &error);
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

    async fn sync_one(
        &self,
        source: &Source,
        settings: &SourceSync,
        order: &Order,
    ) -> anyhow::Result<SyncReport> {
        let now = (self.clock)();
        let lookback = order.lookback_s.map(Duration::from_secs);
        ensure!(
            lookback.is_none() || settings.list.mark.is_none(),
            "the list of {} is read from a place and not from a time: it cannot be asked for more",
            source.name
        );
        let mut run = Run {
            source,
            sync: &settings.list,
            settings,
            key: self.api_key(&settings.secret).await?,
            ends: now + BUDGET,
            bearer: None,
            pace: None,
            asked: BTreeSet::new(),
            report: SyncReport {
                source: source.name.clone(),
                ..SyncReport::default()
            },
            counting: None,
            lookback,
            only_looks: order.dry_run,
            fault: None,
        };
        if order.dry_run {
            let cursor = self.parts.inbox.ledger.sync_cursor(&source.name).await?;
            let ended = self.pages(&mut run, &cursor, None, now).await?;
            run.report.complete = ended.is_some();
        } else {
            self.keep_what_is_missing(&mut run, now).await?;
        }
        match run.fault {
            None => Ok(run.report),
            Some(fault) => Err(anyhow!("in the list of {}", source.name).context(fault)),
        }
    }

    /// A run under the lease of the source, which moves its cursor when all of it is done.
    async fn keep_what_is_missing(&self, run: &mut Run<'_>, now: Millis) -> anyhow::Result<()> {
        let ledger = &self.parts.inbox.ledger;
        let (source, owner) = (run.source.name.as_str(), owner()?);
        // The lease outlasts the function: who holds it is alive or was killed.
        let lease = ledger.sync_lease(source, &owner, now, BUDGET + Duration::from_secs(60));
        let Some(lease) = lease.await? else {
            run.report.skipped = true;
            return Ok(());
        };
        // The run begins with the lease: another one may have ended while we waited for it.
        let now = (self.clock)();
        if lease.cursor.at.is_some_and(|at| at > now + AHEAD) {
            return self.send_back(run, lease, now).await;
        }
        let cursor = lease.cursor.clone();
        match self.pages(run, &cursor, Some(&lease), now).await {
            Ok(Some(_)) if run.fault == Some(Fault::TooLong) => ledger.sync_restart(lease).await,
            Ok(Some(End { started, mark })) => {
                self.count(run.counting.take(), run.settings).await;
                let now = (self.clock)();
                run.report.complete = match mark {
                    None => ledger.sync_advance(lease, started, now).await?,
                    Some(mark) => ledger.sync_advance_to(lease, started, &mark, now).await?,
                };
                Ok(())
            }
            Ok(None) => ledger.sync_release(lease).await,
            Err(error) => {
                // What the pages before it brought is kept, and so is where to go on, unless there
                // is no going on from there. A list that repeats itself was never read to there.
                let repeats = error.downcast_ref() == Some(&Fault::Repeats);
                let ended = if error.is::<NoSuchPage>() || repeats && run.sync.mark.is_none() {
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

    /// A cursor in the future would have nothing asked for until then. It goes back as far as the
    /// list reaches, for nobody knows how long the clock was wrong.
    async fn send_back(&self, run: &Run<'_>, lease: SyncLease, now: Millis) -> anyhow::Result<()> {
        let ledger = &self.parts.inbox.ledger;
        ledger.sync_release(lease).await?;
        let fault = anyhow!("in the sync of {}", run.source.name).context(Fault::CursorAhead);
        if run.sync.mark.is_some() {
            return Err(fault.context("its place in the list is kept until the clock is there"));
        }
        let reach = run.reach().unwrap_or(run.settings.first_lookback);
        ledger
            .sync_rewind(&run.source.name, now - reach, now)
            .await?;
        Err(fault.context("the next run asks for all that the list has"))
    }
}

fn say_done(report: &SyncReport, order: &Order) {
    let but = if order.dry_run {
        "; nothing was added"
    } else {
        ""
    };
    tracing::info!(
        source = report.source,
        pages = report.pages,
        listed = report.listed,
        found = report.found,
        complete = report.complete,
        "synced {}: {} of {} events were missing{but}",
        report.source,
        report.found,
        report.listed,
    );
}

/// The line of which the metric is made.
fn say_failed(source: &str, error: &anyhow::Error) {
    tracing::error!(
        source,
        sync_failed = 1,
        fault = Fault::name_of(error),
        error = format!("{error:#}"),
        "could not sync {source}"
    );
}

fn owner() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    shared::chance::fill(&mut bytes)?;
    Ok(format!("backup-sync/{}", hex::encode(bytes)))
}
