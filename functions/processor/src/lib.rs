//! The processor receives work messages, claims their events, runs the actions and records the
//! outcomes.
//!
//! The processor reports a record of a batch as failed only if the infrastructure failed or too
//! little time was left to begin. Otherwise it acknowledges the message, whatever the state of the
//! row: done, leased, not due or dead letter.
//!
//! Workers outside of Lambda claim and settle events through the HTTP API, which [`work`] answers.
//!
//! A message takes six steps:
//!
//! 1. [`Processor::process_batch`] takes a batch.
//! 2. `process_message` reads a message.
//! 3. `process_event` claims the event of the message.
//! 4. `run_actions` reads the body and waits for the turn of the event.
//! 5. `run_action` calls a destination.
//! 6. `work` settles the attempt.

mod actions;
mod answers;
mod attempt;
mod destination;
mod message;
mod missing;
mod order;
mod rules;
mod work;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use actions::Clients;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt as _;
use futures::future::join_all;
use message::MessageOutcome;
use shared::aws::outbound::Outbound;
use shared::base::clock::{Clock, UnixMillis};
use shared::delivery::answers::Answers;
use shared::delivery::breaker::Breakers;
use shared::delivery::pause::Pauses;
use shared::delivery::rates::Rates;
use shared::inbox::ledger::ExpiredLease;
use shared::monitoring::missing_paths::MissingPaths;
use shared::services::Services;
use tokio::sync::{Semaphore, SemaphorePermit};
pub use work::{Answer, Invocation, Payload, Reply, Request};

/// The number of records of a batch that are processed in parallel.
const AT_ONCE: usize = 4;

/// The time after which a record releases its permit to the next record, so that a destination that
/// hangs does not delay the other events of a batch.
const SLOW: Duration = Duration::from_secs(1);

/// The body size above which only one body is in memory at a time. Only the sync stores such
/// bodies, and ten of the largest need more memory than the function has.
const LARGE: u64 = 4 * 1024 * 1024;

/// The first part of the name of each claim.
const WORKER: &str = "processor";

/// The services and clients of the processor, created once per process.
pub struct Processor {
    services: Services,
    outbound: Outbound,
    clients: Clients,
    answers: Answers,
    breakers: Breakers,
    pauses: Pauses,
    rates: Rates,
    missing: MissingPaths,
    /// Held while an event with a body larger than [`LARGE`] is processed.
    large: Semaphore,
    clock: Clock,
}

/// The permit to process a record in parallel with others of its batch. `None` for an event that
/// runs without a permit.
pub(crate) struct Permit<'s>(Option<SemaphorePermit<'s>>);

impl Processor {
    pub fn new(services: Services, clock: Clock) -> Self {
        let forward = &services.sources.config().forward;
        let outbound = Outbound::new(forward.allow_loopback || services.aws.is_local());
        Self::with_outbound(services, outbound, clock)
    }

    /// Creates a processor with the given HTTP client.
    pub fn with_outbound(services: Services, outbound: Outbound, clock: Clock) -> Self {
        Self {
            clients: Clients::new(&services.aws),
            answers: Answers::beside(&services.inbox.ledger),
            breakers: Breakers::new(services.aws.table(), &services.table),
            pauses: Pauses::new(services.inbox.ledger.clone()),
            rates: Rates::new(services.aws.table(), &services.table),
            missing: MissingPaths::default(),
            large: Semaphore::new(1),
            services,
            outbound,
            clock,
        }
    }

