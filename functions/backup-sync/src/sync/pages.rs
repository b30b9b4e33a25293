//! Reads the pages of a list, from where the last run stopped.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, bail};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cursor, ResumePoint, SyncLease};
use shared::webhook::preset::{Auth, Page, Sorted};

use super::Run;
use super::fault::Fault;
use super::link_header;
use super::loop_guard::LoopGuard;
use super::page::{Listing, first_mark};
use super::time_window::TimeWindow;
use crate::BackupSync;
use crate::retry::Refused;

/// The end of a complete run.
#[derive(Debug)]
pub(super) struct End {
    /// The start of the run.
    pub(super) started: UnixMillis,
    /// The position at which the next run continues, if the list has positions.
    pub(super) mark: Option<String>,
}

/// The provider does not accept the stored page.
#[derive(Debug)]
pub(super) struct NoSuchPage;

impl fmt::Display for NoSuchPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the list cannot continue where the last run stopped; the next run restarts")
    }
}

impl BackupSync {
    /// Processes the pages. Returns the end of a complete run, or `None` if no time is left.
    /// Without a lease, the run is a dry run.
    pub(super) async fn pages(
        &self,
        run: &mut Run<'_>,
        cursor: &Cursor,
        lease: Option<&SyncLease>,
        now: UnixMillis,
    ) -> anyhow::Result<Option<End>> {
        let paused = cursor.page.as_ref().filter(|_| run.lookback.is_none());
        let (span, mut token) = if let Some(paused) = paused {
            let (from, started) = (paused.from, paused.started);
            (TimeWindow { from, started }, Some(paused.token.clone()))
        } else {
            let from = run.first_second(cursor, now);
            let span = TimeWindow { from, started: now };
            let Some(token) = self.place(run, cursor, span).await? else {
                return Ok(None);
            };
            (span, token)
        };
        if lease.is_some() {
            self.begin_counting(run, cursor, span).await;
        }
        let mut shown = LoopGuard::new(token.as_deref());
        loop {
            if (self.clock)() > run.ends {
                return Ok(None);
            }
            let Some(listing) = self.page(run, span, token.as_deref()).await? else {
                return Ok(None);
            };
            run.report.pages += 1;
            shown.check_events(&listing)?;
            for item in &listing.items {
                if (self.clock)() > run.ends {
                    return Ok(None);
                }
                if run.wants(item, span) && !self.take(run, item).await? {
                    return Ok(None);
                }
            }
            let started = span.started;
            let next = if run.is_older(&listing, span) {
                None
            } else {
                listing.next
            };
            let Some(next) = next else {
                let mark = listing.mark;
                return Ok(Some(End { started, mark }));
            };
            let next = run.next_token(&next)?;
            shown.check_page(&next)?;
            let paused = ResumePoint {
                token: next,
                from: span.from,
                started,
            };
            // No page is recorded after an event that could not be stored, because the next run
            // has to reach that event, too.
            if let Some(lease) = lease
                && run.fault != Some(Fault::TooLong)
            {
                self.note_page(run, lease, &paused).await?;
            }
            token = Some(paused.token);
        }
    }

    async fn begin_counting(&self, run: &mut Run<'_>, cursor: &Cursor, span: TimeWindow) {
        let times = (span.from, span.started);
        if run.report.unreachable_s > 0 {
            self.note_lost(&run.source.name, cursor, times).await;
        }
        // A lookback can include events from before the inbox existed. They were not missed, so a
        // run with a lookback counts nothing.
        if run.lookback.is_none() {
            run.counting = self
                .counting(&run.source.name, run.settings, cursor, times)
                .await;
        }
    }

    /// Records the next page. All events before it are in the ledger.
    async fn note_page(
        &self,
        run: &mut Run<'_>,
        lease: &SyncLease,
        paused: &ResumePoint,
    ) -> anyhow::Result<()> {
        self.keep_counting(&mut run.counting, &paused.token).await;
        let until = run.lease;
        let ledger = &self.services.inbox.ledger;
        if !ledger.sync().sync_page(lease, paused, until).await? {
            bail!("another run took over");
        }
        Ok(())
    }

