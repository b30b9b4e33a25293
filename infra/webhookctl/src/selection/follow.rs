//! Reads events for commands that follow the inbox: new arrivals, and the current state of known
//! events.

use futures::{StreamExt as _, TryStreamExt as _};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cost, FIRST, Row, Stored, Waiting};
use shared::webhook::event::EventKey;

use super::Selection;
use super::find::read_rows;
use super::time_scan::Walk;
use crate::target::Deployment;

impl Selection {
    /// Returns the time from which a command follows events.
    pub(crate) fn followed_since(&self) -> i64 {
        self.since.unwrap_or(self.now)
    }

    /// Returns the events received in this time range, oldest first. An event is missing if the
    /// `time` index does not have it yet.
    pub(crate) async fn arrivals(
        &self,
        inbox: &Deployment,
        from: i64,
        to: i64,
    ) -> anyhow::Result<Vec<EventKey>> {
        // The newest events of an hour tell whether it has more partitions, so this is the cheaper
        // direction.
        let mut walk = Walk::new(
            &inbox.ledger,
            self.sources.clone(),
            (from, to),
            false,
            FIRST,
        );
        let mut keys = Vec::new();
        loop {
            let listed = walk.next(1000, &mut |_| ()).await?;
            if listed.is_empty() {
                keys.reverse();
                return Ok(keys);
            }
            let meant = listed
                .into_iter()
                .filter(|event| self.has_kind(&event.kind));
            keys.extend(meant.map(|event| event.key));
        }
    }

    /// Returns open events of any age, at most `of_each` from each shard of the index.
    pub(crate) async fn open_events(
        &self,
        inbox: &Deployment,
        of_each: i32,
    ) -> anyhow::Result<Vec<EventKey>> {
        let pages = (0..Waiting::SHARDS).map(|shard| {
            inbox
                .ledger
                .waiting_page(Waiting::Open, shard, UnixMillis(0), Some(of_each), None)
        });
        let pages: Vec<_> = futures::stream::iter(pages)
            .buffer_unordered(usize::from(Waiting::SHARDS))
            .try_collect()
            .await?;
        let meant = pages.into_iter().flat_map(|page| page.found);
        let mut keys: Vec<_> = meant.filter(|key| self.has_source(key.source())).collect();
        let sources: Vec<&str> = self.sources.iter().map(String::as_str).collect();
        let most = usize::try_from(of_each).unwrap_or(0);
        let fresh = inbox
            .ledger
            .sweep()
            .recent_events(&sources, UnixMillis(self.now), most)
            .await?;
        keys.extend(fresh.open);
        let mut pulled = inbox.pulled_sources();
        pulled.retain(|source| self.has_source(source));
        let pulled = inbox.ledger.pulled(&pulled, UnixMillis(0), of_each);
        keys.extend(pulled.await?.0);
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Returns the current rows of these keys, in the order of receipt.
    pub(crate) async fn now(
        &self,
        inbox: &Deployment,
        keys: &[EventKey],
    ) -> anyhow::Result<Vec<Stored>> {
        let mut rows = read_rows(inbox, keys, &mut Cost::default()).await?;
        rows.sort_by_cached_key(|stored| super::Position::of(&stored.row));
        Ok(rows)
    }

    /// Returns the rows whose body matches.
    pub(crate) async fn by_body(
        &self,
        inbox: &Deployment,
        rows: Vec<Stored>,
    ) -> anyhow::Result<Vec<Stored>> {
        self.with_fields(inbox, rows, &mut Cost::default()).await
    }

    /// Returns whether a row matches. Ignores `since` and the status, but not `until`.
    pub(crate) fn follows(&self, row: &Row, inbox: &Deployment) -> bool {
        let anywhere = Self {
            statuses: Vec::new(),
            since: Some(0),
            ..self.clone()
        };
        anywhere.has_row(row, inbox)
    }
}
