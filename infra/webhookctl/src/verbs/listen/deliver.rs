//! Delivers one event to the local program.

use std::sync::Arc;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Listed};
use shared::sources::Config;
use shared::webhook::preset::{Location, Scheme};

use super::Signings;
use super::wanted::Wanted;
use crate::forward::{Address, Answer, Forwarder, Missing, NoAnswer, Stored};
use crate::samples::Signed;

/// The settings and clients that all deliveries share.
pub(super) struct Deliveries {
    pub(super) ledger: Ledger,
    pub(super) forwarder: Forwarder,
    pub(super) address: Address,
    pub(super) signing: Signings,
    pub(super) config: Arc<Config>,
    pub(super) wanted: Arc<Wanted>,
}

/// An event to deliver. `past` is true if the inbox received it before `listen` started.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) event: Listed,
    pub(super) past: bool,
    /// Whether the user has pressed the key to send the event again.
    pub(super) again: bool,
}

/// The result of a delivery.
pub(super) enum End {
    Answered {
        answer: Answer,
        signed_again: bool,
    },
    NoAnswer(NoAnswer),
    /// The event does not match the selection, or no longer exists.
    Unwanted,
    /// The body cannot be read, for this reason.
    MissingBody(&'static str),
    /// The inbox could not be read.
    Trouble(anyhow::Error),
}

impl Deliveries {
    pub(super) async fn deliver(&self, item: &Item) -> End {
        let stored = match Stored::read(&self.ledger, &item.event.key).await {
            Err(error) => return End::Trouble(error),
            Ok(Err(Missing::Event)) => return End::Unwanted,
            Ok(Err(missing)) => return End::MissingBody(missing.why()),
            Ok(Ok(stored)) => stored,
        };
        if !self.wanted.takes(&stored.row, &stored.body, &self.config) {
            return End::Unwanted;
        }
        if !self
            .wanted
            .has_headers(stored.request.as_ref(), &stored.row)
        {
            return End::Unwanted;
        }
        let (signed, signed_again) = self.request(item, &stored);
        match self.forwarder.post(&signed).await {
            Ok(answer) => End::Answered {
                answer,
                signed_again,
            },
            Err(why) => End::NoAnswer(why),
        }
    }

    /// Builds the request. Signs it again if `--resign` is given and the source allows it.
    fn request(&self, item: &Item, stored: &Stored) -> (Signed, bool) {
        let url = self.address.url();
        if let Some(Ok(signing)) = self.signing.get(item.event.key.source())
            && let Ok(signed) = signing.sign(stored, |_| Ok(()), url, UnixMillis::now())
        {
            return (signed, true);
        }
        (stored.as_kept(url), false)
    }
}

/// Returns whether signing changes only headers, and not the body or the URL.
pub(super) fn in_headers(scheme: &Scheme) -> bool {
    let token = scheme.jwt.iter().map(|jwt| &jwt.from);
    let time = scheme.ts.iter().map(|ts| &ts.from);
    let hash = scheme.body_hash.iter().map(|hash| &hash.from);
    let signature = (scheme.jwt.is_none()).then_some(&scheme.sig.from);
    let mut places = signature.into_iter().chain(token).chain(time).chain(hash);
    scheme.for_each.is_none()
        && places.all(|place| {
            matches!(
                place,
                Location::Header(_) | Location::HeaderNumbered(_) | Location::Sig(_)
            )
        })
}
