//! Processes the events of an entity in order.
//!
//! [`Processor::take_turn`] runs before the actions, and [`Processor::end_turn`] after the
//! settlement. The worker takes the entity lock after the claim, for the same duration as the
//! lease. The lock therefore outlasts the lease, and effects begin only under the lease. A call
//! that timed out can still take effect later. Only its destination can reject it, so each call
//! contains the entity and its version.

mod current_state;

use std::time::Duration;

use bytes::Bytes;
use shared::base::backoff::jitter;
use shared::base::clock::UnixMillis;
use shared::base::timing::AFTER_ACTION;
use shared::inbox::ledger::transition::order::WAITS;
use shared::inbox::ledger::{
    Content, EntityLock, ExpiredLease, Lease, OrderEntry, Row, Settled, Settlement, VersionCheck,
};
use shared::inbox::outcome::Outcome;
use shared::inbox::queue::WorkMessage;
use shared::monitoring::missing_paths::of_order;
use shared::sources::Source;
use shared::sources::ordering::{Entity, Mode, Order, Place, Version};
use shared::webhook::event::EventKey;

use crate::destination::facts;
use crate::{Permit, Processor};

/// The waits of a worker before each attempt to get the lock. Most events are processed in less
/// time than the sum of these waits.
const WAITS_FOR_LOCK: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(300),
    Duration::from_millis(400),
];

/// The time for which an event that did not get the lock is deferred. This constant is the first
/// delay, which doubles each time. The second is the longest delay, after which the lock of a
/// crashed worker has almost expired.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_AT_MOST: Duration = Duration::from_secs(32);

const SKIPPED_STALE: &str = "skipped_stale";
const OUT_OF_ORDER: &str = "out_of_order";
const UNORDERED: &str = "unordered";

/// The lock and the order entry that an attempt holds until its event is settled.
#[derive(Default)]
pub(crate) struct Turn {
    lock: Option<EntityLock>,
    pointer: Option<OrderEntry>,
    /// The annotation in the event's history.
    pub(crate) remark: Option<&'static str>,
    /// The reason why an action was deferred, and the earliest time to try it again.
    pub(crate) waits: Option<(String, UnixMillis)>,
    /// Whether another event of the entity must be processed first.
    pub(crate) is_behind: bool,
    /// The key of that event, if known.
    ahead: Option<EventKey>,
}

/// The input of the actions.
pub(crate) struct ActionInput {
    pub(crate) body: Bytes,
    /// The row that the actions get instead of the event's own row.
    pub(crate) row: Option<Row>,
    pub(crate) entity: Option<EntityHeaders>,
    /// The version of a fetched state. The effects then belong to this version, not to the event.
    pub(crate) state: Option<String>,
}

/// The entity headers of a call. A destination can compare them with its own state.
pub(crate) struct EntityHeaders {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// `current` if the body is the fetched state. `gone` if the provider no longer has the entity:
    /// the body is then the body of the event.
    state: Option<&'static str>,
}

impl EntityHeaders {
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let plain = |text: &&str| text.bytes().all(|b| (b' '..=b'~').contains(&b));
        [
            ("mitt-entity", Some(self.name.as_str())),
            ("mitt-entity-version", self.version.as_deref()),
            ("mitt-entity-state", self.state),
        ]
        .into_iter()
        .filter_map(move |(name, value)| Some((name, value.filter(plain)?)))
    }
}

impl ActionInput {
    fn event(body: &Bytes, entity: Option<EntityHeaders>) -> Self {
        Self {
            body: body.clone(),
            row: None,
            entity,
            state: None,
        }
    }
}

impl Processor {
    /// Waits for the event's turn. Returns the input of the actions, or the outcome of an attempt
    /// that does not run them. In both cases, `turn` then contains what the attempt holds.
    pub(crate) async fn take_turn(
        &self,
        source: &Source,
        lease: &Lease,
        content: &Content,
        turn: &mut Turn,
    ) -> Result<ActionInput, Outcome> {
        let body = &content.body;
        // A request to confirm a subscription is not about an entity.
        let is_event = source.verifier.confirmation(body).is_none();
        // An event that no action receives must not make other events stale.
        let mut actions = source.actions.iter();
        let concerns = actions.any(|action| action.filter.matches(facts(&lease.row, content)));
        let ordered = source.order.as_ref();
        let Some(order) = ordered.filter(|_| is_event && concerns) else {
            return Ok(ActionInput::event(body, None));
        };
        let row = &lease.row;
        let stored = row.stored(body);
        let Some(place) = order.place(&source.name, stored, row.received_at) else {
            tracing::info!(event.id = %row.id(), event.key = %row.key, source = source.name, "event {} lacks its entity or its version, so it is processed without ordering", row.id());
            let has_entity = order.has_entity(stored);
            if let Some(missing) = of_order(source, order, has_entity) {
                Box::pin(self.note_missing(row, missing)).await;
            }
            turn.remark = Some(UNORDERED);
            return Ok(ActionInput::event(body, None));
        };
        let taken = self.in_order((source, order), &place, lease, body, turn);
        let given = match Box::pin(taken).await {
            Ok(given) => given,
            Err(error) => Err(Outcome::retry(format!("{error:#}"))),
        };
        if let Some(remark) = turn.remark {
            tracing::warn!(event.id = %row.id(), event.key = %row.key, source = source.name, remark, "event {}: {remark}", row.id());
        }
        given
    }

