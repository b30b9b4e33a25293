//! The sync asks a provider for its events, and stores those that never arrived.
//!
//! The cursor is the time at which the last complete run STARTED. A run requests events from an
//! overlap before the cursor, inclusively. The cursor moves only after every put has succeeded, and
//! a failed put ends the run. Without any one of these rules, the model in `infra/checks/models`
//! loses events.
//!
//! Some lists are read from a position instead of a time. The ledger then stores this position with
//! the cursor, and the same rules apply to it.

mod access_token;
mod fault;
mod github_app;
mod item;
mod link_header;
mod loop_guard;
mod missing;
mod page;
mod pages;
mod report;
mod request;
mod time_window;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use futures::stream::{self, StreamExt as _};
use shared::aws::secrets::Secret;
use shared::base::clock::UnixMillis;
use shared::base::timing::{ASKING, BACKUP_SYNC};
use shared::inbox::ledger::SyncLease;
use shared::sources::{Config, Source, SourceSync};
use shared::webhook::event::EventKey;
use shared::webhook::preset::Sync;
use tokio::time::Instant;

pub(crate) use link_header::allowed;
pub(crate) use request::basic;

use crate::coverage::Counting;
use crate::deadline::on;
use crate::{BackupSync, RunTime};
use fault::Fault;
use pages::{End, NoSuchPage};
pub use report::{Named, SyncReport, SyncRequest};
use report::{say_done, say_failed, say_left};
use request::Pace;

/// The maximum time by which a cursor can be in the future, because clocks differ.
const AHEAD: Duration = Duration::from_secs(300);

/// The number of sources whose last turn is read in parallel.
const AT_ONCE: usize = 8;

/// One turn of one source.
struct Run<'r> {
    source: &'r Source,
    sync: &'r Sync,
    settings: &'r SourceSync,
    key: Secret,
    /// The end of the turn.
    ends: UnixMillis,
    /// The end of the lease. The lease is longer than the function timeout, so it cannot expire
    /// while its holder still runs.
    lease: UnixMillis,
    /// Whether the provider requires a wait that ends after `ends`.
    has_to_wait: bool,
    /// The token that was exchanged for the key, if the provider requires one.
    bearer: Option<String>,
    /// The earliest time of the next request.
    pace: Pace,
    /// Events whose redelivery this run has requested. A delivery log can name an event many times.
    asked: BTreeSet<EventKey>,
    report: SyncReport,
    counting: Option<Counting>,
    lookback: Option<Duration>,
    only_looks: bool,
    /// The fault of an event. The run processes the other events before it reports the fault.
    fault: Option<Fault>,
}

impl BackupSync {
    /// Syncs all sources, or one. The source whose last turn is the oldest comes first. Each source
    /// has a share of the time, so that a source that fails, is slow or is throttled does not block
    /// the others. The remaining time is for sources that have more events to list. Errors are
    /// returned at the end.
    pub(crate) async fn sync_all(
        &self,
        order: &SyncRequest,
        time: RunTime,
    ) -> anyhow::Result<Vec<SyncReport>> {
        let config = self.services.sources.config();
        if let Some(name) = &order.source {
            let source = config.source(name);
            let has_sync = source.is_some_and(|source| source.sync.is_some());
            ensure!(has_sync, "source {name:?} has no sync");
        }
        let ends = time.until(ASKING);
        let (mut turns, mut again) = (self.turns(&config, order).await, VecDeque::new());
        let mut reports: Vec<SyncReport> = Vec::new();
        let mut failed = Vec::new();
        while let Some((source, settings)) = turns.pop_front() {
            let Some(turn) = time.turn(ends, turns.len()) else {
                let left = turns.iter().map(|(source, _)| source.name.as_str());
                let left: Vec<&str> = std::iter::once(source.name.as_str()).chain(left).collect();
                say_left(&left);
                break;
            };
            let lease = on(self.clock, time.until(BACKUP_SYNC)) + Duration::from_secs(60);
            match self.sync_one(source, settings, order, (turn, lease)).await {
                Ok((report, goes_on)) => {
                    say_done(&report, order);
                    if goes_on && !order.dry_run {
                        again.push_back((source, settings));
                    }
                    match reports.iter_mut().find(|one| one.source == report.source) {
                        Some(before) => before.go_on(&report),
                        None => reports.push(report),
                    }
                }
                Err(error) => {
                    say_failed(&source.name, &error);
                    failed.push(format!("{}: {error:#}", source.name));
                }
            }
            if turns.is_empty() {
                turns = std::mem::take(&mut again);
            }
        }
        if failed.is_empty() {
            Ok(reports)
        } else {
            bail!("could not sync {}", failed.join("; "))
        }
    }

