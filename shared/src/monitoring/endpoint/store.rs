//! How the subscriptions at the providers stand, and how the sync is sent back behind a time when
//! one was dark.

use crate::monitoring::reconcile::ProviderReports;
use anyhow::Context as _;

use crate::base::clock::UnixMillis;
use crate::inbox::ledger::transition;
use crate::inbox::ledger::{Item, Write, item};
use crate::monitoring::endpoint::Status;

impl ProviderReports<'_> {
    /// How the endpoint of a source stood when it was last looked at.
    pub async fn endpoint(self, source: &str) -> anyhow::Result<Option<Status>> {
        let Some(item) = self.get(&pk(source), "ENDPOINT").await? else {
            return Ok(None);
        };
        let document = item::text(&item, "doc").context("the status of an endpoint is empty")?;
        let status = serde_json::from_str(document);
        status
            .context("the status of an endpoint is damaged")
            .map(Some)
    }

    /// Notes how it stands. Of two who look at the same time either may be last.
    pub async fn note_endpoint(self, status: &Status) -> anyhow::Result<()> {
        let document = serde_json::to_string(status).context("write down an endpoint")?;
        let item = Item::from([
            ("pk".to_owned(), item::s(pk(&status.source))),
            ("sk".to_owned(), item::s("ENDPOINT")),
            ("doc".to_owned(), item::s(document)),
        ]);
        self.put("note the status of an endpoint", item, None)
            .await?;
        Ok(())
    }

    /// Sends the sync of a source back, so that its next run asks from `before` on. It costs calls
    /// and loses nothing: what is known is found known. `false`: it is there already, has never
    /// run, or a run is at it.
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

fn pk(source: &str) -> String {
    format!("SYNC#{source}")
}
