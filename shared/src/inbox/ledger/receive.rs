//! Stores each received event in the ledger once.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::body::StoredBody;
use super::conflict::Why;
use super::time_index::{self, Partition};
use super::transition::trial::TEE;
use super::transition::work::pull_partition;
use super::transition::{QUARANTINED, work_partition};
use super::trial::{NewerRow, TRIAL_SCHEMA, TrialRecord};
use super::{
    FoundBy, Item, Ledger, PARKED_SCHEMA, Repetition, Row, SCHEMA, State, Write, item, repetition,
};
use crate::base::clock::UnixMillis;
use crate::base::timing::FIRST_LOOK;
use crate::webhook::event::{DeliveredBy, Event, EventKey, Sha, Via};

/// The inbox sends another work message for a duplicate of an open event, unless it has sent a
/// message within this time.
const RUNG_RECENTLY: std::time::Duration = std::time::Duration::from_secs(5);

/// The result of storing a received event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The event is new.
    New,
    /// The event is new, and waits for a worker outside of Lambda. No message is needed.
    Parked,
    /// The event is known and not settled. `silent` is `true` if no work message was sent in the
    /// last 5 seconds, or if the row cannot be read. The first delivery may have stored the row but
    /// failed to send the message.
    Open { silent: bool, run: u64 },
    /// The event is known and settled.
    Settled,
    /// An earlier event has the same id and another body, the same body and another id, or the same
    /// signature and other bytes. The event is quarantined under this key until an operator
    /// decides.
    Conflict(EventKey),
    /// A copy of an event that is already quarantined under this key. The copy gets no row.
    Repeated(EventKey),
    /// A trial recorded the event. It is not delivered.
    Recorded(TrialRecord),
}

impl Received {
    /// Returns whether no row existed for the event.
    pub fn is_new(&self) -> bool {
        matches!(
            self,
            Self::New | Self::Parked | Self::Recorded(TrialRecord::New)
        )
    }
}

/// The kind of row that a put creates.
#[derive(Clone, Copy, Debug)]
pub(super) enum New<'n> {
    Received(FoundBy),
    /// Like `Received`, for a request that a provider just sent. The time index finds the event. If
    /// the row exists, the request is counted as a repetition.
    Requested,
    /// The processor has nothing to do for the event, so it waits for a worker of this queue.
    Parked {
        queue: &'n str,
        /// Whether a provider just sent the request, as for `Requested`.
        requested: bool,
    },
    /// The event conflicts with another event, and is quarantined for this reason.
    Conflicting {
        reason: &'n str,
        /// The event that it conflicts with, if it is known.
        other: Option<&'n EventKey>,
    },
    /// A trial records the event, and does not deliver it. The row expires at this time.
    Trial {
        expires: UnixMillis,
    },
}

impl New<'_> {
    pub(super) fn is_requested(self) -> bool {
        matches!(
            self,
            Self::Requested
                | Self::Parked {
                    requested: true,
                    ..
                }
        )
    }

    fn state(self) -> State {
        match self {
            Self::Received(_) | Self::Requested | Self::Parked { .. } => State::Received,
            Self::Conflicting { .. } => State::Quarantined,
            Self::Trial { .. } => State::Done,
        }
    }

    fn schema(self) -> u32 {
        match self {
            Self::Received(_) | Self::Requested | Self::Conflicting { .. } => SCHEMA,
            Self::Parked { .. } => PARKED_SCHEMA,
            Self::Trial { .. } => TRIAL_SCHEMA,
        }
    }
}

/// The reason why a put failed its condition.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// An earlier try of this put succeeded, but its response was lost.
    Own,
    /// The event is known. A request that arrived again has its kind.
    Known(Received, Option<Repetition>),
    OtherBody,
    /// A trial recorded the event, and the route did not accept it. The event was never delivered.
    NotAccepted,
    /// This code does not support the version of the row, and the event needs no processing. Newer
    /// code may mean something else by this state, so the event must not count as a duplicate.
    Newer(u32),
}

