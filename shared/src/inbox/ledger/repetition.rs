//! Requests that arrive again for a known event: retries of the provider, and copies of a request.
//!
//! The row stores when the sender signed the first delivery. DynamoDB returns the row when it
//! refuses the put of a duplicate, so the comparison needs no read. The row counts the duplicates
//! of each kind. An event without duplicates has no count.
//!
//! A count is exact up to [`EXACT`]. From there, only a sample of the duplicates is written, each
//! with the number of duplicates that it stands for. So a flood of duplicates costs few writes.

use super::arrivals::PATIENCE;
use super::receive::{New, Refusal};
use super::transition::arrivals::repetition;
use super::{Item, Ledger, Received, Row, StoredBody, item};
use crate::base::clock::UnixMillis;
use crate::base::random;
use crate::base::string_enum::string_enum;
use crate::inbox::table::Returns;
use crate::webhook::event::{Event, Via};

/// The largest count that is exact.
const EXACT: u64 = 32;

string_enum! {
    /// What a repeated request proves about its sender.
    Repetition {
        /// The event is signed again, at a later time than the first delivery. Only a holder of the
        /// secret can do this, so it is a retry or a redelivery of the provider.
        Resent = "resent",
        /// The signed time is the time of the first delivery. The request is the same: a retry that
        /// the provider does not sign again, a retry on the network, or a captured request.
        Copied = "copied",
        /// The kind is unknown: the signature covers no time, the row has no signed time, or the
        /// request was signed before the first delivery.
        Repeated = "repeated",
    }
}

/// How often requests of an event arrived again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repetitions {
    pub resent: u64,
    pub copied: u64,
    pub repeated: u64,
    /// When a repetition was last counted.
    pub last: Option<UnixMillis>,
}

impl Repetition {
    /// The attribute of the row that counts this kind.
    fn attribute(self) -> &'static str {
        match self {
            Self::Resent => "dr",
            Self::Copied => "dc",
            Self::Repeated => "du",
        }
    }
}

impl Repetitions {
    pub(super) fn read(row: &Item) -> Self {
        let count = |kind: Repetition| item::number(row, kind.attribute()).unwrap_or(0);
        Self {
            resent: count(Repetition::Resent),
            copied: count(Repetition::Copied),
            repeated: count(Repetition::Repeated),
            last: item::time(row, "dat"),
        }
    }

    pub fn of(&self, kind: Repetition) -> u64 {
        match kind {
            Repetition::Resent => self.resent,
            Repetition::Copied => self.copied,
            Repetition::Repeated => self.repeated,
        }
    }

    /// Returns the number of requests that arrived again.
    pub fn all(&self) -> u64 {
        let all = Repetition::ALL.iter();
        all.fold(0, |sum, kind| sum.saturating_add(self.of(*kind)))
    }
}

impl Ledger {
    /// Like [`receive_stored`](Self::receive_stored), for a request that a provider just sent. If
    /// the event is known by an earlier request, also returns and counts the kind of repetition.
    pub async fn receive_request(
        &self,
        event: &Event,
        placed: &StoredBody,
        now: UnixMillis,
    ) -> anyhow::Result<(Received, Option<Repetition>)> {
        self.receive_as(event, placed, New::Requested, now).await
    }

    /// Records a later arrival of a known event in its row. At most one of the two writes happens:
    /// the first webhook of an event is another arrival, and each further webhook is a repetition.
    pub(super) async fn record_arrival(
        &self,
        row: &Row,
        event: &Event,
        new: New<'_>,
        refusal: &Refusal,
        now: UnixMillis,
    ) {
        match refusal {
            Refusal::Known(_, Some(repetition)) if new.is_requested() => {
                self.count_repetition(row, *repetition, now).await;
            }
            Refusal::Known(..) => self.record_other_arrival(row, event).await,
            _ => {}
        }
    }

    /// Counts a repeated request in the row of its event. An error is only logged, because the
    /// event is durable without the count.
    async fn count_repetition(&self, row: &Row, kind: Repetition, now: UnixMillis) {
        let mut drawn = [0; 8];
        let known = row.repetitions.of(kind);
        // The first duplicates are all written, so most calls need no random number.
        if known >= EXACT && random::fill(&mut drawn).is_err() {
            return;
        }
        let Some(weight) = weight(known, u64::from_le_bytes(drawn)) else {
            return;
        };
        let pk = row.key.pk();
        let change = repetition(kind.attribute(), weight, now);
        // The update returns no attributes, because the catcher has no permission to read rows. If
        // the condition is false, the row no longer exists.
        let written = self.table.update((&pk, "M"), change, Returns::Nothing);
        let reason = match tokio::time::timeout(PATIENCE, written).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "timed out".to_owned(),
        };
        tracing::warn!(event.key = %row.key, repeat = kind.as_str(), error = reason, "could not count a repeated request of event {}", row.key);
    }
}

/// Returns the kind of a request for a known event. `None` if the event arrived in another way, or
/// if no earlier webhook of the event is recorded.
pub(super) fn kind(row: &Row, event: &Event) -> Option<Repetition> {
    let is_webhook = |via: Via| via == Via::Webhook;
    let earlier = is_webhook(row.via) || row.also.iter().any(|also| is_webhook(also.via));
    if !(earlier && is_webhook(event.via)) {
        return None;
    }
    Some(match (row.signed_at, event.signed_at) {
        (Some(first), Some(again)) if again > first => Repetition::Resent,
        (Some(first), Some(again)) if again == first => Repetition::Copied,
        _ => Repetition::Repeated,
    })
}

/// Returns how many duplicates the next write stands for, if the count is `known`. `None` if this
/// duplicate is not written. From 32 on, one duplicate in `k` is written, where `k` is the largest
/// power of two with `16 k <= known`. `drawn` is a random number.
fn weight(known: u64, drawn: u64) -> Option<u64> {
    if known < EXACT {
        return Some(1);
    }
    let sample = 1 << (known / 16).ilog2();
    drawn.is_multiple_of(sample).then_some(sample)
}

#[cfg(test)]
mod tests;