    async fn in_order(
        &self,
        (source, order): (&Source, &Order),
        place: &Place,
        lease: &Lease,
        body: &Bytes,
        turn: &mut Turn,
    ) -> anyhow::Result<Result<ActionInput, Outcome>> {
        let entity = &place.entity;
        turn.lock = self.lock(source, entity, lease).await?;
        if turn.lock.is_none() {
            let wait = again(lease.row.deferrals).mul_f64(1.0 + jitter());
            return Ok(Err(waits((self.clock)() + wait)));
        }
        let version = match (&order.mode, &place.version) {
            (Mode::Fetch(current), _) => {
                return self
                    .current(order, current, entity, lease, body, turn)
                    .await;
            }
            (Mode::LatestWins, Some(version)) => {
                if self.raise(entity, version, lease).await? == VersionCheck::Stale {
                    turn.remark = Some(SKIPPED_STALE);
                    return Ok(Err(Outcome::Done));
                }
                version
            }
            (Mode::Strict, Some(version)) => {
                let pointer = OrderEntry::new(entity.clone(), version, &lease.row.key);
                let pointer = turn.pointer.insert(pointer);
                let ledger = &self.services.inbox.ledger;
                if let Some(ahead) = ledger
                    .entities()
                    .predecessor(pointer, (self.clock)())
                    .await?
                {
                    turn.is_behind = true;
                    turn.ahead = ahead.event;
                    return Ok(Err(waits(ahead.until)));
                }
                if self.raise(entity, version, lease).await? == VersionCheck::Stale {
                    turn.remark = Some(OUT_OF_ORDER);
                }
                version
            }
            (Mode::LatestWins | Mode::Strict, None) => {
                return Ok(Ok(ActionInput::event(body, None)));
            }
        };
        let entity = of_entity(entity, Some(version), None);
        Ok(Ok(ActionInput::event(body, Some(entity))))
    }

    async fn lock(
        &self,
        source: &Source,
        entity: &Entity,
        lease: &Lease,
    ) -> anyhow::Result<Option<EntityLock>> {
        // The lock is not renewed, so it lasts longer than the actions.
        let time = source.time_limit() + 2 * AFTER_ACTION;
        for wait in WAITS_FOR_LOCK {
            tokio::time::sleep(wait.mul_f64(0.5 + 0.5 * jitter())).await;
            let now = (self.clock)();
            let ledger = &self.services.inbox.ledger;
            let lock = ledger
                .entities()
                .lock_entity(entity, lease.owner(), now, time);
            if let Some(lock) = lock.await? {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    async fn raise(
        &self,
        entity: &Entity,
        version: &Version,
        lease: &Lease,
    ) -> anyhow::Result<VersionCheck> {
        let ledger = &self.services.inbox.ledger;
        let raised =
            ledger
                .entities()
                .advance_version(entity, version, &lease.row.key, (self.clock)());
        raised.await
    }

    /// Processes the events that waited for one another, while enough time is left. The processor
    /// does not send messages for them, because Lambda stops a long sequence of invocations in
    /// which each one sends the message for the next.
    pub(crate) async fn process_next_in_order(
        &self,
        mut next: Option<WorkMessage>,
        deadline: UnixMillis,
    ) {
        while let Some(work_message) = next {
            // The permit belongs to the first event.
            next = match self
                .process_event(&work_message, deadline, ExpiredLease::Leave, Permit(None))
                .await
            {
                Ok((_, next)) => next,
                Err(error) => {
                    tracing::info!(
                        event.key = %work_message.key,
                        error = format!("{error:#}"),
                        "could not process event {} directly after the previous event; its own message starts it later",
                        work_message.key
                    );
                    None
                }
            };
        }
    }

    /// Releases the lock and the order entry of a settled event. Returns the event to process next:
    /// the event ahead, or the event that waited for this one. An error here only costs time,
    /// because the lock expires and other workers skip the order entry of a settled row.
    pub(crate) async fn end_turn(&self, turn: Turn, settled: &Settled) -> Option<WorkMessage> {
        let ledger = &self.services.inbox.ledger;
        let Turn {
            lock,
            pointer,
            ahead,
            ..
        } = turn;
        let ended = matches!(
            settled,
            Settled::Recorded(Settlement::Done | Settlement::DeadLetter { .. })
        );
        let end = async {
            let pointer = pointer.filter(|_| ended);
            if let Some(pointer) = &pointer {
                ledger.entities().leave_order(pointer).await?;
            }
            if let Some(lock) = lock {
                ledger.entities().unlock_entity(lock).await?;
            }
            match pointer {
                Some(pointer) => {
                    ledger
                        .entities()
                        .wake_next(&pointer.entity, (self.clock)())
                        .await
                }
                None => Ok(ahead),
            }
        };
        let next = match end.await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "could not release the entity lock of an event; the lock expires"
                );
                None
            }
        };
        // The run of the next event is not known here. A message with any run finds the row.
        next.map(|key| WorkMessage { key, run: 0 })
    }
}

fn of_entity(
    entity: &Entity,
    version: Option<&Version>,
    state: Option<&'static str>,
) -> EntityHeaders {
    EntityHeaders {
        name: entity.name.clone(),
        version: version.map(|version| version.written.clone()),
        state,
    }
}

fn again(put_offs: u32) -> Duration {
    AGAIN
        .saturating_mul(2_u32.saturating_pow(put_offs))
        .min(AGAIN_AT_MOST)
}

fn waits(until: UnixMillis) -> Outcome {
    Outcome::deferred(WAITS, until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_the_lock_taken_waits_twice_as_long_each_time() {
        let waits: Vec<u64> = [0, 1, 2, 3, 4, 5, u32::MAX]
            .map(|put_offs| again(put_offs).as_secs())
            .into();
        assert_eq!(waits, [2, 4, 8, 16, 32, 32, 32]);
    }
}
