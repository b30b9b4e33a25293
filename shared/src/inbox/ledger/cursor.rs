//! How far the sync of a source has come.

use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;

use super::transition::{self, Fence};
use super::{Item, Ledger, Write, item};
use crate::base::clock::UnixMillis;

/// Where the next run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// When the last complete run began; `None` before the first.
    pub at: Option<UnixMillis>,
    /// A run that stopped before its end: where it was.
    pub page: Option<ResumePoint>,
    /// The place in the provider's list that the next run goes on from, where a list has one.
    pub mark: Option<String>,
}

/// A run between two pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// The provider's token of the next page.
    pub token: String,
    /// The earliest time that the run asks for.
    pub from: UnixMillis,
    /// When the run began.
    pub started: UnixMillis,
}

/// The right to move a source's cursor.
#[derive(Debug)]
pub struct SyncLease {
    source: String,
    owner: String,
    epoch: u64,
    pub cursor: Cursor,
}

/// How far the sync of a source has read, and what it could not find.
#[derive(Clone, Copy, Debug)]
pub struct SyncStore<'l>(&'l Ledger);

impl Ledger {
    /// How far the sync of a source has read, and what it could not find.
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
    /// Takes the cursor of a source; `None` when another run holds it. Two runs at once would
    /// lose nothing, they would only ask twice.
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
            // Our own lease, its answer lost.
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

    /// The cursor as it stands, for who does not want to move it.
    pub async fn sync_cursor(self, source: &str) -> anyhow::Result<Cursor> {
        let item = self.get(&pk(source), "CURSOR").await?;
        Ok(item.map(|item| Cursor::of(&item)).unwrap_or_default())
    }

    /// When the sync of a source was last begun; `None` before the first time, and where only older
    /// code began it.
    pub async fn sync_served(self, source: &str) -> anyhow::Result<Option<UnixMillis>> {
        let item = self
            .table
            .get_eventually(super::READ, (&pk(source), "CURSOR"), None)
            .await?;
        Ok(item.and_then(|item| item::time(&item, "srv")))
    }

    /// Notes that every event up to this page is in the ledger. `false`: another run took over.
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

    /// Ends a complete run that began at `started`. `false`: another run took over.
    pub async fn sync_advance(
        self,
        lease: SyncLease,
        started: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::sync::advance(lease.fence(), started, now);
        self.end_run(&lease, started, change).await
    }

    /// The same, with the place that the next run goes on from.
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
            // Our own write, its answer lost: nobody has taken the lease since.
            Write::Refused(Some(item)) => Ok(item::number(&item, "epoch") == Some(lease.epoch)
                && item::time(&item, "cur") == Some(started)
                && !item.contains_key("own")),
            Write::Refused(None) => Ok(false),
        }
    }

    /// Ends a run that has to go on later.
    pub async fn sync_release(self, lease: SyncLease) -> anyhow::Result<()> {
        let change = transition::sync::release(lease.fence());
        self.move_cursor(&lease, change).await.map(|_| ())
    }

    /// Ends a run whose page the provider will never give: the next one begins at the cursor.
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
            // A run that began before the cursor could never move it, and would be resumed for ever.
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