    /// Returns the sources to sync, in the order of their turns. A source whose last turn cannot be
    /// read comes first: if the ledger is unavailable, the sync of this source reports the error.
    async fn turns<'c>(
        &self,
        config: &'c Config,
        order: &SyncRequest,
    ) -> VecDeque<(&'c Source, &'c SourceSync)> {
        let sources = config.sources();
        let wanted = |source: &&Source| match &order.source {
            Some(name) => *name == source.name,
            None => true,
        };
        let chosen = sources.filter(wanted);
        let chosen = chosen.filter_map(|source| Some((source, source.sync.as_ref()?)));
        let chosen: Vec<_> = chosen.collect();
        if chosen.len() < 2 {
            return chosen.into();
        }
        let ledger = &self.services.inbox.ledger;
        let served = stream::iter(chosen).map(async |(source, settings)| {
            let served = ledger
                .sync()
                .sync_served(&source.name)
                .await
                .unwrap_or_default();
            (served, source, settings)
        });
        let mut served: Vec<_> = served.buffered(AT_ONCE).collect().await;
        served.sort_by_key(|(served, ..)| *served);
        let turns = served.into_iter();
        turns
            .map(|(_, source, settings)| (source, settings))
            .collect()
    }

    /// Runs one turn of a source. Returns the report, and whether another turn would continue the
    /// run.
    async fn sync_one(
        &self,
        source: &Source,
        settings: &SourceSync,
        order: &SyncRequest,
        (turn, lease): (Instant, UnixMillis),
    ) -> anyhow::Result<(SyncReport, bool)> {
        let now = (self.clock)();
        let lookback = order.lookback_s.map(Duration::from_secs);
        ensure!(
            lookback.is_none() || settings.list.mark.is_none(),
            "the list of {} starts at a position, not at a time; remove the lookback",
            source.name
        );
        let mut run = Run {
            source,
            sync: &settings.list,
            settings,
            key: self.api_key(&settings.secret).await?,
            ends: on(self.clock, turn),
            lease,
            has_to_wait: false,
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
            let cursor = self
                .services
                .inbox
                .ledger
                .sync()
                .sync_cursor(&source.name)
                .await?;
            let ended = self.pages(&mut run, &cursor, None, now).await?;
            run.report.complete = ended.is_some();
        } else {
            self.store_missing(&mut run, now).await?;
        }
        match run.fault {
            None => {
                let report = run.report;
                let stopped = !report.complete && !report.skipped && !run.has_to_wait;
                let goes_on = stopped && report.pages > 0;
                Ok((report, goes_on))
            }
            Some(fault) => {
                Err(anyhow!("the list of {} has this fault", source.name).context(fault))
            }
        }
    }

    /// Syncs a source under its lease, and moves the cursor after a complete run.
    async fn store_missing(&self, run: &mut Run<'_>, now: UnixMillis) -> anyhow::Result<()> {
        let ledger = &self.services.inbox.ledger;
        let (source, owner) = (run.source.name.as_str(), owner()?);
        let lease = ledger
            .sync()
            .sync_lease(source, &owner, now, run.lease.since(now));
        let Some(lease) = lease.await? else {
            run.report.skipped = true;
            return Ok(());
        };
        // The run starts when it gets the lease, because another run may have ended in the
        // meantime.
        let now = (self.clock)();
        if lease.cursor.at.is_some_and(|at| at > now + AHEAD) {
            return self.send_back(run, lease, now).await;
        }
        let cursor = lease.cursor.clone();
        let ended = self.pages(run, &cursor, Some(&lease), now).await;
        let restart = run.must_restart_from_cursor(ended.as_ref().err());
        match ended {
            Ok(Some(End { started, mark })) if !restart => {
                self.count(run.counting.take(), run.settings).await;
                let now = (self.clock)();
                run.report.complete = match mark {
                    None => ledger.sync().sync_advance(lease, started, now).await?,
                    Some(mark) => {
                        ledger
                            .sync()
                            .sync_advance_to(lease, started, &mark, now)
                            .await?
                    }
                };
                Ok(())
            }
            Ok(_) => self.stop(lease, restart).await,
            Err(error) => {
                if let Err(second) = self.stop(lease, restart).await {
                    tracing::warn!(
                        error = format!("{second:#}"),
                        "could not release the lease of the sync; the lease expires"
                    );
                }
                Err(error)
            }
        }
    }

    /// Ends an incomplete run. The ledger keeps the stored events and the place to continue from,
    /// unless the next run has to restart at the cursor.
    async fn stop(&self, lease: SyncLease, restart: bool) -> anyhow::Result<()> {
        let ledger = &self.services.inbox.ledger;
        if restart {
            ledger.sync().sync_restart(lease).await
        } else {
            ledger.sync().sync_release(lease).await
        }
    }

    /// Moves back a cursor that is in the future, because a run would request no event before it.
    /// The cursor moves back as far as the list reaches, because it is unknown how long the clock
    /// was wrong.
    async fn send_back(
        &self,
        run: &Run<'_>,
        lease: SyncLease,
        now: UnixMillis,
    ) -> anyhow::Result<()> {
        let ledger = &self.services.inbox.ledger;
        ledger.sync().sync_release(lease).await?;
        let fault =
            anyhow!("the sync of {} has this fault", run.source.name).context(Fault::CursorAhead);
        if run.sync.mark.is_some() {
            return Err(
                fault.context("the position in the list is in the future; the sync continues when the clock reaches the position")
            );
        }
        let reach = run.reach().unwrap_or(run.settings.first_lookback);
        ledger
            .provider_reports()
            .sync_rewind(&run.source.name, now - reach, now)
            .await?;
        Err(fault.context("the next run requests the whole list"))
    }
}

impl Run<'_> {
    /// Returns whether the next run has to begin at the cursor instead of the place where this run
    /// stopped. This is the case if the provider rejects that place, or if a page before it was
    /// faulty.
    fn must_restart_from_cursor(&self, error: Option<&anyhow::Error>) -> bool {
        let repeats = |error: &anyhow::Error| error.downcast_ref() == Some(&Fault::Repeats);
        let refused = error.is_some_and(anyhow::Error::is::<NoSuchPage>);
        // A run of a list with positions always begins at the end of the last complete run.
        refused
            || self.sync.mark.is_none()
                && (self.fault == Some(Fault::TooLong) || error.is_some_and(repeats))
    }
}

fn owner() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    shared::base::random::fill(&mut bytes)?;
    Ok(format!("backup-sync/{}", hex::encode(bytes)))
}
