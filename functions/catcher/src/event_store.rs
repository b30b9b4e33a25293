//! An event becomes durable: in the ledger, or else in the spill queue.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::stream::{self, StreamExt as _};
use shared::aws::CallPolicy;
use shared::base::clock::UnixMillis;
use shared::base::timing::SPILL_BUDGET;
use shared::inbox::ledger::{FoundBy, StoredBody, is_permanent_rejection};
use shared::inbox::spill::{Spill, Spilled};
use shared::inbox::{Inbox, Stored};
use shared::webhook::event::Event;
use tokio::time::{Instant, timeout_at};

use crate::breaker::{Breaker, FirstStore};

/// How many events of a batch are written at the same time.
const AT_ONCE: usize = 16;

/// Both stores, and how the first has done of late.
pub(crate) struct EventStore {
    inbox: Inbox,
    spill: Spill,
    breaker: Mutex<Breaker>,
}

/// Until when a request may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// For the ledger, as long as the spill queue is still to be asked.
    pub(crate) ledger: Instant,
    pub(crate) all: Instant,
}

/// An event that will not be lost.
#[expect(clippy::large_enum_variant, reason = "there are few, for a moment")]
pub(crate) enum Durable {
    Stored(Stored),
    Spilled(Event),
}

/// An event of a request, and how far it has come.
struct Waiting {
    event: Event,
    placed: Option<StoredBody>,
    kept: Option<Stored>,
}

/// What the ledger made of an event.
enum Put {
    Stored,
    /// It did not answer in time, or that it cannot. Whether the row is there, nobody knows.
    Failed(anyhow::Error),
    /// It answered that it will not have this event, now or later.
    Refused(anyhow::Error),
    /// It was not asked, or not for long enough to be blamed.
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

    /// Keeps the event, or each event of a batch, one way or the other. When it returns, all of
    /// it is durable; an error means that nobody knows, and that it must not be acknowledged.
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
                if let Err(trouble) = self.put(&mut waiting, now, by.ledger).await? {
                    let rest = by.all.saturating_duration_since(Instant::now());
                    let spilled = self.spill(&mut waiting, by.ledger, rest, by.all).await;
                    spilled.with_context(|| format!("{trouble:#}; and then"))?;
                    tracing::warn!(
                        error = format!("{trouble:#}"),
                        "the ledger is unwell: spilled what it did not take"
                    );
                }
            }
            FirstStore::Spill => {
                let spilled = self.spill(&mut waiting, by.ledger, SPILL_BUDGET, by.all);
                if let Err(trouble) = spilled.await {
                    let put = self.put(&mut waiting, now, by.all).await?;
                    put.with_context(|| format!("{trouble:#}; and then"))?;
                }
            }
        }
        let durable = waiting.into_iter().map(|one| match one.kept {
            Some(kept) => Durable::Stored(kept),
            None => Durable::Spilled(one.event),
        });
        Ok(durable.collect())
    }

    /// Puts every event into the ledger. The inner error means that some are not known to be
    /// there and may be spilled; the outer one, that the ledger would never take them.
    async fn put(
        &self,
        waiting: &mut [Waiting],
        now: UnixMillis,
        until: Instant,
    ) -> anyhow::Result<anyhow::Result<()>> {
        // In a box, for what is in hand is moved a dozen times, and a put is six kilobytes.
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
            return Put::Skipped(anyhow!("the body has no place"));
        };
        let patient = until.saturating_duration_since(Instant::now()) >= CallPolicy::SHORT.attempt;
        let watched = FoundBy::TimeIndex;
        let put = self.inbox.store_with_body(&one.event, placed, watched, now);
        match timeout_at(until, Box::pin(put)).await {
            Ok(Ok(kept)) => {
                one.kept = Some(kept);
                Put::Stored
            }
            Ok(Err(error)) if is_permanent_rejection(&error) => Put::Refused(error),
            Ok(Err(error)) => Put::Failed(error),
            Err(_) if patient => Put::Failed(anyhow!("the ledger took too long")),
            Err(_) => Put::Skipped(anyhow!("there was no time left for the ledger")),
        }
    }

    /// Makes the body ready, once.
    async fn store_body(&self, one: &mut Waiting, until: Instant) -> anyhow::Result<()> {
        if one.placed.is_none() {
            let place = timeout_at(until, self.inbox.ledger.store_body(&one.event)).await;
            let place =
                place.unwrap_or_else(|_| Err(anyhow!("the bucket of bodies took too long")));
            one.placed = Some(place?);
        }
        Ok(())
    }

    /// Sends what is not in the ledger to the spill queue; all of it is durable then. A body
    /// that could not be placed goes along, if it fits.
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
                tracing::warn!(event.key = %one.event.key(), error = format!("{error:#}"), "could not place the body of {}", one.event.key());
            }
            spilled.push(Spilled::new(one.event.clone(), one.placed.clone()));
        }
        let messages = self.spill.messages(&spilled)?;
        // What the bucket took of the time is not the queue's fault.
        let until = all.min(Instant::now() + budget);
        let sent = timeout_at(until, self.spill.send(messages)).await;
        let sent = sent.unwrap_or_else(|_| Err(anyhow!("the spill queue took too long")));
        if sent.is_err() {
            self.breaker().force_closed();
        }
        sent
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
