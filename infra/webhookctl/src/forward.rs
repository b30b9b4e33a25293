//! Stored events, sent on to a program on this machine: what `listen` does as they arrive, and
//! `send --event` with one.

mod address;
mod post;
mod signing;
mod stored;

pub(crate) use address::{Address, ELSEWHERE};
pub(crate) use post::{Answer, Forwarder, NoAnswer};
pub(crate) use signing::{Signing, scheme_of};
pub(crate) use stored::{Missing, Stored};

use shared::ledger::Ledger;

use crate::place::Inbox;

/// The ledger with the bucket of large bodies, where that is known.
pub(crate) fn ledger(inbox: &Inbox, body_bucket: Option<&str>) -> anyhow::Result<Ledger> {
    match (body_bucket, &inbox.local) {
        (Some(bucket), None) => inbox.ledger_with(bucket),
        _ => Ok(inbox.ledger.clone()),
    }
}
