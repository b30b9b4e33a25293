//! The way out: into the inbox, for what can be proven now, or out of the table.

use anyhow::Context as _;

use super::{RejectedRequest, RejectedRequests};
use crate::aws::secrets::Secret;
use crate::base::clock::UnixMillis;
use crate::inbox::Inbox;
use crate::inbox::ledger::{Received, item};
use crate::inbox::table::{Change, Returns};
use crate::webhook::event::Event;
use crate::webhook::verify::{Arrival, Reason, Rejected, Verifier};

/// What the verification says of a request today.
#[derive(Debug)]
pub enum Verdict {
    Genuine(Box<Event>),
    /// Rightly signed, but it only asked for an answer. Nothing of it is for the inbox.
    Handshake,
    Refused(Reason),
    /// What is stored of it is not what arrived.
    Damaged,
}

/// What became of a genuine one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entered {
    /// Another event has its id, or its body: it is kept apart, in the inbox.
    Apart,
    New,
    /// It had arrived by another delivery.
    Known,
}

impl RejectedRequest {
    /// Verifies it as the catcher does, with the secrets of today and the time of its receipt:
    /// the envelope carries it.
    pub fn verdict(&self, verifier: &Verifier, secrets: &[Secret]) -> Verdict {
        let Ok(envelope) = self.envelope() else {
            return Verdict::Damaged;
        };
        // It may have come before `public_url` was set.
        let envelope = verifier.at_public_url(envelope);
        match verifier.verify(&envelope, secrets) {
            Ok(Arrival::Event(event)) => Verdict::Genuine(event),
            Ok(Arrival::Handshake(_)) => Verdict::Handshake,
            Err(Rejected(reason)) => Verdict::Refused(reason),
        }
    }
}

impl RejectedRequests {
    /// Lets a genuine request into the inbox, by the door that all events come in, and notes that
    /// it went. Whoever dies in between lets it in again, and finds it known.
    pub async fn release(
        &self,
        inbox: &Inbox,
        held: &RejectedRequest,
        event: &Event,
        now: UnixMillis,
    ) -> anyhow::Result<Entered> {
        let kept = inbox.accept(event, now).await?;
        let entered = kept.iter().map(|kept| match &kept.received {
            Received::New => (Entered::New, &kept.key),
            Received::Open { .. } | Received::Settled => (Entered::Known, &kept.key),
            Received::Conflict(key) | Received::Repeated(key) => (Entered::Apart, key),
        });
        // Of a batch, what is most worth to be looked at.
        let first = entered.min_by_key(|(entered, _)| *entered);
        let (entered, key) = first.context("a request brings at least one event")?;
        self.mark_released(held, Some(&key.to_string()), now)
            .await?;
        Ok(entered)
    }

    /// Notes that a request needs no more looking at. One that was purged meanwhile stays away.
    pub async fn mark_released(
        &self,
        held: &RejectedRequest,
        key: Option<&str>,
        now: UnixMillis,
    ) -> anyhow::Result<()> {
        let update = match key {
            Some(_) => "SET rel = :now, relk = :key",
            None => "SET rel = :now",
        };
        let condition = "attribute_exists(pk) AND attribute_not_exists(rel)";
        let mut change = Change::new("mark a rejected request as released", condition, update)
            .with(":now", item::ms(now));
        if let Some(key) = key {
            change = change.with(":key", item::s(key));
        }
        let request = (&*held.pk, &*held.sk);
        self.table.update(request, change, Returns::Nothing).await?;
        Ok(())
    }

    /// Deletes a request. The budget of its day stays spent.
    pub async fn purge(&self, held: &RejectedRequest) -> anyhow::Result<()> {
        let request = (&*held.pk, &*held.sk);
        self.table
            .delete("delete a rejected request", request)
            .await
    }
}
