//! How a worker claims an event. After a claim, only this worker may write the row until its lease
//! ends.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::transition::{self, Fence};
use super::{BadRow, Item, Ledger, NEWEST_SCHEMA, Row, State, Write, item};
use crate::base::backoff::CRASHES;
use crate::base::clock::UnixMillis;
use crate::base::timing::CLOCK_MARGIN;
use crate::inbox::trace::TraceId;
use crate::webhook::event::EventKey;

/// The right to work on an event until a deadline. `settle` consumes the lease, so an attempt is
/// settled only once.
#[derive(Debug)]
pub struct Lease {
    /// The row after the claim.
    pub row: Row,
    /// The trace of the event.
    pub trace: TraceId,
    pub(super) item: Item,
    pub(super) owner: String,
    /// In milliseconds. A renewal changes it while the actions of the event run.
    until: AtomicI64,
    pub(super) annotation: Option<&'static str>,
}

/// The result of a claim.
#[derive(Debug)]
pub enum Claim {
    Leased(Box<Lease>),
    /// The event is done, a dead letter or quarantined. The worker has nothing to do.
    Settled(State),
    /// Another worker holds the lease.
    Held,
    /// The lease of another worker expired, and the caller passed [`ExpiredLease::Leave`].
    Abandoned,
    /// The next attempt is due at this time. The sweep or another message starts it.
    NotDue(UnixMillis),
    /// The event waits for an approval. The approval sends another message.
    OnHold,
    /// No attempts are left. The event is now a dead letter.
    Exhausted,
    /// The event waits for a worker outside of Lambda, or such a worker holds it.
    Parked,
    /// The event does not exist, or no longer exists.
    Missing,
    /// A newer release wrote the row, with this version. The row is unchanged, so that a worker of
    /// the newer release can process it.
    TooNew(u32),
}

/// What a claim does if the lease expired before the worker settled the event. The event itself may
/// have crashed that worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredLease {
    TakeOver,
    Leave,
}

/// How to handle a claim whose condition failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Our own claim was applied, but its response was lost.
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
    /// Returns whether the lease is still valid, with a margin for clock differences. The worker
    /// must check this before each step that no other worker may start at the same time.
    pub fn holds(&self, now: UnixMillis) -> bool {
        now < self.until() - CLOCK_MARGIN
    }

    pub fn until(&self) -> UnixMillis {
        UnixMillis(self.until.load(Ordering::Relaxed))
    }

    /// Returns the unique name of this claim.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Adds a remark to the history entry of this attempt, in addition to its outcome.
    pub fn annotate(&mut self, remark: &'static str) {
        self.annotation = Some(remark);
    }

    pub(super) fn extended(&self, until: UnixMillis) {
        self.until.store(until.0, Ordering::Relaxed);
    }

    pub(super) fn fence(&self) -> Fence<'_> {
        Fence {
            epoch: self.row.epoch,
            owner: &self.owner,
        }
    }
}

impl Ledger {
    /// Claims an event for `lease` from `now`. `attempts` is the maximum number of attempts in one
    /// run. At most one of several concurrent workers gets the lease.
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

    /// Like [`claim`](Self::claim), but `abandoned` decides whether to take over an expired lease.
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
        // The loop repeats only if the row changed between two requests. After four tries, the
        // event counts as held by another worker.
        for _ in 0..4 {
            let old = match self
                .change(&pk, transition::claim(&owner, now, until, attempts))
                .await?
            {
                Write::Applied(item) => return leased(item, owner, until),
                Write::Refused(None) => return Ok(Claim::Missing),
                Write::Refused(Some(old)) => old,
            };
            let row = Row::read(&old);
            if row.as_ref().is_ok_and(Row::is_held) {
                return Ok(Claim::OnHold);
            }
            if let Some(version) = too_new(&old, &row) {
                return Ok(Claim::TooNew(version));
            }
            let row = row?;
            if row.is_pulled() {
                return Ok(Claim::Parked);
            }
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
                            tracing::warn!(event.key = %key, takeover = 1, "took over event {key}: the lease of its worker expired");
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

impl Ledger {
    /// Extends a lease until `until`. Returns `false` if the lease has expired or if another worker
    /// has taken over the event: then the caller must stop its work and discard the result.
    pub async fn renew(
        &self,
        lease: &Lease,
        now: UnixMillis,
        until: UnixMillis,
    ) -> anyhow::Result<bool> {
        let pk = lease.row.key.pk();
        let change = transition::renew(lease.fence(), now, until);
        let renewed = matches!(self.change(&pk, change).await?, Write::Applied(_));
        if renewed {
            lease.extended(until);
        }
        Ok(renewed)
    }
}

/// Derives from the row why the condition of the claim failed.
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
        // The condition of the claim failed for this row. If attempts are left, the only possible
        // reason is that the next attempt is not due yet.
        (State::Received | State::Failed, None) => row.due.map_or(Refusal::Held, Refusal::NotDue),
    }
}

/// Returns the version of a row that only a newer release can process. This code does not know the
/// attributes of such a row, so an error in them means nothing.
pub(super) fn too_new(old: &Item, row: &Result<Row, BadRow>) -> Option<u32> {
    let version = item::number(old, "sv").filter(|version| *version > NEWEST_SCHEMA)?;
    let known = row.as_ref().is_ok_and(|row| !row.is_too_new());
    (!known).then_some(version)
}

fn leased(item: Option<Item>, owner: String, until: UnixMillis) -> anyhow::Result<Claim> {
    let item = item.unwrap_or_default();
    let row = Row::read(&item)?;
    Ok(Claim::Leased(Box::new(lease_of(row, item, owner, until))))
}

/// Returns the lease of a row that its owner has claimed.
pub(super) fn lease_of(row: Row, item: Item, owner: String, until: UnixMillis) -> Lease {
    Lease {
        trace: TraceId::of(&row.key),
        row,
        item,
        owner,
        until: AtomicI64::new(until.0),
        annotation: None,
    }
}

pub(super) fn is_mine(item: &Item, owner: &str) -> bool {
    item::text(item, "own") == Some(owner)
        && item::text(item, "st") == Some(State::Processing.as_str())
}

/// Returns a unique name for one claim of a worker.
pub(super) fn owner(worker: &str) -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    crate::base::random::fill(&mut bytes)?;
    Ok(format!("{worker}/{}", hex::encode(bytes)))
}
