//! Plans of replays: which events, frozen when the plan is made, and how far it has been applied.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | the plan, and who is at it | `R#{id}` | `M` |
//! | its events in their order, those that it leaves out | same | `C#{number}`, `L#{number}` |
//! | whether an event was replayed by it | same | `I#{pk of the event}` |
//! | the plans of a month | `PLANS#{yyyymm}` | `{time}#{id}` |
//!
//! The plan itself is written last, so that one that is found is whole.

mod read;
mod write;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::transition::{self, Fence};
use super::{Ledger, Write, item};
use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;
use crate::webhook::event::{EventId, EventKey};

/// For how long a plan is kept, applied or not.
pub const KEEP_PLAN: Duration = Duration::from_secs(90 * 24 * 3600);

string_enum! {
    /// Where a plan stands.
    PlanState {
        Planned = "planned",
        /// It was begun, and not all of its events were looked at.
        Running = "running",
        /// Each of its events is queued or left out.
        Finished = "finished",
        Cancelled = "cancelled",
        /// It was never begun, and is no longer good. No row says so: the time does.
        Expired = "expired",
    }
}

/// What was decided when the plan was made. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// The identity of AWS that made it.
    pub by: String,
    /// The version of the program that made it.
    pub cli: String,
    pub reason: String,
    /// What was selected, for programs and for people.
    pub selection: serde_json::Value,
    pub words: String,
    pub mode: String,
    /// Whether effects that are known to have happened happen again, under new keys.
    pub new_effects: bool,
    /// Whether somebody answers for a downstream that may have forgotten a key.
    pub duplicate_risk: bool,
    pub selected: u64,
    /// Events of it whose effects are known to have happened.
    pub committed: u64,
    /// How many of the selected are left out, by why.
    pub left_out: BTreeMap<String, u64>,
    /// Of the sorted ids of its events.
    pub sha256: String,
}

/// One event of a plan, as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanEvent {
    pub key: EventKey,
    pub received_at: UnixMillis,
    /// The epoch and the run that its row had.
    pub epoch: u64,
    pub run: u64,
    /// Until when it may be replayed: a downstream remembers a key only for so long.
    pub until: Option<UnixMillis>,
}

/// One that was selected and is not part of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLeftOut {
    pub key: EventKey,
    pub received_at: UnixMillis,
    /// A word.
    pub why: String,
}

/// One time that somebody was at it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRun {
    pub by: String,
    /// Milliseconds since the Unix epoch.
    pub from: i64,
    /// When it ended; never, if it was killed.
    pub to: Option<i64>,
    /// Events a second.
    pub rate: u32,
    /// How many were tried first, and how many of them were done.
    pub canary: Option<(usize, usize)>,
    /// Why it ended.
    pub end: Option<String>,
}

/// What came of the events that were replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOutcome {
    pub done: usize,
    /// Those that failed again, whether or not another attempt is due.
    pub failed: usize,
    pub waiting: usize,
    /// Those that were not as the plan had seen them any more, and were left as they are.
    pub changed: usize,
}

/// A plan as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub id: String,
    pub facts: PlanFacts,
    pub state: PlanState,
    pub made_at: UnixMillis,
    /// Until when it may be begun.
    pub good_until: UnixMillis,
    /// How many events it replays.
    pub count: usize,
    /// How many of them were looked at.
    pub next: usize,
    pub runs: Vec<PlanRun>,
    /// Who is at it, and until when at most.
    pub lease: Option<(String, UnixMillis)>,
    /// What was seen of the outcome when it was finished.
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
    /// The place of the run among those of the plan.
    place: usize,
    pub run: PlanRun,
    /// The plan when the lease was taken.
    pub plan: Plan,
}

/// What became of an attempt to begin.
#[derive(Debug)]
pub enum PlanClaim {
    Leased(Box<PlanLease>),
    /// Somebody else is at it, or it is at its end. The plan as it stands.
    Refused(Box<Plan>),
    Missing,
}

impl Plan {
    /// Where it stands at this time.
    pub fn standing(&self, now: UnixMillis) -> PlanState {
        match self.state {
            PlanState::Planned if self.good_until <= now => PlanState::Expired,
            state => state,
        }
    }

    /// Whether somebody has it, and is not known to be gone.
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

/// A new name for a plan: short enough to be typed.
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

/// Tells whether the events of a plan are those that it was made of.
pub fn plan_digest<'e>(events: impl Iterator<Item = &'e PlanEvent>) -> String {
    let mut ids: Vec<String> = events.map(|event| event.id().to_string()).collect();
    ids.sort();
    hex::encode(Sha256::digest(ids.join("\n")))
}

/// The replay plans: what is to run again, and how far it got.
#[derive(Clone, Copy, Debug)]
pub struct Plans<'l>(&'l Ledger);

impl Ledger {
    /// The replay plans: what is to run again, and how far it got.
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
    /// Takes a plan to apply it. Of any number of operators at most one has it.
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
            // Our own lease, its answer lost.
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

    /// Notes how far it is, and keeps the lease. `false` when the lease is another's, or the plan
    /// was cancelled: then no more of it may be applied.
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

    /// Gives the plan back, to be gone on with.
    pub async fn pause_plan(self, lease: PlanLease, next: usize) -> anyhow::Result<()> {
        let run = item::s(text(&lease.run)?);
        let change = transition::plan::pause(lease.fence(), next, lease.place, run);
        self.change_item(&pk(&lease.id), "M", change).await?;
        Ok(())
    }

    /// Ends it; `false` when it was cancelled before, or is another's.
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
            // Our own write, its answer lost: nobody else ends the run that we began.
            Write::Refused(Some(plan)) => {
                item::text(&plan, "st") == Some(PlanState::Finished.as_str())
                    && item::number(&plan, "epoch") == Some(lease.epoch)
            }
            Write::Refused(None) => false,
        })
    }

    /// Cancels a plan that is not at its end; otherwise the plan as it stands.
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
    serde_json::to_string(value).context("write down a part of a plan")
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
