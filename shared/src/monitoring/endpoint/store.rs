//! Stores the status of endpoints, and rewinds the sync to a time before an unhealthy period.

use crate::monitoring::reconcile::ProviderReports;
use anyhow::Context as _;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::transition;
use crate::inbox::ledger::{Item, Write, item};
use crate::monitoring::endpoint::Status;

impl ProviderReports<'_> {
    /// Returns the status of a source's endpoint at the last check.
    pub async fn endpoint(self, source: &str) -> anyhow::Result<Option<Status>> {
        let Some(item) = self.get(&pk(source), "ENDPOINT").await? else {
            return Ok(None);
        };
        Status::read(&item).map(Some)
    }

    /// Stores the status. If two checks are concurrent, the last write wins.
    pub async fn note_endpoint(self, status: &Status) -> anyhow::Result<()> {
        let document =
            serde_json::to_string(status).context("serialize the status of an endpoint")?;
        let item = Item::from([
            ("pk".to_owned(), item::s(pk(&status.source))),
            ("sk".to_owned(), item::s("ENDPOINT")),
            ("doc".to_owned(), item::s(document)),
        ]);
        self.put("store the status of an endpoint", item, None)
            .await?;
        Ok(())
    }

    /// Rewinds the sync of a source, so that its next run lists events from `before`. The run needs
    /// more calls, but loses nothing, because stored events count as duplicates. Returns `false` if
    /// the cursor is not later than `before`, if the sync has never run, or if a run is in
    /// progress.
    pub async fn sync_rewind(
        self,
        source: &str,
        before: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::reconcile::rewind(before, now);
        let written = self.change_item(&pk(source), "CURSOR", change).await?;
        Ok(matches!(written, Write::Applied(_)))
    }
}

impl Status {
    pub(crate) fn read(item: &Item) -> anyhow::Result<Self> {
        let document =
            item::text(item, "doc").context("the stored status of an endpoint is empty")?;
        let status = serde_json::from_str(document);
        status.context("the stored status of an endpoint is invalid")
    }
}

fn pk(source: &str) -> String {
    format!("SYNC#{source}")
}
