//! The backlog: doorbells of what is old, which wait until those of now leave room.

use std::time::Duration;

use shared::queue::Lane;
use shared::timing::DOSE;
use tokio::time::{Instant, sleep};

use crate::BackupSync;

/// Between two looks at how many doorbells wait.
const PAUSE: Duration = Duration::from_secs(1);

impl BackupSync {
    /// Puts doorbells of the backlog among those of now until there is none, or no time. Says how
    /// many.
    pub(super) async fn feed(&self, until: Instant) -> anyhow::Result<u64> {
        let queue = &self.parts.inbox.queue;
        // As with what was spilled, a depth that is not to be had leaves it to the receive.
        if !queue.has_backlog() || matches!(queue.depth(Lane::Backlog).await, Ok(0)) {
            return Ok(0);
        }
        let mut fed = 0;
        let ended = loop {
            match self.feed_a_dose().await {
                Ok((over, false)) => fed += over,
                Ok((over, true)) => {
                    fed += over;
                    break Ok(fed);
                }
                Err(error) => break Err(error),
            }
            if Instant::now() + PAUSE >= until {
                break Ok(fed);
            }
            sleep(PAUSE).await;
        };
        if fed > 0 {
            tracing::info!(fed, "fed {fed} doorbells of the backlog");
        }
        ended
    }

    /// As many as there is room for: how many went over, and whether there are no more.
    async fn feed_a_dose(&self) -> anyhow::Result<(u64, bool)> {
        let queue = &self.parts.inbox.queue;
        let mut room = DOSE.saturating_sub(queue.depth(Lane::Live).await?);
        let mut fed = 0;
        while room > 0 {
            let old = queue.take_old(room).await?;
            if old.is_empty() {
                return Ok((fed, true));
            }
            let passed = queue.pass_on(&old).await?;
            fed += passed.over;
            if passed.left > 0 {
                tracing::warn!(
                    left = passed.left,
                    "the queue did not take {} doorbells of the backlog",
                    passed.left
                );
            }
            room = room.saturating_sub(old.len() as u64);
        }
        Ok((fed, false))
    }
}
