//! The backlog: messages of what is old, which wait until those of now leave room.

use std::time::Duration;

use futures::future::try_join_all;
use shared::base::timing::{BACKLOG_BATCH, LARGEST_BACKLOG_BATCH};
use shared::inbox::queue::QueueName;
use tokio::time::{Instant, sleep};

use crate::BackupSync;

/// Between two looks at how many messages wait.
const PAUSE: Duration = Duration::from_secs(1);

/// Messages that are taken at once, and how often at the same time.
const MESSAGES_PER_CALL: u64 = 10;
const CALLS_AT_ONCE: u64 = 4;

/// What the batch is before the first look, which doubles it where nothing waits.
pub(crate) const FIRST_BATCH: u64 = BACKLOG_BATCH / 2;

impl BackupSync {
    /// Puts messages of the backlog among those of now until there is none, or no time. Says how
    /// many. Who calls it again goes on with the batch that the last call came to.
    pub(crate) async fn promote_backlog(
        &self,
        batch: &mut u64,
        until: Instant,
    ) -> anyhow::Result<u64> {
        let queue = &self.parts.inbox.queue;
        // As with what was spilled, a depth that is not to be had leaves it to the receive.
        if !queue.has_backlog() || matches!(queue.depth(QueueName::Backlog).await, Ok(0)) {
            return Ok(0);
        }
        let mut promoted = 0;
        let ended = loop {
            match self.promote_batch(batch, until).await {
                Ok((over, false)) => promoted += over,
                Ok((over, true)) => {
                    promoted += over;
                    break Ok(promoted);
                }
                Err(error) => break Err(error),
            }
            if Instant::now() + PAUSE >= until {
                break Ok(promoted);
            }
            sleep(PAUSE).await;
        };
        if promoted > 0 {
            tracing::info!(promoted, "promoted {promoted} messages of the backlog");
        }
        ended
    }

    /// As many as there is room for: how many went over, and whether there are no more. Where all of
    /// the last batch was heard by this look, this one may be twice as large.
    async fn promote_batch(&self, batch: &mut u64, until: Instant) -> anyhow::Result<(u64, bool)> {
        let depth = self.parts.inbox.queue.depth(QueueName::Main).await?;
        *batch = match depth {
            0 => (*batch * 2).min(LARGEST_BACKLOG_BATCH),
            depth if depth < *batch / 4 => (*batch).max(BACKLOG_BATCH),
            _ => BACKLOG_BATCH,
        };
        let room = batch.saturating_sub(depth);
        let (mut promoted, mut taken) = (0, 0);
        while taken < room && Instant::now() < until {
            let lots = (room - taken)
                .div_ceil(MESSAGES_PER_CALL)
                .min(CALLS_AT_ONCE);
            let calls =
                (0..lots).map(|lot| self.promote_messages(room - taken - lot * MESSAGES_PER_CALL));
            let lots = try_join_all(calls).await?;
            promoted += lots.iter().map(|(_, over)| over).sum::<u64>();
            taken += lots.iter().map(|(taken, _)| taken).sum::<u64>();
            if lots.iter().any(|(taken, _)| *taken == 0) {
                return Ok((promoted, true));
            }
        }
        Ok((promoted, false))
    }

    /// A few messages, at most so many: how many were taken, and how many of them went over.
    async fn promote_messages(&self, most: u64) -> anyhow::Result<(u64, u64)> {
        let queue = &self.parts.inbox.queue;
        let old = queue.take_old(most).await?;
        let passed = queue.pass_on(&old).await?;
        if passed.left > 0 {
            tracing::warn!(
                left = passed.left,
                "the queue did not take {} messages of the backlog",
                passed.left
            );
        }
        Ok((old.len() as u64, passed.over))
    }
}
