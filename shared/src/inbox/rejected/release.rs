//! Releases rejected requests into the inbox if they can be verified now. Also deletes rejected
//! requests.

use anyhow::Context as _;

use super::{RejectedRequest, RejectedRequests};
use crate::aws::secrets::Secret;
use crate::base::clock::UnixMillis;
use crate::inbox::Inbox;
use crate::inbox::ledger::{Received, TrialRecord, item};
use crate::inbox::table::{Change, Returns};
use crate::webhook::event::{DeliveredBy, Event};
use crate::webhook::verify::{Arrival, Reason, Rejected, Verifier};

/// The result of a second verification of a stored request.
#[derive(Debug)]
pub enum Verdict {
    Genuine(Box<Event>),
    /// The signature is valid, but the request is a handshake and contains no event.
    Handshake,
    Refused(Reason),
    /// The stored body does not match its hash.
    Damaged,
}

/// The result of releasing a verified request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entered {
    /// The event conflicts with another event, so it is quarantined in the inbox.
    Apart,
    New,
    /// The event is already stored from another delivery.
    Known,
}

impl RejectedRequest {
    /// Verifies the request with the current secrets, in the same way as the catcher. The
    /// verification compares timestamps with the time of receipt, which the envelope contains.
    pub fn verdict(&self, verifier: &Verifier, secrets: &[Secret]) -> Verdict {
        let Ok(envelope) = self.envelope() else {
            return Verdict::Damaged;
        };
        // The request may have arrived before `public_url` was configured.
        let envelope = verifier.at_public_url(envelope);
        match verifier.verify(&envelope, secrets) {
            Ok(Arrival::Event(event)) => Verdict::Genuine(event),
            Ok(Arrival::Handshake(_)) => Verdict::Handshake,
            Err(Rejected(reason)) => Verdict::Refused(reason),
        }
    }
}

impl RejectedRequests {
    /// Stores the events of a verified request through [`Inbox::accept`], then marks the request as
    /// released. After a crash between the two steps, the next release finds that the events are
    /// already stored.
    ///
    /// If the route of a trial accepted the request, it has processed the events, so they are only
    /// recorded, with this answer. If the route did not accept the request, the events are recorded
    /// only while the trial continues.
    pub async fn release(
        &self,
        inbox: &Inbox,
        held: &RejectedRequest,
        event: &Event,
        now: UnixMillis,
    ) -> anyhow::Result<Entered> {
        let mut event = event.clone();
        let route = held.route.as_ref();
        event.delivered_by = match route {
            None => DeliveredBy::Mitt,
            Some(answer) if answer.is_accepted() => DeliveredBy::Route,
            Some(_) => DeliveredBy::WhenStored,
        };
        let kept = inbox.accept(&event, now).await?;
        for (answer, kept) in route
            .into_iter()
            .flat_map(|it| kept.iter().map(move |kept| (it, kept)))
        {
            let id = held.id.to_string();
            inbox
                .ledger
                .record_answer_once(&kept.key, answer, &id)
                .await?;
        }
        let entered = kept.iter().map(|kept| match &kept.received {
            Received::New | Received::Parked | Received::Recorded(TrialRecord::New) => {
                (Entered::New, &kept.key)
            }
            Received::Open { .. } | Received::Settled | Received::Recorded(TrialRecord::Known) => {
                (Entered::Known, &kept.key)
            }
            Received::Conflict(key) | Received::Repeated(key) => (Entered::Apart, key),
            Received::Recorded(TrialRecord::Conflict) => (Entered::Apart, &kept.key),
        });
        // For a batch, this function returns the result with the highest priority.
        let first = entered.min_by_key(|(entered, _)| *entered);
        let (entered, key) = first.context("the request contains no event")?;
        self.mark_released(held, Some(&key.to_string()), now)
            .await?;
        Ok(entered)
    }

    /// Marks a request as released. Has no effect if the request is already released or was
    /// deleted.
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

    /// Deletes a request. The quota of its day still counts it.
    pub async fn purge(&self, held: &RejectedRequest) -> anyhow::Result<()> {
        let request = (&*held.pk, &*held.sk);
        self.table
            .delete("delete a rejected request", request)
            .await
    }
}