impl Ledger {
    /// Stores the event once. A duplicate delivery is not an error.
    ///
    /// When this method returns `Ok`, the event is durable and may be acknowledged.
    pub async fn receive(&self, event: &Event, now: UnixMillis) -> anyhow::Result<Received> {
        let placed = self.store_body(event).await?;
        self.receive_stored(event, &placed, FoundBy::WorkIndex, now)
            .await
    }

    /// Like `receive`, for an event whose body is already stored.
    pub async fn receive_stored(
        &self,
        event: &Event,
        placed: &StoredBody,
        watched: FoundBy,
        now: UnixMillis,
    ) -> anyhow::Result<Received> {
        let new = New::Received(watched);
        let (received, _) = self.receive_as(event, placed, new, now).await?;
        Ok(received)
    }

    /// Like `receive_stored`. If a request arrived again, also returns the kind of repetition.
    pub(super) async fn receive_as(
        &self,
        event: &Event,
        placed: &StoredBody,
        new: New<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<(Received, Option<Repetition>)> {
        if self.is_only_recorded(event) {
            let recorded = Box::pin(self.record_trial(event, placed, now)).await?;
            return Ok((Received::Recorded(recorded), None));
        }
        if let Some(mark) = &event.once
            && let Some(other) = self.earlier_with(mark, event, now).await?
        {
            let why = if *mark == event.content {
                Why::KnownBody(*mark, other)
            } else {
                Why::KnownSignature(*mark, other)
            };
            // The future is boxed because this path is rare and the future is large.
            let received = Box::pin(self.quarantine(event, placed, why, now)).await?;
            return Ok((received, None));
        }
        if let Some(entry) = self.entities().order_entry_of(event, placed).await? {
            self.entities().enter_order(&entry, now).await?;
        }
        let policies = self.policies.now();
        let queue = policies.queues.get(event.key.source());
        let new = queue.map_or(new, |queue| New::Parked {
            queue,
            requested: new.is_requested(),
        });
        let received = match self.put_event(event, &event.key, placed, new, now).await? {
            None | Some(Refusal::Own) if queue.is_some() => Received::Parked,
            None | Some(Refusal::Own) => Received::New,
            Some(Refusal::Known(known, repetition)) => {
                return Ok((known, repetition.filter(|_| new.is_requested())));
            }
            Some(Refusal::NotAccepted) => Box::pin(self.adopt(event, now)).await?,
            Some(Refusal::Newer(version)) => return Err(NewerRow::of(event, version).into()),
            Some(Refusal::OtherBody) => {
                Box::pin(self.quarantine(event, placed, Why::OtherBody, now)).await?
            }
        };
        Ok((received, None))
    }

    fn is_only_recorded(&self, event: &Event) -> bool {
        match event.delivered_by {
            DeliveredBy::Mitt => false,
            DeliveredBy::Route => true,
            DeliveredBy::WhenStored => self.policies.now().trials.contains(event.key.source()),
        }
    }

    /// Writes the body first, then the row that points to it.
    pub(super) async fn put_event(
        &self,
        event: &Event,
        key: &EventKey,
        placed: &StoredBody,
        new: New<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Option<Refusal>> {
        let event = &event.under(key.clone());
        let write_id = write_id()?;
        let partition = self.time_partition(event, now).await?;
        let mut row = state_row(event, placed.len, new, &write_id, now, partition);
        let held = matches!(new, New::Conflicting { .. });
        self.put_body(event, placed, &mut row, held, now).await?;
        let condition = ("attribute_not_exists(pk)", Item::new());
        match self
            .put("put an event into the ledger", row, Some(condition))
            .await?
        {
            Write::Applied(_) => {
                if partition == Partition::OfDay {
                    self.time.put(event.key.source(), event.received_at);
                }
                Ok(None)
            }
            Write::Refused(old) => {
                let old = old.unwrap_or_default();
                let refusal = refusal(&old, event, &write_id, now);
                if let Ok(row) = Row::read(&old) {
                    self.hold_again(&row, now).await;
                    self.record_arrival(&row, event, new, &refusal, now).await;
                }
                Ok(Some(refusal))
            }
        }
    }

    /// Returns the partition of the `time` index for a new row. Notes the hour first if the event is
    /// stored late.
    async fn time_partition(&self, event: &Event, now: UnixMillis) -> anyhow::Result<Partition> {
        let (source, received) = (event.key.source(), event.received_at);
        let drained = event.drained_at.is_some();
        let partition = self.time.partition(source, received, now, drained);
        if partition == Partition::Late {
            Box::pin(self.note_late(source, received, now)).await?;
        }
        Ok(partition)
    }

    /// Writes a marker for the event. If the marker belongs to another event, returns the key of that
    /// event, which is `None` if the marker is damaged. The marker is written before the event, so
    /// that only one of two ids with the same marker is first. A second delivery of the first id is
    /// also accepted.
    pub(super) async fn earlier_with(
        &self,
        mark: &Sha,
        event: &Event,
        now: UnixMillis,
    ) -> anyhow::Result<Option<Option<EventKey>>> {
        let keep = self.retention(event.key.source()).rows;
        let marker = Item::from([
            (
                "pk".to_owned(),
                item::s(format!("E#{}#~{}", event.key.source(), mark.hex())),
            ),
            ("sk".to_owned(), item::s("S")),
            ("ek".to_owned(), item::s(event.key.pk())),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("ttl".to_owned(), item::n((now + keep).secs())),
        ]);
        let same = Item::from([(":ek".to_owned(), item::s(event.key.pk()))]);
        let condition = ("attribute_not_exists(pk) OR ek = :ek", same);
        let answer = self
            .put(
                "put a signature marker into the ledger",
                marker,
                Some(condition),
            )
            .await?;
        Ok(match answer {
            Write::Applied(_) => None,
            Write::Refused(old) => Some(
                old.as_ref()
                    .and_then(|old| EventKey::from_pk(item::text(old, "ek")?)),
            ),
        })
    }
}

impl Event {
    /// Returns the same event under another key.
    pub(super) fn under(&self, key: EventKey) -> Self {
        Self {
            key,
            ..self.clone()
        }
    }
}

/// Derives from the existing item why a put failed its condition.
pub(super) fn refusal(old: &Item, event: &Event, write_id: &str, now: UnixMillis) -> Refusal {
    if item::text(old, "wid") == Some(write_id) {
        return Refusal::Own;
    }
    let fetched = |via: Option<Via>| via == Some(Via::BackupSync);
    let old_via = item::text(old, "via").and_then(Via::parse);
    // The bytes from the provider's API differ from the bytes of the webhook, even for the same
    // event.
    let comparable = !fetched(old_via) && !fetched(Some(event.via));
    let old_content = item::bytes(old, "same").or_else(|| item::bytes(old, "sha"));
    let same = old_content == Some(event.content.0.as_slice());
    if comparable && !same {
        return Refusal::OtherBody;
    }
    match Row::read(old) {
        // The approval of a held event sends its message.
        Ok(row) if row.is_held() => {
            let open = Received::Open {
                silent: false,
                run: row.run,
            };
            Refusal::Known(open, repetition::kind(&row, event))
        }
        Ok(row) if row.is_open() => {
            let rung = row.sent_at.unwrap_or(row.received_at);
            let open = Received::Open {
                // A worker asks for its events, so a message would have no effect.
                silent: !row.is_pulled() && now.since(rung) > RUNG_RECENTLY,
                run: row.run,
            };
            Refusal::Known(open, repetition::kind(&row, event))
        }
        Ok(row) if row.was_not_accepted() => Refusal::NotAccepted,
        Ok(row) if row.is_too_new() => Refusal::Newer(row.schema),
        Ok(row) => Refusal::Known(Received::Settled, repetition::kind(&row, event)),
        // The row is durable, but this code cannot read it. Another work message is harmless, and
        // the processor then reports the error.
        Err(_) => {
            let open = Received::Open {
                silent: true,
                run: 0,
            };
            Refusal::Known(open, None)
        }
    }
}

fn state_row(
    event: &Event,
    len: usize,
    new: New<'_>,
    write_id: &str,
    now: UnixMillis,
    partition: Partition,
) -> Item {
    let pk = event.key.pk();
    let received = event.received_at;
    let mut row = Item::from([
        ("pk".to_owned(), item::s(&pk)),
        ("sk".to_owned(), item::s("M")),
        ("sv".to_owned(), item::n(new.schema())),
        ("st".to_owned(), item::s(new.state().as_str())),
        ("epoch".to_owned(), item::n(0)),
        ("run".to_owned(), item::n(0)),
        ("gen".to_owned(), item::n(0)),
        ("att".to_owned(), item::n(0)),
        ("cr".to_owned(), item::n(0)),
        ("rcv".to_owned(), item::ms(received)),
        ("wid".to_owned(), item::s(write_id)),
        ("sha".to_owned(), item::b(event.sha.0)),
        ("len".to_owned(), item::n(len)),
        ("via".to_owned(), item::s(event.via.as_str())),
        ("ty".to_owned(), item::s(&event.kind)),
        ("pvd".to_owned(), item::s(&event.provider)),
        ("pre".to_owned(), item::s(&event.preset)),
        ("prv".to_owned(), item::s(event.proven.as_str())),
        ("cfg".to_owned(), item::s(&event.config)),
        ("fx".to_owned(), AttributeValue::M(HashMap::new())),
        ("h".to_owned(), AttributeValue::L(Vec::new())),
        (
            "tpk".to_owned(),
            item::s(time_index::name(&event.key, received, partition)),
        ),
        (
            "tsk".to_owned(),
            item::s(format!("{:013}#{}", received.0.max(0), event.kind)),
        ),
    ]);
    add_state_attributes(&mut row, new, &event.key, now);
    add_optional_attributes(&mut row, event);
    row
}

/// Adds the attributes that depend on the first state, such as the entry in the `work` index.
fn add_state_attributes(row: &mut Item, new: New<'_>, key: &EventKey, now: UnixMillis) {
    match new {
        New::Received(watched) => {
            row.insert("enq".into(), item::ms(now));
            if watched == FoundBy::WorkIndex {
                row.insert("gpk".into(), item::s(work_partition(&key.pk())));
                row.insert("gsk".into(), item::ms(now + FIRST_LOOK));
            }
        }
        New::Requested => {
            row.insert("enq".into(), item::ms(now));
        }
        New::Parked { queue, .. } => {
            row.insert("pul".into(), item::s(queue));
            row.insert("gpk".into(), item::s(pull_partition(key)));
            row.insert("gsk".into(), item::ms(now));
        }
        New::Conflicting { reason, other } => {
            row.insert("reason".into(), item::s(reason));
            if let Some(other) = other {
                row.insert("oth".into(), item::s(other.pk()));
            }
            row.insert("gpk".into(), item::s(QUARANTINED));
            row.insert("gsk".into(), item::ms(now));
        }
        New::Trial { expires } => {
            row.insert("reason".into(), item::s(TEE));
            row.insert("done_at".into(), item::ms(now));
            row.insert("ttl".into(), item::n(expires.secs()));
        }
    }
}

/// Adds the attributes that only some events have.
fn add_optional_attributes(row: &mut Item, event: &Event) {
    let headers: HashMap<_, _> = event
        .headers
        .iter()
        .map(|(k, v)| (k.clone(), item::s(v)))
        .collect();
    if !headers.is_empty() {
        row.insert("hdr".into(), AttributeValue::M(headers));
    }
    // For most events, the content hash equals the body hash and is not stored again.
    if event.content != event.sha {
        row.insert("same".into(), item::b(event.content.0));
    }
    if let Some(batch) = &event.of {
        row.insert("bat".into(), item::s(batch.written()));
    }
    if let Some(drained_at) = event.drained_at {
        row.insert("spl".into(), item::ms(drained_at));
    }
    if let Some(signed_at) = event.signed_at {
        row.insert("sgt".into(), item::ms(signed_at));
    }
    let optional = [
        ("ct", &event.content_type),
        ("dlv", &event.delivery),
        ("kid", &event.secret),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            row.insert(name.into(), item::s(value));
        }
    }
    if let Some(account) = &event.account {
        row.insert("acc".into(), item::s(account.written()));
    }
}

/// Returns a random id for one put. Without this id, a put that the SDK retries after a lost
/// response would look like a duplicate.
pub(crate) fn write_id() -> anyhow::Result<String> {
    let mut bytes = [0; 9];
    crate::base::random::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}
