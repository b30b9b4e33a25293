//! Counts the redelivery requests for an event.

use super::SyncStore;
use std::time::Duration;

use super::{Write, transition};
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

/// How long the count is kept. Every provider lists its deliveries for a shorter time.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

impl SyncStore<'_> {
    /// Counts one redelivery request for an event. Returns `false`, without counting, if `most`
    /// requests were already made.
    pub async fn count_redelivery_request(
        self,
        key: &EventKey,
        most: u64,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::count_redelivery_request(most, now + KEPT);
        let pk = format!("SYNC#{}", key.source());
        let sk = format!("ASKED#{}", key.id());
        let answer = self.change_item(&pk, &sk, change).await?;
        Ok(matches!(answer, Write::Applied(_)))
    }
}