    /// Processes a batch until `deadline`. An error in one record does not affect the others.
    ///
    /// An event with an expired lease may have crashed its worker. Such events are processed last
    /// and one at a time, so that a second crash does not affect the other events of the batch.
    /// Messages that arrived in one batch return in one batch.
    pub async fn process_batch(&self, batch: SqsEvent, deadline: UnixMillis) -> SqsBatchResponse {
        self.services.sources.refresh((self.clock)()).await;
        let slots = Semaphore::new(AT_ONCE);
        let slots = &slots;
        let works = batch.records.into_iter().map(async |record| {
            let slot = Permit(slots.acquire().await.ok());
            let heard = self
                .record(&record, deadline, ExpiredLease::Leave, slot)
                .await;
            (record, heard)
        });
        let heard = join_all(works).await;
        let mut response = SqsBatchResponse::default();
        for (record, mut heard) in heard {
            if heard == Some(MessageOutcome::Abandoned) {
                heard = self
                    .record(&record, deadline, ExpiredLease::TakeOver, Permit(None))
                    .await;
            }
            // A record without an id is reported with an empty id, and SQS then redelivers the
            // whole batch.
            if heard != Some(MessageOutcome::Acknowledge) {
                response.add_failure(record.message_id.unwrap_or_default());
            }
        }
        response
    }

    /// Processes one record. Returns `None` if the queue must redeliver it.
    async fn record(
        &self,
        record: &SqsMessage,
        deadline: UnixMillis,
        abandoned: ExpiredLease,
        slot: Permit<'_>,
    ) -> Option<MessageOutcome> {
        let id = record.message_id.as_deref().unwrap_or_default();
        let message = record.body.as_deref().unwrap_or_default();
        // If this code panics, the lease of the row expires and another worker claims the event.
        let process_message = async {
            if self.divert_to_backlog(record).await {
                return Ok(MessageOutcome::Acknowledge);
            }
            self.process_message(message, deadline, abandoned, slot)
                .await
        };
        let work = AssertUnwindSafe(Box::pin(process_message)).catch_unwind();
        match work.await {
            Ok(Ok(heard)) => Some(heard),
            Ok(Err(error)) => {
                tracing::error!(
                    message.id = id,
                    error = format!("{error:#}"),
                    "could not process a message"
                );
                None
            }
            Err(_) => {
                tracing::error!(
                    message.id = id,
                    "a panic occurred while processing a message"
                );
                None
            }
        }
    }
}

impl Permit<'_> {
    /// Returns whether the event runs without a permit.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Runs `work`, and releases the permit if it takes longer than [`SLOW`].
    pub(crate) async fn run_releasing_when_slow<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        if let Ok(done) = tokio::time::timeout(SLOW, &mut work).await {
            return done;
        }
        drop(self.0);
        work.await
    }
}

/// Returns the time at which Lambda ends this invocation. `cargo lambda watch` passes a time in
/// 1970, which this function replaces with 60 s from now. It does not change a deadline that has
/// passed.
pub fn deadline(context: u64, now: UnixMillis) -> UnixMillis {
    const YEAR_2020: u64 = 1_577_836_800_000;
    match i64::try_from(context) {
        Ok(deadline) if context >= YEAR_2020 => UnixMillis(deadline),
        _ => now + Duration::from_secs(60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_makes_room_for_other_work() {
        let slots = Semaphore::new(2);
        let began = tokio::time::Instant::now();
        let work = async |secs| {
            let slot = Permit(slots.acquire().await.ok());
            slot.run_releasing_when_slow(tokio::time::sleep(Duration::from_secs(secs)))
                .await;
            began.elapsed().as_secs()
        };
        // Eight futures that hang, and then one that ends.
        let ends = join_all([20, 20, 20, 20, 20, 20, 20, 20, 0].map(work)).await;
        assert_eq!(ends, [20, 20, 21, 21, 22, 22, 23, 23, 4]);
    }

    #[test]
    fn a_deadline_in_1970_is_none_and_one_that_is_over_is_one() {
        let now = UnixMillis(1_795_169_681_000);
        assert_eq!(deadline(600_000, now), now + Duration::from_secs(60));
        assert_eq!(deadline(0, now), now + Duration::from_secs(60));
        assert_eq!(
            deadline(1_795_169_680_000, now),
            UnixMillis(1_795_169_680_000)
        );
    }
}
