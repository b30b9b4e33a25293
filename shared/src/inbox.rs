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

impl Inbox {
    /// Keeps the event and rings for it. When this returns, the event is durable; whether the
    /// bell was heard does not matter, the sweep rings again.
    ///
    /// An error means that nobody knows whether the event was kept: it must not be acknowledged.
    pub async fn accept(&self, event: &Event, now: Millis) -> anyhow::Result<Received> {
        let received = self.ledger.receive(event, now).await?;
        let run = match received {
            Received::New => 0,
            // The first delivery may have died between the two steps.
            Received::Open { silent: true, run } => run,
            Received::Open { silent: false, .. } | Received::Settled | Received::Conflict(_) => {
                return Ok(received);
            }
        };
        let doorbell = Doorbell {
            key: event.key().clone(),
            run,
        };
        let rung =
            tokio::time::timeout(RING_BUDGET, self.queue.ring(&doorbell, Duration::ZERO)).await;
        let trouble = match rung {
            Ok(Ok(())) => return Ok(received),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "it took too long".to_owned(),
        };
        tracing::warn!(event.id = %event.id(), error = trouble, "could not ring for event {}; the sweep will", event.id());
        Ok(received)
    }
}
