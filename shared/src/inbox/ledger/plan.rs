//! Replay plans. A plan stores a fixed set of events, and the progress of their replay.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | the plan and its lease | `R#{id}` | `M` |
//! | its events in order, the left-out events | same | `C#{number}`, `L#{number}` |
//! | whether the plan has replayed an event | same | `I#{pk of the event}` |
//! | the plans of a month | `PLANS#{yyyymm}` | `{time}#{id}` |
//!
//! The plan item is written last, so a plan that can be read is complete.

mod read;
mod write;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::transition::{self, Fence};
use super::{Ledger, Through, Write, item};
use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;
use crate::webhook::event::{EventId, EventKey};

/// How long a plan is kept, whether or not it is applied.
pub const KEEP_PLAN: Duration = Duration::from_secs(90 * 24 * 3600);

string_enum! {
    /// The state of a plan.
    PlanState {
        Planned = "planned",
        /// The plan was started, and some of its events are not checked yet.
        Running = "running",
        /// Each event of the plan is queued or left out.
        Finished = "finished",
        Cancelled = "cancelled",
        /// The plan was not started in time, and can no longer be started. This state is computed
        /// from the current time and is not stored.
        Expired = "expired",
    }
}

/// The fixed part of a plan, set when the plan is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// The AWS identity that made the plan.
    pub by: String,
    #[serde(default)]
    pub through: Through,
    /// The version of the program that made the plan.
    pub cli: String,
    pub reason: String,
    /// The selection, as JSON for programs. `words` is the same selection as text for people.
    pub selection: serde_json::Value,
    pub words: String,
    pub mode: String,
    /// Whether the replay repeats effects that are known to have happened, with new idempotency
    /// keys.
    pub new_effects: bool,
    /// Whether an operator accepted the risk of duplicates at a destination that may have forgotten
    /// an idempotency key.
    pub duplicate_risk: bool,
    pub selected: u64,
    /// The number of events in the plan whose effects are known to have happened.
    pub committed: u64,
    /// How many of the selected events are left out, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// The SHA-256 of the sorted ids of the plan's events.
    pub sha256: String,
}

/// One event of a plan, as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanEvent {
    pub key: EventKey,
    pub received_at: UnixMillis,
    /// The epoch and the run of its row when the plan was made.
    pub epoch: u64,
    pub run: u64,
    /// The event may be replayed until this time, because a destination remembers an idempotency
    /// key only for a limited time.
    pub until: Option<UnixMillis>,
}

/// An event that was selected but is not part of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLeftOut {
    pub key: EventKey,
    pub received_at: UnixMillis,
    /// A one-word reason.
    pub why: String,
}

/// One run of a plan by an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRun {
    pub by: String,
    #[serde(default)]
    pub through: Through,
    /// Milliseconds since the Unix epoch.
    pub from: i64,
    /// When the run ended, or `None` if the run was killed.
    pub to: Option<i64>,
    /// Events per second.
    pub rate: u32,
    /// How many events were replayed first as a canary, and how many of them were done.
    pub canary: Option<(usize, usize)>,
    /// Why the run ended.
    pub end: Option<String>,
}

/// The outcome of the replayed events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOutcome {
    pub done: usize,
    /// Events that failed again, whether or not another attempt is due.
    pub failed: usize,
    pub waiting: usize,
    /// Events that the replay skipped, because they changed after the plan was made.
    pub changed: usize,
}

/// A plan and its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub id: String,
    pub facts: PlanFacts,
    pub state: PlanState,
    pub made_at: UnixMillis,
    /// The plan may be started until this time.
    pub good_until: UnixMillis,
    /// The number of events that the plan replays.
    pub count: usize,
    /// How many of these events were checked.
    pub next: usize,
    pub runs: Vec<PlanRun>,
    /// The owner of the lease, and when the lease ends.
    pub lease: Option<(String, UnixMillis)>,
    /// The outcome when the plan was finished.
    pub outcome: Option<PlanOutcome>,
    pub cancelled_by: Option<String>,
    pub ended_at: Option<UnixMillis>,
}

/// The right to apply a plan.
#[derive(Debug)]
pub struct PlanLease {
    id: String,
    owner: String,
    epoch: u64,
    /// The index of the run among the runs of the plan.
    place: usize,
    pub run: PlanRun,
    /// The plan when the lease was taken.
    pub plan: Plan,
}

/// The result of an attempt to start a plan.
#[derive(Debug)]
pub enum PlanClaim {
    Leased(Box<PlanLease>),
    /// Another operator holds the lease, or the plan has ended. The value is the current plan.
    Refused(Box<Plan>),
    Missing,
}

impl Plan {
    /// Returns the state of the plan at this time.
    pub fn standing(&self, now: UnixMillis) -> PlanState {
        match self.state {
            PlanState::Planned if self.good_until <= now => PlanState::Expired,
            state => state,
        }
    }

    /// Returns whether an operator holds the lease. A lease counts as held until the clock margin
    /// after its end has passed.
    pub fn is_held(&self, now: UnixMillis) -> bool {
        let over = now - crate::base::timing::CLOCK_MARGIN;
        self.lease.as_ref().is_some_and(|(_, until)| *until >= over)
    }
}

impl PlanEvent {
    pub fn id(&self) -> EventId {
        EventId::new(self.received_at, &self.key)
    }
}

/// Returns a new id for a plan, short enough to type.
pub fn plan_id() -> anyhow::Result<String> {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut random = [0; 6];
    crate::base::random::fill(&mut random)?;
    let letters = random
        .iter()
        .filter_map(|byte| LETTERS.get(usize::from(byte % 32)));
    let text: String = letters.map(|letter| char::from(*letter)).collect();
    Ok(format!("rpl_{text}"))
}

