//! The sync: asks a provider which events there were, and keeps those that never arrived.
//!
//! The cursor is the clock at the START of the last complete run; a run asks from an overlap
//! before it, inclusively; the cursor moves only after every put; a failed put ends the run.
//! Each of these rules is one whose breach was shown to lose events.

mod page;

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use shared::clock::Millis;
use shared::config::{Source, SourceSync};
use shared::event::{Event, EventKey, Fetched, Via};
use shared::ledger::{Paused, Received, SyncLease};
use shared::preset::{Page, Sync};
use shared::secrets::Secret;

use crate::BackupSync;
use page::{Listing, NoSuchPage};

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
    report: SyncReport,
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
            let (Some(settings), Some(sync)) = (&source.sync, &source.verifier.preset.sync) else {
                continue;
            };
            if only.is_some_and(|name| name != source.name) {
                continue;
            }
            match self.sync_one(source, settings, sync).await {
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

    async fn sync_one(
        &self,
        source: &Source,
        settings: &SourceSync,
        sync: &Sync,
    ) -> anyhow::Result<SyncReport> {
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
            sync,
            settings,
            key,
            ends: now + BUDGET,
            report,
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
            Ok(Some(started)) => {
                run.report.complete = self
                    .parts
                    .inbox
                    .ledger
                    .sync_advance(lease, started, (self.clock)())
                    .await?;
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

    /// Works through the pages; the start of the run when it is complete, `None` when time ran
    /// out.
    async fn pages(
        &self,
        run: &mut Run<'_>,
        lease: &SyncLease,
        now: Millis,
    ) -> anyhow::Result<Option<Millis>> {
        let (mut token, from, started) = match &lease.cursor.page {
            Some(paused) => (Some(paused.token.clone()), paused.from, paused.started),
            None => (None, run.first_second(lease.cursor.at, now), now),
        };
        loop {
            if (self.clock)() > run.ends {
                return Ok(None);
            }
            let Some(listing) = self.page(run, from, token.as_deref()).await? else {
                return Ok(None);
            };
            run.report.pages += 1;
            for item in &listing.items {
                self.take(run, item).await?;
            }
            match listing.next {
                None => return Ok(Some(started)),
                Some(next) if token.as_ref() == Some(&next) => {
                    bail!("the provider's list does not go on: its next page is the same one")
                }
                Some(next) => {
                    let paused = Paused {
                        token: next,
                        from,
                        started,
                    };
                    let until = run.ends + Duration::from_secs(60);
                    if !self
                        .parts
                        .inbox
                        .ledger
                        .sync_page(lease, &paused, until)
                        .await?
                    {
                        bail!("another run took over");
                    }
                    token = Some(paused.token);
                }
            }
        }
    }

    /// Puts one listed event through the door, unless the ledger has it.
    async fn take(&self, run: &mut Run<'_>, item: &page::Item) -> anyhow::Result<()> {
        run.report.listed += 1;
        let key = EventKey::new(&run.source.name, &item.id);
        // Only to save the writes of a refused put; the put itself decides.
        if self.parts.inbox.ledger.has(&key).await? {
            return Ok(());
        }
        let preset = &run.source.verifier.preset;
        let event = Event::fetched(Fetched {
            source: &run.source.name,
            provider: if preset.generic {
                &run.source.name
            } else {
                &preset.id
            },
            preset: &preset.id,
            id: &item.id,
            kind: &item.kind,
            body: item.body.clone(),
            now: (self.clock)(),
            via: Via::BackupSync,
            config: self.parts.config.hash(),
        });
        let kept = self.parts.inbox.accept(&event, (self.clock)()).await?;
        if kept.iter().any(|kept| kept.received == Received::New) {
            run.report.found += 1;
            tracing::warn!(event.id = %event.id(), event.key = %key, source = run.source.name, kind = item.kind, "found event {key}, which never arrived");
        }
        Ok(())
    }
}

impl Run<'_> {
    /// The earliest time to ask for.
    fn first_second(&mut self, cursor: Option<Millis>, now: Millis) -> Millis {
        let wanted = match cursor {
            Some(cursor) => cursor - self.settings.overlap,
            None => now - self.settings.first_lookback,
        };
        let reachable = now - Duration::from_secs(u64::from(self.sync.retention_days) * 24 * 3600);
        if cursor.is_some_and(|cursor| cursor < reachable) {
            self.report.unreachable_s = reachable.since(wanted).as_secs();
            tracing::error!(
                source = self.source.name,
                seconds = self.report.unreachable_s,
                "the list of {} does not reach back to the last sync: events of that time are out of reach",
                self.source.name,
            );
        }
        wanted.max(reachable)
    }

    /// The query of a page.
    fn query(&self, from: Millis, token: Option<&str>) -> Vec<(String, String)> {
        let since = from.secs().to_string();
        let mut query: Vec<(String, String)> = self
            .sync
            .request
            .query
            .iter()
            .map(|(name, value)| (name.clone(), value.replace("{since_unix}", &since)))
            .collect();
        let Page::Cursor { param, .. } = &self.sync.page;
        query.extend(token.map(|token| (param.clone(), token.to_owned())));
        query
    }

    fn read(&self, body: &[u8]) -> anyhow::Result<Listing> {
        Listing::read(self.sync, body)
    }
}

fn owner() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    shared::chance::fill(&mut bytes)?;
    Ok(format!("backup-sync/{}", hex::encode(bytes)))
}
