//! Makes an event durable in the ledger, or otherwise in the spill queue.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::stream::{self, StreamExt as _};
use shared::aws::CallPolicy;
use shared::base::clock::UnixMillis;
use shared::base::timing::SPILL_BUDGET;
use shared::inbox::ledger::{StoredBody, is_permanent_rejection};
use shared::inbox::spill::{Spill, Spilled};
use shared::inbox::{Inbox, Stored};
use shared::webhook::event::Event;
use tokio::time::{Instant, timeout_at};

use crate::breaker::{Breaker, FirstStore};
use crate::durable::Durable;

/// The number of events of a batch that are written in parallel.
const AT_ONCE: usize = 16;

/// Both stores, and the circuit breaker of the ledger.
pub(crate) struct EventStore {
    inbox: Inbox,
    spill: Spill,
    breaker: Mutex<Breaker>,
}

/// The deadlines of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// The deadline of the ledger if the spill queue still has to be tried afterwards.
    pub(crate) ledger: Instant,
    pub(crate) all: Instant,
}

/// An event of a request, and the parts of it that are already stored.
struct Waiting {
    event: Event,
    placed: Option<StoredBody>,
    kept: Option<Stored>,
}

/// The result of a put into the ledger.
enum Put {
    Stored,
    /// The ledger did not answer in time, or is unavailable. Whether the row exists is unknown.
    Failed(anyhow::Error),
    /// The ledger rejects this event permanently.
    Refused(anyhow::Error),
    /// The ledger was not called, or the time was too short to count as a failure of the ledger.
    Skipped(anyhow::Error),
}

impl EventStore {
    pub(crate) fn new(inbox: Inbox, spill: Spill) -> Self {
        Self {
            inbox,
            spill,
            breaker: Mutex::default(),
        }
    }

    /// Stores the event, or each event of a batch, in the ledger or in the spill queue. On success,
    /// all events are durable. After an error, this is unknown, and the catcher must not
    /// acknowledge the request.
    pub(crate) async fn store(
        &self,
        event: &Event,
        now: UnixMillis,
        by: Deadlines,
    ) -> anyhow::Result<Vec<Durable>> {
        let waiting = event.apart().map(|event| Waiting {
            event,
            placed: None,
            kept: None,
        });
        let mut waiting: Vec<_> = waiting.collect();
        let way = self.breaker().first_store(now);
        match way {
            FirstStore::Ledger => {
                if let Err(failure) = self.put(&mut waiting, now, by.ledger).await? {
                    let rest = by.all.saturating_duration_since(Instant::now());
                    let spilled = self.spill(&mut waiting, by.ledger, rest, by.all).await;
                    spilled.with_context(|| format!("{failure:#}; the spill queue failed too"))?;
                    tracing::warn!(
                        error = format!("{failure:#}"),
                        "the ledger is unavailable; the catcher sent the events to the spill queue"
                    );
                }
            }
            FirstStore::Spill => {
                let spilled = self.spill(&mut waiting, by.ledger, SPILL_BUDGET, by.all);
                if let Err(failure) = spilled.await {
                    let put = self.put(&mut waiting, now, by.all).await?;
                    put.with_context(|| format!("{failure:#}; the write to DynamoDB failed too"))?;
                }
            }
        }
        let durable = waiting.into_iter().map(|one| match one.kept {
            Some(kept) => Durable::Stored(kept),
            None => Durable::Spilled(one.event),
        });
        Ok(durable.collect())
    }

    /// Puts every event into the ledger. After an inner error, some events may be missing there and
    /// can be spilled. An outer error means that the ledger rejects an event permanently.
    async fn put(
        &self,
        waiting: &mut [Waiting],
        now: UnixMillis,
        until: Instant,
    ) -> anyhow::Result<anyhow::Result<()>> {
        // Boxed, because the future of a put has six kilobytes and would be moved a dozen times.
        let puts: Vec<Put> = stream::iter(waiting)
            .map(|one| Box::pin(self.put_one(one, now, until)))
            .buffered(AT_ONCE)
            .collect()
            .await;
        if puts.iter().any(|put| matches!(put, Put::Failed(_))) {
            self.breaker().failed(now);
        } else if puts.iter().any(|put| !matches!(put, Put::Skipped(_))) {
            self.breaker().answered();
        }
        let mut answer = Ok(());
        for put in puts {
            match put {
                Put::Stored => {}
                Put::Refused(error) => return Err(error),
                Put::Failed(error) | Put::Skipped(error) => answer = Err(error),
            }
        }
        Ok(answer)
    }

    async fn put_one(&self, one: &mut Waiting, now: UnixMillis, until: Instant) -> Put {
        if let Err(error) = self.store_body(one, until).await {
            return Put::Skipped(error);
        }
        let Some(placed) = &one.placed else {
            return Put::Skipped(anyhow!("the body is not stored"));
        };
        let patient = until.saturating_duration_since(Instant::now()) >= CallPolicy::SHORT.attempt;
        let put = self.inbox.store_request(&one.event, placed, now);
        match timeout_at(until, Box::pin(put)).await {
            Ok(Ok(kept)) => {
                one.kept = Some(kept);
                Put::Stored
            }
            Ok(Err(error)) if is_permanent_rejection(&error) => Put::Refused(error),
            Ok(Err(error)) => Put::Failed(error),
            Err(_) if patient => Put::Failed(anyhow!("the request to DynamoDB timed out")),
            Err(_) => Put::Skipped(anyhow!("no time was left for the request to DynamoDB")),
        }
    }

    /// Stores the body, unless it is already stored.
    async fn store_body(&self, one: &mut Waiting, until: Instant) -> anyhow::Result<()> {
        if one.placed.is_none() {
            let place = timeout_at(until, self.inbox.ledger.store_body(&one.event)).await;
            let place =
                place.unwrap_or_else(|_| Err(anyhow!("the request to the bucket timed out")));
            one.placed = Some(place?);
        }
        Ok(())
    }

    /// Sends the events that are not in the ledger to the spill queue. On success, they are
    /// durable. If a body could not be stored, the message contains it if it fits.
    async fn spill(
        &self,
        waiting: &mut [Waiting],
        placed_by: Instant,
        budget: Duration,
        all: Instant,
    ) -> anyhow::Result<()> {
        let mut spilled = Vec::new();
        for one in waiting.iter_mut().filter(|one| one.kept.is_none()) {
            if let Err(error) = self.store_body(one, placed_by).await {
                tracing::warn!(event.key = %one.event.key(), error = format!("{error:#}"), "could not store the body of {}", one.event.key());
            }
            spilled.push(Spilled::new(one.event.clone(), one.placed.clone()));
        }
        let messages = self.spill.messages(&spilled)?;
        // The time that the bucket used does not shorten the time for the queue.
        let until = all.min(Instant::now() + budget);
        let sent = timeout_at(until, self.spill.send(messages)).await;
        let sent =
            sent.unwrap_or_else(|_| Err(anyhow!("the request to the spill queue timed out")));
        if sent.is_err() {
            self.breaker().force_closed();
        }
        sent
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
