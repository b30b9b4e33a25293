//! Moves messages of old events from the backlog queue to the work queue while the work queue has
//! capacity.

use std::time::Duration;

use futures::future::try_join_all;
use shared::base::timing::{BACKLOG_BATCH, LARGEST_BACKLOG_BATCH};
use shared::inbox::queue::QueueName;
use tokio::time::{Instant, sleep};

use crate::BackupSync;

/// The pause between two batches.
const PAUSE: Duration = Duration::from_secs(1);

/// The number of messages in one call, and the number of parallel calls.
const MESSAGES_PER_CALL: u64 = 10;
const CALLS_AT_ONCE: u64 = 4;

/// The initial batch size. The first read of the depth doubles it if the work queue is empty.
pub(crate) const FIRST_BATCH: u64 = BACKLOG_BATCH / 2;

impl BackupSync {
    /// Moves messages from the backlog queue to the work queue until the backlog queue is empty or
    /// no time is left. Returns the number of moved messages. `batch` keeps the batch size from one
    /// call of this function to the next.
    pub(crate) async fn promote_backlog(
        &self,
        batch: &mut u64,
        until: Instant,
    ) -> anyhow::Result<u64> {
        let queue = &self.services.inbox.queue;
        // If the depth is unavailable, call receive, as for the spill queue.
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
            tracing::info!(
                promoted,
                "moved {promoted} messages from the backlog queue to the work queue"
            );
        }
        ended
    }

    /// Moves as many messages as the work queue has capacity for. Returns the number of moved
    /// messages, and whether the backlog queue is empty. If the processor has received the whole
    /// last batch, this batch can be twice as large.
    async fn promote_batch(&self, batch: &mut u64, until: Instant) -> anyhow::Result<(u64, bool)> {
        let depth = self.services.inbox.queue.depth(QueueName::Main).await?;
        *batch = match depth {
            0 => (*batch * 2).min(LARGEST_BACKLOG_BATCH),
            depth if depth < *batch / 4 => (*batch).max(BACKLOG_BATCH),
            _ => BACKLOG_BATCH,
        };
        let room = batch.saturating_sub(depth);
        let (mut promoted, mut taken) = (0, 0);
        while taken < room && Instant::now() < until {
            let count = (room - taken)
                .div_ceil(MESSAGES_PER_CALL)
                .min(CALLS_AT_ONCE);
            let calls =
                (0..count).map(|n| self.promote_messages(room - taken - n * MESSAGES_PER_CALL));
            let moved = try_join_all(calls).await?;
            promoted += moved.iter().map(|(_, over)| over).sum::<u64>();
            taken += moved.iter().map(|(taken, _)| taken).sum::<u64>();
            if moved.iter().any(|(taken, _)| *taken == 0) {
                return Ok((promoted, true));
            }
        }
        Ok((promoted, false))
    }

    /// Moves at most `most` messages. Returns the number of received messages and the number of
    /// moved messages.
    async fn promote_messages(&self, most: u64) -> anyhow::Result<(u64, u64)> {
        let queue = &self.services.inbox.queue;
        let old = queue.take_old(most).await?;
        let passed = queue.pass_on(&old).await?;
        if passed.left > 0 {
            tracing::warn!(
                left = passed.left,
                "could not move {} messages from the backlog queue to the work queue",
                passed.left
            );
        }
        Ok((old.len() as u64, passed.over))
    }
}
