//! The case `agent` of the demo: a refund that waits for a worker, and one that waits for an approval.
//!
//! The demo leaves both events to the user, who claims the first one and approves the second.

use anyhow::Context as _;
use bytes::Bytes;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::State;

use super::cases::{Demo, find, new_fate, same};
use super::wait_for;

/// The source, whose queue has the same name.
pub(super) const SOURCE: &str = "refunds";

/// The amount of the sample, and one that a rule holds.
const SMALL: &str = "\"amount\":2000";
const LARGE: &str = "\"amount\":7400";

impl Demo<'_> {
    /// Sends two refunds, if the demo has the source of the case.
    pub(super) async fn agent(&self) -> anyhow::Result<()> {
        if self.config.source(SOURCE).is_none() {
            return Ok(());
        }
        self.refund(false).await?;
        self.refund(true).await
    }

    async fn refund(&self, is_large: bool) -> anyhow::Result<()> {
        let sample = find("standard-webhooks", Some("refund.requested"))?;
        let mut draft = sample.draft(None, UnixMillis::now())?;
        if is_large {
            let text = std::str::from_utf8(&draft.body).context("the sample is text")?;
            draft.body = Bytes::from(text.replace(SMALL, LARGE));
        }
        let sent = self.send_draft(&draft, SOURCE).await?;
        let ledger = &self.deployment.ledger;
        let row = wait_for(ledger, &sent.key, |row| {
            row.is_pulled() || row.is_held() || !row.is_open()
        });
        let row = row.await?;
        let (end, detail) = if is_large {
            ("held", "74.00, waits for an approval")
        } else {
            ("waiting", "20.00, waits for a worker of the queue refunds")
        };
        let mut fate = new_fate("agent", sample, Some(&sent), end, detail.to_owned());
        same(&mut fate, "status", 200, sent.status);
        same(&mut fate, "state", State::Received, row.state);
        same(&mut fate, "held", is_large, row.is_held());
        self.tell(fate)
    }
}
