//! The processor: hears messages, claims events, does their work, records how it ended.
//!
//! A record of a batch is reported as failed only when the infrastructure failed or there was no
//! time to begin. Whatever the row says — done, held, not due, dead — its message is spent.

mod actions;
mod destination;
mod order;
mod record;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use actions::Clients;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt as _;
use futures::future::join_all;
use record::MessageOutcome;
use shared::aws::outbound::Outbound;
use shared::base::clock::{Clock, UnixMillis};
use shared::delivery::breaker::Breakers;
use shared::delivery::pause::Pauses;
use shared::delivery::rates::Rates;
use shared::inbox::ledger::ExpiredLease;
use shared::services::Services;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Records of a batch that are worked on at the same time.
const AT_ONCE: usize = 4;

/// A record that takes longer than this waits for somebody else. It makes room for the next one,
/// so that a destination that hangs holds up nothing but its own events.
const SLOW: Duration = Duration::from_secs(1);

/// Bodies larger than this are in memory one at a time. Only a sync brings them, and ten of the largest would
/// take more than the function has.
const LARGE: u64 = 4 * 1024 * 1024;

/// Everything that work needs, made once per process.
pub struct Processor {
    parts: Services,
    outbound: Outbound,
    clients: Clients,
    breakers: Breakers,
    pauses: Pauses,
    rates: Rates,
    /// For an event whose body is larger than [`LARGE`].
    large: Semaphore,
    clock: Clock,
}

/// One of the places of a batch.
pub(crate) struct Permit<'s>(Option<SemaphorePermit<'s>>);

impl Processor {
    pub fn new(parts: Services, clock: Clock) -> Self {
        let outbound = Outbound::new(parts.config.forward.allow_loopback);
        Self::with_outbound(parts, outbound, clock)
    }

    /// The same with a way out that was made elsewhere.
    pub fn with_outbound(parts: Services, outbound: Outbound, clock: Clock) -> Self {
        Self {
            clients: Clients::new(&parts.aws),
            breakers: Breakers::new(parts.aws.dynamodb(), &parts.table),
            pauses: Pauses::new(parts.inbox.ledger.clone()),
            rates: Rates::new(parts.aws.dynamodb(), &parts.table),
            large: Semaphore::new(1),
            parts,
            outbound,
            clock,
        }
    }

    /// Works off a batch until `deadline`. Each record's trouble stays its own.
    ///
    /// What a worker abandoned may be what killed it. It comes last and alone, so that it takes
    /// nothing along a second time: messages that came together come back together.
    pub async fn process_batch(&self, batch: SqsEvent, deadline: UnixMillis) -> SqsBatchResponse {
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
            // A record without an id is reported under an empty one: then the whole batch comes
            // back.
            if heard != Some(MessageOutcome::Acknowledge) {
                response.add_failure(record.message_id.unwrap_or_default());
            }
        }
        response
    }

    /// What became of a record; `None` when it has to come again.
    async fn record(
        &self,
        record: &SqsMessage,
        deadline: UnixMillis,
        abandoned: ExpiredLease,
        slot: Permit<'_>,
    ) -> Option<MessageOutcome> {
        let id = record.message_id.as_deref().unwrap_or_default();
        let message = record.body.as_deref().unwrap_or_default();
        // A panic in our own code: the row is under a lease that runs out, nothing is lost.
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
                    "could not work on a message"
                );
                None
            }
            Err(_) => {
                tracing::error!(message.id = id, "panicked over a message");
                None
            }
        }
    }
}

impl Permit<'_> {
    /// Whether it is another event's, or nobody's.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Works in this place, and leaves it to another when that takes long.
    pub(crate) async fn run_releasing_when_slow<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        if let Ok(done) = tokio::time::timeout(SLOW, &mut work).await {
            return done;
        }
        drop(self.0);
        work.await
    }
}

/// When this invocation is killed. `cargo lambda watch` passes a time in 1970, which is no
/// deadline; zero remaining time is one.
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
        // Eight that hang, and then one that does not.
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
