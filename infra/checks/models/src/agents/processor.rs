//! The steps of the processor: it claims an event that is not parked, runs the other actions, and
//! parks the event.

use super::rules::{Agents, Rule};
use super::world::{Part, Processor, Sort, St, Step, World};
use crate::checker::Steps;
use crate::property::Property;

const NAMES: [&str; 2] = ["processor 1", "processor 2"];

pub(super) fn steps(model: &Agents, world: &World, steps: &mut Steps<World>) {
    for n in 0..model.processors {
        let me = At {
            model,
            world: *world,
            n,
        };
        me.steps(steps);
    }
}

/// One processor in a state of the model.
struct At<'m> {
    model: &'m Agents,
    world: World,
    n: usize,
}

impl At<'_> {
    fn steps(&self, steps: &mut Steps<World>) {
        match self.world.processors[self.n].phase {
            Step::Idle => return self.hear(steps),
            Step::TakingOver => self.take_over(steps),
            Step::Leased => self.end(steps),
        }
        steps.maybe(NAMES[self.n], "crashes", self.go(Step::Idle));
    }

    fn go(&self, phase: Step) -> World {
        self.world.with(|w| match phase {
            Step::Idle => w.processors[self.n] = Processor::IDLE,
            phase => w.processors[self.n].phase = phase,
        })
    }

    fn hear(&self, steps: &mut Steps<World>) {
        let me = NAMES[self.n];
        let first = self.world.processors[..self.n]
            .iter()
            .all(|other| other.phase != Step::Idle);
        if self.world.messages == 0 || !first {
            return;
        }
        let heard = self.world.with(|w| w.messages -= 1);
        let row = heard.row;
        let waits = row.st == St::Received || row.st == St::Failed && row.sort == Sort::Now;
        let parked = row.parked && self.model.has(Rule::ProcessorLeavesParked);
        let used_up = row.attempts >= self.model.attempts;
        if parked || row.is_settled() {
            steps.sure(me, "acknowledges the message", heard);
        } else if waits && !used_up {
            steps.sure(me, "claims", self.claimed(heard));
        } else if (waits || row.lease_over) && used_up {
            let to = heard.with(|w| w.row.end(St::DeadLetter));
            steps.sure(me, "records an exhausted event", to);
        } else if row.lease_over {
            let to = heard.with(|w| {
                w.processors[self.n] = Processor {
                    phase: Step::TakingOver,
                    current: true,
                };
            });
            steps.sure(me, "finds an expired lease", to);
        } else {
            steps.sure(
                me,
                "finds a live lease, or that the event is not due",
                heard,
            );
        }
    }

    fn take_over(&self, steps: &mut Steps<World>) {
        let row = self.world.row;
        let seen = self.world.processors[self.n].current;
        let over = row.st == St::Processing && row.lease_over;
        let as_seen = seen || !self.model.has(Rule::ProcessorAsksForEpoch);
        if over && as_seen && row.attempts < self.model.attempts {
            steps.sure(NAMES[self.n], "takes over", self.claimed(self.world));
        } else {
            steps.sure(
                NAMES[self.n],
                "is too late to take over",
                self.go(Step::Idle),
            );
        }
    }

    fn claimed(&self, world: World) -> World {
        world.with(|w| {
            if w.row.parked || w.row.hold.is_some() {
                w.is_wrong(Property::ClaimedByItsSide);
            }
            w.claim();
            w.processors[self.n] = Processor {
                phase: Step::Leased,
                current: true,
            };
        })
    }

    /// Adds the steps of the writes under the lease.
    fn end(&self, steps: &mut Steps<World>) {
        let me = NAMES[self.n];
        let current = self.world.processors[self.n].current;
        if self.world.row.st != St::Processing || !current {
            // The event is parked already, or a newer claim holds it.
            steps.sure(me, "finds its write applied or stale", self.go(Step::Idle));
            return;
        }
        let parked = |world: World| {
            world.with(|w| {
                w.row.release(St::Received, Part::Parked, w.row.sort);
                if self.model.has(Rule::ParkWritesSortKey) {
                    w.row.sort = Sort::Now;
                }
                w.row.parked = true;
                w.row.attempts = 0;
            })
        };
        steps.sure(me, "parks the event", parked(self.go(Step::Idle)));
        steps.maybe(
            me,
            "parks the event; the answer is lost",
            parked(self.world),
        );
        let failed = self.go(Step::Idle).with(|w| {
            if w.row.attempts < self.model.attempts {
                w.row.release(St::Failed, Part::Work, Sort::Later);
            } else {
                w.row.end(St::DeadLetter);
            }
        });
        steps.maybe(me, "records that another action failed", failed);
    }
}
