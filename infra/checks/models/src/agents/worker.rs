//! The steps of a worker until it holds a lease.

use super::rules::{Agents, Rule};
use super::world::{Part, Phase, Plan, Search, Sort, St, Worker, World};
use crate::checker::Steps;
use crate::property::Property;

const NAMES: [&str; 2] = ["worker 1", "worker 2"];

pub(super) fn steps(model: &Agents, world: &World, steps: &mut Steps<World>) {
    for n in 0..model.workers {
        let me = At {
            model,
            world: *world,
            n,
        };
        me.steps(steps);
    }
}

/// One worker in a state of the model.
pub(super) struct At<'m> {
    pub(super) model: &'m Agents,
    pub(super) world: World,
    pub(super) n: usize,
}

impl At<'_> {
    fn steps(&self, steps: &mut Steps<World>) {
        match self.me().phase {
            Phase::Idle => return self.next(steps),
            Phase::TakingOver => self.take_over(steps),
            Phase::Exhausting => self.exhaust(steps),
            Phase::Beginning(search) => self.begin(search, steps),
            Phase::Searching { late } => self.search(late, steps),
            Phase::Going => self.go_ahead(steps),
            Phase::Looked => self.call(steps),
            Phase::Ending(result) => self.end(result, steps),
            Phase::Finishing(outcome) => self.finish(outcome, steps),
        }
        self.extend(steps);
        steps.maybe(self.name(), "crashes", self.go(Phase::Idle));
    }

    pub(super) fn me(&self) -> Worker {
        self.world.workers[self.n]
    }

    pub(super) fn name(&self) -> &'static str {
        NAMES[self.n]
    }

    pub(super) fn go(&self, phase: Phase) -> World {
        self.world.with(|w| match phase {
            Phase::Idle => w.workers[self.n] = Worker::IDLE,
            phase => w.workers[self.n].phase = phase,
        })
    }

    /// Returns whether the condition of a write under the lease holds.
    pub(super) fn fence_holds(&self) -> bool {
        self.world.row.st == St::Processing && (self.me().current || !self.model.has(Rule::Fence))
    }

    /// Returns whether the lease of this worker has not ended.
    pub(super) fn is_live(&self) -> bool {
        self.me().current && self.world.row.is_live()
    }

    fn next(&self, steps: &mut Steps<World>) {
        let first = self.world.workers[..self.n]
            .iter()
            .all(|other| other.phase != Phase::Idle);
        if !first {
            return;
        }
        let row = self.world.row;
        let listed = row.part == Some(Part::Parked) && row.sort == Sort::Now;
        let found = |phase| self.go(phase).with(|w| w.workers[self.n].current = true);
        let held = row.hold.is_some() && self.model.has(Rule::ClaimLeavesHeld);
        let waits = row.st == St::Received || row.st == St::Failed && row.sort == Sort::Now;
        let open = waits || row.st == St::Processing && row.lease_over;
        if !row.parked || !open {
            return;
        }
        if row.attempts >= self.model.attempts {
            if listed {
                let to = found(Phase::Exhausting);
                steps.sure(self.name(), "finds that the event is exhausted", to);
            }
        } else if row.st == St::Processing {
            if listed {
                let to = found(Phase::TakingOver);
                steps.sure(self.name(), "finds an expired lease", to);
            }
        } else if listed {
            self.take("claims", "claims; the answer is lost", steps);
        } else if !held {
            // The index shows an earlier state of the row.
            self.take(
                "claims by a stale key",
                "claims by a stale key; the answer is lost",
                steps,
            );
        }
    }

    fn take_over(&self, steps: &mut Steps<World>) {
        let row = self.world.row;
        let as_seen = self.me().current || !self.model.has(Rule::TakeoverAsksForEpoch);
        let over = row.lease_over || !self.model.has(Rule::TakeoverWaitsForLease);
        // The queue does not change under the same epoch, so the condition does not include it.
        if row.st == St::Processing && over && as_seen && row.attempts < self.model.attempts {
            self.take("takes over", "takes over; the answer is lost", steps);
        } else {
            steps.sure(
                self.name(),
                "is too late to take over",
                self.go(Phase::Idle),
            );
        }
    }

    /// Adds the steps of a claim whose condition holds.
    fn take(&self, what: &'static str, lost: &'static str, steps: &mut Steps<World>) {
        let taken = self.world.with(|w| {
            if !w.row.parked {
                w.is_wrong(Property::ClaimedByItsSide);
            }
            w.claim();
            w.row.sort = Sort::Later;
        });
        let leased = |plan| {
            taken.with(|w| {
                w.workers[self.n] = Worker {
                    phase: Phase::Beginning(Search::None),
                    current: true,
                    plan,
                    extends: false,
                };
            })
        };
        match self.world.row.approval {
            _ if !self.model.is_held() => steps.sure(self.name(), what, leased(Plan::A)),
            // The answer contains the approved plan. A worker may still make another one.
            Some(approval) => {
                steps.sure(self.name(), what, leased(approval.plan));
                for plan in [Plan::A, Plan::B] {
                    steps.maybe(
                        self.name(),
                        "claims, and makes a plan of its own",
                        leased(plan),
                    );
                }
            }
            None => {
                steps.sure(self.name(), what, leased(Plan::A));
                steps.maybe(
                    self.name(),
                    "claims, and makes another plan",
                    leased(Plan::B),
                );
            }
        }
        let gone = taken.with(|w| w.workers[self.n] = Worker::IDLE);
        steps.maybe(self.name(), lost, gone);
    }

    fn exhaust(&self, steps: &mut Steps<World>) {
        let row = self.world.row;
        let open = matches!(row.st, St::Received | St::Failed) || row.lease_over;
        let to = self.go(Phase::Idle);
        if self.me().current && open && row.attempts >= self.model.attempts {
            let to = to.with(|w| w.row.end(St::DeadLetter));
            steps.sure(self.name(), "records an exhausted event", to);
        } else {
            steps.sure(self.name(), "is too late to record an exhausted event", to);
        }
    }

    /// Adds the steps of an extension. An extension that arrives at once changes nothing, because a
    /// lease can end at any moment.
    fn extend(&self, steps: &mut Steps<World>) {
        if self.is_live() && !self.me().extends && self.model.extends {
            let to = self.world.with(|w| w.workers[self.n].extends = true);
            steps.maybe(self.name(), "sends an extension of its lease", to);
        }
        if self.me().extends {
            let to = self.world.with(|w| {
                w.workers[self.n].extends = false;
                if self.fence_holds() {
                    w.row.lease_over = false;
                    w.row.sort = Sort::Later;
                    w.row.extended = true;
                }
            });
            steps.sure(self.name(), "has its lease extended", to);
        }
    }
}
