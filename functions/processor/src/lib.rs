//! The processor: hears doorbells, claims events, does their work, records how it ended.
//!
//! A record of a batch is reported as failed only when the infrastructure failed or there was no
//! time to begin. Whatever the row says — done, held, not due, dead — its doorbell is spent.

mod actions;
mod record;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use futures::{FutureExt as _, StreamExt as _, stream};
use shared::clock::{Clock, Millis};
use shared::outbound::Outbound;
use shared::settings::Parts;

/// Records of a batch that are worked on at the same time.
const AT_ONCE: usize = 4;

/// Everything that work needs, made once per process.
pub struct Processor {
    parts: Parts,
    outbound: Outbound,
    clock: Clock,
}

impl Processor {
    pub fn new(parts: Parts, clock: Clock) -> anyhow::Result<Self> {
        let outbound = Outbound::new(parts.config.forward.allow_loopback)?;
        Ok(Self {
            parts,
            outbound,
            clock,
        })
    }

    /// Works off a batch until `deadline`. Each record's trouble stays its own.
    pub async fn work_off(&self, batch: SqsEvent, deadline: Millis) -> SqsBatchResponse {
        let works = batch.records.into_iter().map(async |record| {
            let id = record.message_id.unwrap_or_default();
            let message = record.body.unwrap_or_default();
            // A panic in our own code: the row is under a lease that runs out, nothing is lost.
            let arn = record.event_source_arn.unwrap_or_default();
            let hear = async {
                if self.moves_behind(&arn, &record.attributes, &message).await {
                    return Ok(());
                }
                self.hear(&message, deadline).await
            };
            let work = std::panic::AssertUnwindSafe(hear).catch_unwind();
            match Box::pin(work).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => {
                    tracing::error!(
                        message.id = id,
                        error = format!("{error:#}"),
                        "could not work on a doorbell"
                    );
                    Some(id)
                }
                Err(_) => {
                    tracing::error!(message.id = id, "panicked over a doorbell");
                    Some(id)
                }
            }
        });
        let failed: Vec<Option<String>> = stream::iter(works)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut response = SqsBatchResponse::default();
        // A record without an id is reported under an empty one: then the whole batch comes back.
        failed
            .into_iter()
            .flatten()
            .for_each(|id| response.add_failure(id));
        response
    }
}

/// When this invocation is killed. `cargo lambda watch` passes a time in 1970, which is no
/// deadline; zero remaining time is one.
pub fn deadline(context: u64, now: Millis) -> Millis {
    const YEAR_2020: u64 = 1_577_836_800_000;
    match i64::try_from(context) {
        Ok(deadline) if context >= YEAR_2020 => Millis(deadline),
        _ => now + std::time::Duration::from_secs(60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_in_1970_is_none_and_one_that_is_over_is_one() {
        let now = Millis(1_795_169_681_000);
        assert_eq!(
            deadline(600_000, now),
            now + std::time::Duration::from_secs(60)
        );
        assert_eq!(deadline(0, now), now + std::time::Duration::from_secs(60));
        assert_eq!(deadline(1_795_169_680_000, now), Millis(1_795_169_680_000));
    }
}