    /// Returns where to read the list from: its start, or the position at which the last run ended.
    /// The outer `None` means that no time is left.
    async fn place(
        &self,
        run: &mut Run<'_>,
        cursor: &Cursor,
        span: TimeWindow,
    ) -> anyhow::Result<Option<Option<String>>> {
        let sync = run.sync;
        let Some(mark) = &sync.mark else {
            return Ok(Some(None));
        };
        if let Some(at) = &cursor.mark {
            return Ok(Some(Some(at.clone())));
        }
        let Some(begin) = &mark.begin else {
            return Ok(Some(None));
        };
        let mut question = span.list(sync, begin);
        question.also = mark.begin_status;
        let read = |body: &bytes::Bytes, _: Option<&str>| {
            first_mark(&mark.at, body).context(Fault::Unreadable)
        };
        let answer = self.ask(run, &question, read).await;
        let Some(at) = answer.map_err(Refused::error)? else {
            return Ok(None);
        };
        Ok(Some(Some(run.next_token(&at)?)))
    }

    /// Requests a page. Returns `None` if the provider requires a longer wait than the run has
    /// left.
    async fn page(
        &self,
        run: &mut Run<'_>,
        span: TimeWindow,
        token: Option<&str>,
    ) -> anyhow::Result<Option<Listing>> {
        let sync = run.sync;
        if let Some(token) = token
            && run.next_token(token).is_err()
        {
            // When the run recorded the page, the list of the source had another origin.
            return Err(anyhow::Error::new(NoSuchPage));
        }
        let question = span.page(sync, token)?;
        let read = |body: &bytes::Bytes, link: Option<&str>| {
            Listing::read(sync, token, body, link).context(Fault::Unreadable)
        };
        match self.ask(run, &question, read).await {
            Ok(listing) => Ok(listing),
            Err(Refused::Request(status, error)) if token.is_some() => {
                let lost = match &sync.mark {
                    None => true,
                    Some(mark) => mark.refused.contains(&status),
                };
                Err(if lost {
                    error.context(NoSuchPage)
                } else {
                    error
                })
            }
            Err(refused) => Err(refused.error()),
        }
    }
}

impl std::error::Error for NoSuchPage {}

impl Run<'_> {
    /// Returns the start of the window.
    fn first_second(&mut self, cursor: &Cursor, now: UnixMillis) -> UnixMillis {
        if let Some(mark) = &self.sync.mark {
            // The position was lost, and the list continues from now. The events since the last run
            // are out of reach.
            if let (Some(at), None, Some(_)) = (cursor.at, &cursor.mark, &mark.begin) {
                self.out_of_reach(now.since(at));
            }
            return now;
        }
        let wanted = match cursor.at {
            Some(at) => at - self.settings.overlap,
            None => now - self.settings.first_lookback,
        };
        let wanted = self
            .lookback
            .map_or(wanted, |lookback| wanted.min(now - lookback));
        let Some(reach) = self.reach() else {
            return wanted;
        };
        let reachable = now - reach;
        if cursor.at.is_some_and(|at| at < reachable) {
            self.out_of_reach(reachable.since(wanted));
        }
        wanted.max(reachable)
    }

    /// Returns how far back the provider's list goes, or `None` if the list keeps all events.
    pub(super) fn reach(&self) -> Option<Duration> {
        let days = self.sync.retention_days?;
        Some(Duration::from_secs(u64::from(days) * 24 * 3600))
    }

    fn out_of_reach(&mut self, gap: Duration) {
        self.report.unreachable_s = gap.as_secs();
        tracing::error!(
            source = self.source.name,
            seconds = self.report.unreachable_s,
            "the list of {} does not reach back to the last sync, so the events in between cannot be listed",
            self.source.name,
        );
    }

    /// Returns whether the list has reached items from before the window.
    fn is_older(&self, listing: &Listing, span: TimeWindow) -> bool {
        let last = listing.items.last().and_then(|item| item.at);
        self.sync.sorted == Sorted::NewestFirst && last.is_some_and(|at| at < span.from)
    }

    /// Returns the token of the next page, in the form that may be stored and requested.
    fn next_token(&self, next: &str) -> anyhow::Result<String> {
        match self.sync.page {
            Page::LinkHeader | Page::NextUrl { .. } => {
                let key = match &self.sync.auth {
                    Auth::Query { name } => Some(name.as_str()),
                    _ => None,
                };
                link_header::allowed(&self.sync.request.url, next, key).context(Fault::Elsewhere)
            }
            _ => Ok(next.to_owned()),
        }
    }
}