/// Returns a digest of the events of a plan. The digest does not depend on the order of the events.
/// It shows whether the events have changed since the plan was made.
pub fn plan_digest<'e>(events: impl Iterator<Item = &'e PlanEvent>) -> String {
    let mut ids: Vec<String> = events.map(|event| event.id().to_string()).collect();
    ids.sort();
    hex::encode(Sha256::digest(ids.join("\n")))
}

/// The replay plans: the events to replay, and the progress.
#[derive(Clone, Copy, Debug)]
pub struct Plans<'l>(&'l Ledger);

impl Ledger {
    /// The replay plans: the events to replay, and the progress.
    pub fn plans(&self) -> Plans<'_> {
        Plans(self)
    }
}

impl Deref for Plans<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.0
    }
}

impl Plans<'_> {
    /// Takes the lease of a plan to apply it. At most one operator holds the lease at a time.
    pub async fn begin_plan(
        self,
        id: &str,
        owner: &str,
        run: &PlanRun,
        now: UnixMillis,
        lease: Duration,
    ) -> anyhow::Result<PlanClaim> {
        let change = transition::plan::begin(owner, item::s(text(run)?), now, now + lease);
        let plan = match self.change_item(&pk(id), "M", change).await? {
            Write::Applied(Some(item)) => item,
            // An earlier try of this write took the lease, but its response was lost.
            Write::Refused(Some(item)) if item::text(&item, "own") == Some(owner) => item,
            Write::Refused(Some(item)) => {
                return Ok(PlanClaim::Refused(Box::new(read::plan(&item)?)));
            }
            Write::Applied(None) | Write::Refused(None) => return Ok(PlanClaim::Missing),
        };
        let epoch = item::number(&plan, "epoch").context("the lease of a plan has no epoch")?;
        let plan = read::plan(&plan)?;
        Ok(PlanClaim::Leased(Box::new(PlanLease {
            id: id.to_owned(),
            owner: owner.to_owned(),
            epoch,
            place: plan.runs.len().saturating_sub(1),
            run: run.clone(),
            plan,
        })))
    }

    /// Stores the progress and extends the lease. Returns `false` if another operator holds the
    /// lease, or if the plan was cancelled. The caller must then stop applying the plan.
    pub async fn checkpoint_plan(
        self,
        lease: &PlanLease,
        next: usize,
        until: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::plan::checkpoint(lease.fence(), next, until);
        let written = self.change_item(&pk(&lease.id), "M", change).await?;
        Ok(matches!(written, Write::Applied(_)))
    }

    /// Stores the progress and releases the lease, so that the plan can be continued later.
    pub async fn pause_plan(self, lease: PlanLease, next: usize) -> anyhow::Result<()> {
        let run = item::s(text(&lease.run)?);
        let change = transition::plan::pause(lease.fence(), next, lease.place, run);
        self.change_item(&pk(&lease.id), "M", change).await?;
        Ok(())
    }

    /// Finishes the plan. Returns `false` if it was cancelled, or if another operator holds the
    /// lease.
    pub async fn finish_plan(
        self,
        lease: PlanLease,
        outcome: &PlanOutcome,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let (count, run) = (lease.plan.count, item::s(text(&lease.run)?));
        let outcome = text(outcome)?;
        let change =
            transition::plan::finish(lease.fence(), count, lease.place, run, &outcome, now);
        Ok(match self.change_item(&pk(&lease.id), "M", change).await? {
            Write::Applied(_) => true,
            // An earlier try of this write succeeded, but its response was lost. The unchanged
            // epoch proves this, because only this lease can finish its own run.
            Write::Refused(Some(plan)) => {
                item::text(&plan, "st") == Some(PlanState::Finished.as_str())
                    && item::number(&plan, "epoch") == Some(lease.epoch)
            }
            Write::Refused(None) => false,
        })
    }

    /// Cancels a plan that has not ended. Returns the current plan, or `None` if it does not exist.
    pub async fn cancel_plan(
        self,
        id: &str,
        who: &str,
        now: UnixMillis,
    ) -> anyhow::Result<Option<Plan>> {
        let change = transition::plan::cancel(who, now);
        match self.change_item(&pk(id), "M", change).await? {
            Write::Applied(Some(plan)) | Write::Refused(Some(plan)) => Ok(Some(read::plan(&plan)?)),
            Write::Applied(None) | Write::Refused(None) => Ok(None),
        }
    }
}

impl PlanLease {
    fn fence(&self) -> Fence<'_> {
        Fence {
            epoch: self.epoch,
            owner: &self.owner,
        }
    }
}

fn text(value: &impl Serialize) -> anyhow::Result<String> {
    serde_json::to_string(value).context("serialize a part of a plan")
}

fn pk(id: &str) -> String {
    format!("R#{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_typed_and_is_another_each_time() {
        let (one, two) = (plan_id().unwrap(), plan_id().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), 10);
        assert!(
            one.strip_prefix("rpl_").unwrap().bytes().all(|b| {
                b.is_ascii_digit() || (b.is_ascii_uppercase() && !b"ILOU".contains(&b))
            })
        );
    }

    #[test]
    fn the_digest_is_of_the_events_and_not_of_their_order() {
        let event = |id: &str, at| PlanEvent {
            key: EventKey::new("s", id),
            received_at: UnixMillis(at),
            epoch: 1,
            run: 0,
            until: None,
        };
        let (a, b) = (event("1", 1), event("2", 2));
        let both = plan_digest([&a, &b].into_iter());
        assert_eq!(both, plan_digest([&b, &a].into_iter()));
        assert_ne!(both, plan_digest([&a].into_iter()));
        assert_ne!(both, plan_digest([&a, &event("3", 2)].into_iter()));
    }
}
