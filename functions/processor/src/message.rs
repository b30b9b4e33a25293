//! Processes one message of the work queue.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use aws_lambda_events::sqs::SqsMessage;
use shared::base::clock::UnixMillis;
use shared::base::timing::{CLOCK_MARGIN, EFFECT_TIMEOUT, LEASE, LONG_LEASE};
use shared::inbox::current_sources::Lookup;
use shared::inbox::ledger::{Claim, ExpiredLease};
use shared::inbox::queue::{InvalidMessage, QueueName, WorkMessage};
use shared::sources::Config;

use crate::{Permit, Processor, WORKER};

/// The result of processing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    Acknowledge,
    /// The lease of the event's last worker has expired, and this worker did not take over the
    /// event.
    Abandoned,
}

impl Processor {
    /// Processes a message. After an error, the queue redelivers it.
    pub(crate) async fn process_message(
        &self,
        message: &str,
        deadline: UnixMillis,
        abandoned: ExpiredLease,
        slot: Permit<'_>,
    ) -> anyhow::Result<MessageOutcome> {
        let work_message = match WorkMessage::from_message(message) {
            Ok(work_message) => work_message,
            Err(InvalidMessage::UnknownVersion(version)) => {
                bail!("message version {version} is not supported; deploy a newer processor");
            }
            Err(why) => {
                // The message does not name an event, so no event is lost.
                tracing::error!(why = ?why, "dropped an invalid message");
                return Ok(MessageOutcome::Acknowledge);
            }
        };
        let (heard, next) = self
            .process_event(&work_message, deadline, abandoned, slot)
            .await?;
        self.process_next_in_order(next, deadline).await;
        Ok(heard)
    }

    /// Processes the event of a message, and returns a message for the event to process next.
    pub(crate) async fn process_event(
        &self,
        work_message: &WorkMessage,
        deadline: UnixMillis,
        abandoned: ExpiredLease,
        slot: Permit<'_>,
    ) -> anyhow::Result<(MessageOutcome, Option<WorkMessage>)> {
        let key = &work_message.key;
        let Some(config) = self.config_of(work_message).await else {
            // The row stays open, and the sweep sends its message again. The processor processes
            // the event once the source is configured again.
            return Ok((MessageOutcome::Acknowledge, None));
        };
        let source = config.source(key.source()).context("find the source")?;
        if self.pauses.is_paused(&source.name, (self.clock)()).await? {
            // The row does not change. The sweep checks it again until an operator resumes the
            // source.
            tracing::debug!(event.key = %key, "source {} is paused", source.name);
            return Ok((MessageOutcome::Acknowledge, None));
        }
        let is_long = source.is_long() && self.services.runs_long_actions;
        if source.is_long() && !is_long && self.sends_on(work_message).await? {
            return Ok((MessageOutcome::Acknowledge, None));
        }
        let (limit, lease) = if is_long {
            (source.time_limit(), LONG_LEASE)
        } else {
            (EFFECT_TIMEOUT, LEASE)
        };
        let now = (self.clock)();
        if deadline.since(now) < limit + CLOCK_MARGIN {
            bail!("not enough time is left in this invocation to process the event");
        }
        // The second look at an event with an expired lease is not for a new event.
        let is_new = abandoned == ExpiredLease::Leave;
        if is_new && source.only_keeps() && self.keep(source, key, now).await? {
            return Ok((MessageOutcome::Acknowledge, None));
        }
        match self
            .services
            .inbox
            .ledger
            .claim_or(abandoned, key, WORKER, now, lease, source.backoff.attempts)
            .await?
        {
            Claim::Leased(lease) => {
                let next = self.work(source, *lease, now + limit, slot).await?;
                Ok((MessageOutcome::Acknowledge, next))
            }
            Claim::Abandoned => Ok((MessageOutcome::Abandoned, None)),
            Claim::TooNew(version) => {
                bail!(
                    "the row of event {key} has version {version}, which is not supported; deploy a newer processor"
                )
            }
            Claim::Exhausted => {
                tracing::error!(event.key = %key, outcome = "dead_letter", "event {key} is a dead letter: its attempts are used up");
                Ok((MessageOutcome::Acknowledge, None))
            }
            other @ (Claim::Settled(_)
            | Claim::Held
            | Claim::OnHold
            | Claim::NotDue(_)
            | Claim::Parked
            | Claim::Missing) => {
                tracing::debug!(event.key = %key, claim = ?other, "event {key} needs no attempt now");
                Ok((MessageOutcome::Acknowledge, None))
            }
        }
    }

    /// Sends the message of a long action on. Without a queue for long actions, the attempt fails, so
    /// that the event becomes a dead letter whose error says what to do.
    async fn sends_on(&self, work_message: &WorkMessage) -> anyhow::Result<bool> {
        let sent = self.services.inbox.queue.send_to_long(work_message).await;
        sent.context("send a message on to the queue for long actions")
    }

    /// Returns the configuration that has the source of an event, or `None` after it has logged why
    /// there is none.
    async fn config_of(&self, work_message: &WorkMessage) -> Option<Arc<Config>> {
        let name = work_message.key.source();
        let has = |config: &Config| config.source(name).is_some();
        match self.services.sources.find(has, (self.clock)()).await {
            Lookup::Found(config) => return Some(config),
            Lookup::Unknown => {
                tracing::error!(event.key = %work_message.key, "source {name} is not configured; the event waits until the source is configured again");
            }
            Lookup::Unreadable => {
                tracing::error!(event.key = %work_message.key, "source {name} is not in the sources that this process knows, and the current version could not be loaded; the event waits");
            }
        }
        None
    }

    /// Moves a message that waited too long to the backlog queue, so that new events do not wait
    /// behind it. Returns whether it moved the message. If not, the caller processes the message.
    pub(crate) async fn divert_to_backlog(&self, record: &SqsMessage) -> bool {
        let queue = &self.services.inbox.queue;
        let arn = record.event_source_arn.as_deref().unwrap_or_default();
        let message = record.body.as_deref().unwrap_or_default();
        let sent = record.attributes.get("SentTimestamp");
        let Some(sent) = sent.and_then(|text| text.parse().ok()).map(UnixMillis) else {
            return false;
        };
        let Ok(work_message) = WorkMessage::from_message(message) else {
            return false;
        };
        queue.is_late(arn, sent, (self.clock)())
            && queue
                .send_to(QueueName::Backlog, &work_message, Duration::ZERO)
                .await
                .is_ok()
    }
}
