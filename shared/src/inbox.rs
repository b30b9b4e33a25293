//! The one door by which events come in: from a webhook, a sync, a spill, a repair.

use std::time::Duration;

use crate::clock::Millis;
use crate::event::Event;
use crate::ledger::{Ledger, Received};
use crate::queue::{Doorbell, Queue};
use crate::timing::RING_BUDGET;

/// Ledger and queue, in this order.
#[derive(Clone, Debug)]
pub struct Inbox {
    pub ledger: Ledger,
    pub queue: Queue,
}

/// An event that is durable, and whom to tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub received: Received,
    /// To be rung; `None` when nobody has to be told.
    pub doorbell: Option<Doorbell>,
}

impl Inbox {
    /// Keeps the event and rings for it.
    ///
    /// An error means that nobody knows whether the event was kept: it must not be acknowledged.
    pub async fn accept(&self, event: &Event, now: Millis) -> anyhow::Result<Received> {
        let kept = self.keep(event, now).await?;
        if let Some(doorbell) = &kept.doorbell {
            self.announce(doorbell).await;
        }
        Ok(kept.received)
    }

    /// The first half of [`accept`](Self::accept): when it returns, the event is durable.
    pub async fn keep(&self, event: &Event, now: Millis) -> anyhow::Result<Kept> {
        let received = self.ledger.receive(event, now).await?;
        let run = match received {
            Received::New => Some(0),
            // The first delivery may have died between the two steps.
            Received::Open { silent: true, run } => Some(run),
            Received::Open { silent: false, .. } | Received::Settled | Received::Conflict(_) => {
                None
            }
        };
        let doorbell = run.map(|run| Doorbell {
            key: event.key().clone(),
            run,
        });
        Ok(Kept { received, doorbell })
    }

    /// The second half. Whether the bell was heard does not matter: the sweep rings again.
    pub async fn announce(&self, doorbell: &Doorbell) {
        let rung =
            tokio::time::timeout(RING_BUDGET, self.queue.ring(doorbell, Duration::ZERO)).await;
        let trouble = match rung {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "it took too long".to_owned(),
        };
        tracing::warn!(event.key = %doorbell.key, error = trouble, "could not ring for event {}; the sweep will", doorbell.key);
    }
}
