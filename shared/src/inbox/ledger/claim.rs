//! A worker takes an event, and nobody else may write it then.

use std::time::Duration;

use super::transition::{self, Fence};
use super::{Item, Ledger, NEWEST_SCHEMA, Row, State, Write, item};
use crate::base::backoff::CRASHES;
use crate::base::clock::UnixMillis;
use crate::base::timing::CLOCK_MARGIN;
use crate::webhook::event::EventKey;

/// The right to work on an event, until a time. Settling takes it, so that it happens once.
#[derive(Debug)]
pub struct Lease {
    /// The row as it was when the claim won.
    pub row: Row,
    pub(super) item: Item,
    pub(super) owner: String,
    pub(super) until: UnixMillis,
    pub(super) annotation: Option<&'static str>,
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claim {
    Leased(Box<Lease>),
    /// It is done, dead or kept apart: there is nothing to do.
    Settled(State),
    /// Somebody else is at it.
    Held,
    /// Somebody was at it and never came back, and it is to be left.
    Abandoned,
    /// A retry is due later; the sweep or another message comes for it.
    NotDue(UnixMillis),
    /// Its attempts are used up. It is a dead letter now.
    Exhausted,
    /// There is no such event (any more).
    Missing,
    /// A newer version wrote it. It stays for a worker that knows it.
    TooNew(u32),
}

/// What a worker does about an event whose worker never came back. It may be one that kills who
/// works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredLease {
    TakeOver,
    Leave,
}

/// What to do about a refused claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Our own claim, applied before its answer was lost.
    Own,
    Settled(State),
    Held,
    NotDue(UnixMillis),
    TakeOver {
        seen: u64,
    },
    Exhaust {
        seen: u64,
        reason: &'static str,
    },
}

impl Lease {
    /// Whether there is time to begin something that others must not begin as well.
    pub fn holds(&self, now: UnixMillis) -> bool {
        now < self.until - CLOCK_MARGIN
    }

    pub fn until(&self) -> UnixMillis {
        self.until
    }

    /// A name that no other claim has.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// What the history is to say of this attempt, beside how it ended.
    pub fn annotate(&mut self, remark: &'static str) {
        self.annotation = Some(remark);
    }

    pub(super) fn fence(&self) -> Fence<'_> {
        Fence {
            epoch: self.row.epoch,
            owner: &self.owner,
        }
    }
}

impl Ledger {
    /// Takes an event to work on it, for `lease` from `now`. `attempts` is how many there may be
    /// in one run. Of any number of workers at most one gets a lease.
    pub async fn claim(
        &self,
        key: &EventKey,
        worker: &str,
        now: UnixMillis,
        lease: Duration,
        attempts: u32,
    ) -> anyhow::Result<Claim> {
        self.claim_or(ExpiredLease::TakeOver, key, worker, now, lease, attempts)
            .await
    }

    /// The same, where it is said what becomes of an event that its worker abandoned.
    pub async fn claim_or(
        &self,
        abandoned: ExpiredLease,
        key: &EventKey,
        worker: &str,
        now: UnixMillis,
        lease: Duration,
        attempts: u32,
    ) -> anyhow::Result<Claim> {
        let pk = key.pk();
        let owner = owner(worker)?;
        let until = now + lease;
        // Every round is a row that moved on under us; a few are luck, many are not.
        for _ in 0..4 {
            let old = match self
                .change(&pk, transition::claim(&owner, now, until, attempts))
                .await?
            {
                Write::Applied(item) => return leased(item, owner, until),
                Write::Refused(None) => return Ok(Claim::Missing),
                Write::Refused(Some(old)) => old,
            };
            // Of a newer row not even the attributes are known.
            if let Some(version) = item::number(&old, "sv").filter(|v| *v > NEWEST_SCHEMA) {
                return Ok(Claim::TooNew(version));
            }
            let row = Row::read(&old)?;
            match refusal(&row, &owner, now, attempts) {
                Refusal::Own => return leased(Some(old), owner, until),
                Refusal::Settled(state) => return Ok(Claim::Settled(state)),
                Refusal::Held => return Ok(Claim::Held),
                Refusal::NotDue(due) => return Ok(Claim::NotDue(due)),
                Refusal::TakeOver { .. } if abandoned == ExpiredLease::Leave => {
                    return Ok(Claim::Abandoned);
                }
                Refusal::TakeOver { seen } => {
                    let change = transition::take_over(seen, &owner, now, until, attempts);
                    match self.change(&pk, change).await? {
                        Write::Applied(item) => {
                            tracing::warn!(event.key = %key, takeover = 1, "took over event {key}: its worker did not come back");
                            return leased(item, owner, until);
                        }
                        Write::Refused(Some(old)) if is_mine(&old, &owner) => {
                            return leased(Some(old), owner, until);
                        }
                        Write::Refused(_) => {}
                    }
                }
                Refusal::Exhaust { seen, reason } => {
                    let change = transition::exhaust(seen, &row, attempts, reason, now);
                    if let Write::Applied(_) = self.change(&pk, change).await? {
                        return Ok(Claim::Exhausted);
                    }
                }
            }
        }
        Ok(Claim::Held)
    }
}

/// What a refused claim means, from the row that refused it.
pub(super) fn refusal(row: &Row, owner: &str, now: UnixMillis, attempts: u32) -> Refusal {
    if row.state == State::Processing && row.owner.as_deref() == Some(owner) {
        return Refusal::Own;
    }
    let seen = row.epoch;
    let used_up = if row.crashed() >= CRASHES {
        Some("crash_loop")
    } else if row.attempts >= attempts {
        Some("attempts_exhausted")
    } else {
        None
    };
    match (row.state, used_up) {
        (State::Done | State::DeadLetter | State::Quarantined, _) => Refusal::Settled(row.state),
        (State::Processing, _) if !row.lease_is_over(now) => Refusal::Held,
        (_, Some(reason)) => Refusal::Exhaust { seen, reason },
        (State::Processing, None) => Refusal::TakeOver { seen },
        // It is the row that was refused itself: with an attempt left, only its time can be why.
        (State::Received | State::Failed, None) => row.due.map_or(Refusal::Held, Refusal::NotDue),
    }
}

fn leased(item: Option<Item>, owner: String, until: UnixMillis) -> anyhow::Result<Claim> {
    let item = item.unwrap_or_default();
    let row = Row::read(&item)?;
    Ok(Claim::Leased(Box::new(Lease {
        row,
        item,
        owner,
        until,
        annotation: None,
    })))
}

fn is_mine(item: &Item, owner: &str) -> bool {
    item::text(item, "own") == Some(owner)
        && item::text(item, "st") == Some(State::Processing.as_str())
}

fn owner(worker: &str) -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    crate::base::random::fill(&mut bytes)?;
    Ok(format!("{worker}/{}", hex::encode(bytes)))
}
