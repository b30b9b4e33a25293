//! The backlog: messages of what is old, which wait until those of now leave room.

use std::time::Duration;

use futures::future::try_join_all;
use shared::base::timing::{DOSE, LARGEST_DOSE};
use shared::inbox::queue::QueueName;
use tokio::time::{Instant, sleep};

use crate::BackupSync;

/// Between two looks at how many messages wait.
const PAUSE: Duration = Duration::from_secs(1);

/// Messages that are taken at once, and how often at the same time.
const A_LOT: u64 = 10;
const LOTS: u64 = 4;

/// What the dose is before the first look, which doubles it where nothing waits.
pub(crate) const FIRST_DOSE: u64 = DOSE / 2;

impl BackupSync {
    /// Puts messages of the backlog among those of now until there is none, or no time. Says how
    /// many. Who calls it again goes on with the dose that the last call came to.
    pub(crate) async fn feed(&self, dose: &mut u64, until: Instant) -> anyhow::Result<u64> {
        let queue = &self.parts.inbox.queue;
        // As with what was spilled, a depth that is not to be had leaves it to the receive.
        if !queue.has_backlog() || matches!(queue.depth(QueueName::Backlog).await, Ok(0)) {
            return Ok(0);
        }
        let mut fed = 0;
        let ended = loop {
            match self.feed_a_dose(dose, until).await {
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
            tracing::info!(fed, "fed {fed} messages of the backlog");
        }
        ended
    }

    /// As many as there is room for: how many went over, and whether there are no more. Where all of
    /// the last dose was heard by this look, this one may be twice as large.
    async fn feed_a_dose(&self, dose: &mut u64, until: Instant) -> anyhow::Result<(u64, bool)> {
        let depth = self.parts.inbox.queue.depth(QueueName::Main).await?;
        *dose = match depth {
            0 => (*dose * 2).min(LARGEST_DOSE),
            depth if depth < *dose / 4 => (*dose).max(DOSE),
            _ => DOSE,
        };
        let room = dose.saturating_sub(depth);
        let (mut fed, mut taken) = (0, 0);
        while taken < room && Instant::now() < until {
            let lots = (room - taken).div_ceil(A_LOT).min(LOTS);
            let feeding = (0..lots).map(|lot| self.feed_a_lot(room - taken - lot * A_LOT));
            let lots = try_join_all(feeding).await?;
            fed += lots.iter().map(|(_, over)| over).sum::<u64>();
            taken += lots.iter().map(|(taken, _)| taken).sum::<u64>();
            if lots.iter().any(|(taken, _)| *taken == 0) {
                return Ok((fed, true));
            }
        }
        Ok((fed, false))
    }

    /// A few messages, at most so many: how many were taken, and how many of them went over.
    async fn feed_a_lot(&self, most: u64) -> anyhow::Result<(u64, u64)> {
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
