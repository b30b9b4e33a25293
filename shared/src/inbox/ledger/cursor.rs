//! The sync cursor of a source.

use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;

use super::transition::{self, Fence};
use super::{Item, Ledger, Write, item};
use crate::base::clock::UnixMillis;

/// The position at which the next run starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// When the last complete run began, or `None` before the first complete run.
    pub at: Option<UnixMillis>,
    /// The position of a run that stopped early.
    pub page: Option<ResumePoint>,
    /// The position in the provider's list from which the next run continues, if the list has
    /// positions.
    pub mark: Option<String>,
}

/// The position of a run between two pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// The provider's token of the next page.
    pub token: String,
    /// The earliest time that the run requests.
    pub from: UnixMillis,
    /// When the run began.
    pub started: UnixMillis,
}

/// The right to update a source's cursor.
#[derive(Debug)]
pub struct SyncLease {
    source: String,
    owner: String,
    epoch: u64,
    pub cursor: Cursor,
}

/// The sync records of a source: its cursor, and the spans that the sync could not read.
#[derive(Clone, Copy, Debug)]
pub struct SyncStore<'l>(&'l Ledger);

impl Ledger {
    /// The sync records of a source: its cursor, and the spans that the sync could not read.
    pub fn sync(&self) -> SyncStore<'_> {
        SyncStore(self)
    }
}

impl Deref for SyncStore<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.0
    }
}

impl SyncStore<'_> {
    /// Takes the lease of a source's cursor. Returns `None` if another run holds the lease. Two
    /// parallel runs would lose no events, but would send each request twice.
    pub async fn sync_lease(
        self,
        source: &str,
        owner: &str,
        now: UnixMillis,
        lease: Duration,
    ) -> anyhow::Result<Option<SyncLease>> {
        let change = transition::sync::lease(owner, now, now + lease);
        let item = match self.change_item(&pk(source), "CURSOR", change).await? {
            Write::Applied(Some(item)) => item,
            // An earlier try of this write took the lease, but its response was lost.
            Write::Refused(Some(item)) if item::text(&item, "own") == Some(owner) => item,
            Write::Applied(None) | Write::Refused(_) => return Ok(None),
        };
        Ok(Some(SyncLease {
            source: source.to_owned(),
            owner: owner.to_owned(),
            epoch: item::number(&item, "epoch").context("the sync cursor has no epoch")?,
            cursor: Cursor::of(&item),
        }))
    }

    /// Returns the cursor without a lease, for reading only.
    pub async fn sync_cursor(self, source: &str) -> anyhow::Result<Cursor> {
        let item = self.get(&pk(source), "CURSOR").await?;
        Ok(item.map(|item| Cursor::of(&item)).unwrap_or_default())
    }

    /// Returns when the sync of a source last began. Returns `None` if it never began, or began
    /// only under an older version that does not store this time.
    pub async fn sync_served(self, source: &str) -> anyhow::Result<Option<UnixMillis>> {
        let item = self
            .table
            .get_eventually(super::READ, (&pk(source), "CURSOR"), None)
            .await?;
        Ok(item.and_then(|item| item::time(&item, "srv")))
    }

    /// Records that every event before the next page is in the ledger. Returns `false` if another
    /// run has taken over the lease.
    pub async fn sync_page(
        self,
        lease: &SyncLease,
        page: &ResumePoint,
        until: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change =
            transition::sync::page(lease.fence(), &page.token, page.from, page.started, until);
        self.move_cursor(lease, change).await
    }

    /// Ends a complete run that began at `started`. Returns `false` if another run has taken over
    /// the lease.
    pub async fn sync_advance(
        self,
        lease: SyncLease,
        started: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::sync::advance(lease.fence(), started, now);
        self.end_run(&lease, started, change).await
    }

    /// Like `sync_advance`, but also stores the position from which the next run continues.
    pub async fn sync_advance_to(
        self,
        lease: SyncLease,
        started: UnixMillis,
        mark: &str,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::sync::advance_to(lease.fence(), started, mark, now);
        self.end_run(&lease, started, change).await
    }

    async fn end_run(
        self,
        lease: &SyncLease,
        started: UnixMillis,
        change: transition::Change,
    ) -> anyhow::Result<bool> {
        match self
            .change_item(&pk(&lease.source), "CURSOR", change)
            .await?
        {
            Write::Applied(_) => Ok(true),
            // An earlier try of this write succeeded, but its response was lost. No run has taken
            // the lease since.
            Write::Refused(Some(item)) => Ok(item::number(&item, "epoch") == Some(lease.epoch)
                && item::time(&item, "cur") == Some(started)
                && !item.contains_key("own")),
            Write::Refused(None) => Ok(false),
        }
    }

    /// Ends a run before its last page. The next run continues from the stored page.
    pub async fn sync_release(self, lease: SyncLease) -> anyhow::Result<()> {
        let change = transition::sync::release(lease.fence());
        self.move_cursor(&lease, change).await.map(|_| ())
    }

    /// Ends a run whose page token the provider no longer accepts. The next run starts at the
    /// cursor.
    pub async fn sync_restart(self, lease: SyncLease) -> anyhow::Result<()> {
        let change = transition::sync::restart(lease.fence());
        self.move_cursor(&lease, change).await.map(|_| ())
    }

    async fn move_cursor(
        self,
        lease: &SyncLease,
        change: transition::Change,
    ) -> anyhow::Result<bool> {
        let answer = self
            .change_item(&pk(&lease.source), "CURSOR", change)
            .await?;
        Ok(matches!(answer, Write::Applied(_)))
    }
}

impl Cursor {
    fn of(item: &Item) -> Self {
        let at = item::time(item, "cur");
        let page = item::text(item, "page").map(str::to_owned);
        let paused = page.and_then(|token| {
            Some(ResumePoint {
                token,
                from: item::time(item, "pfrom")?,
                started: item::time(item, "pstart")?,
            })
        });
        Self {
            at,
            // A run that began before the cursor cannot advance it. Without this filter, each later
            // run would resume it again.
            page: paused.filter(|paused| at.is_none_or(|at| paused.started >= at)),
            mark: item::text(item, "mk").map(str::to_owned),
        }
    }
}

impl SyncLease {
    fn fence(&self) -> Fence<'_> {
        Fence {
            epoch: self.epoch,
            owner: &self.owner,
        }
    }
}

fn pk(source: &str) -> String {
    format!("SYNC#{source}")
}
