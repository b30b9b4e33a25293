//! The steps of a worker: it receives a message, claims the event, and settles it with the outcome
//! of the action.

use super::rules::{Inbox, Rule, Temper};
use super::world::{Fx, Phase, Row, St, Worker, World};
use crate::checker::Steps;
use crate::property::Property;

pub(super) const NAMES: [&str; 2] = ["worker 1", "worker 2"];

pub(super) fn steps(model: &Inbox, world: &World, steps: &mut Steps<World>) {
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
    pub(super) model: &'m Inbox,
    pub(super) world: World,
    pub(super) n: usize,
}

impl At<'_> {
    fn steps(&self, steps: &mut Steps<World>) {
        match self.me().phase {
            Phase::Idle => return self.hear(steps),
            Phase::Heard | Phase::ClaimingAgain => self.claim(steps),
            Phase::TakingOver(seen) => self.take_over(seen, steps),
            Phase::Exhausting(seen) => self.exhaust(seen, steps),
            Phase::Leased | Phase::Intended => self.act(steps),
            Phase::Settling(outcome) => self.settle(outcome, steps),
            Phase::SettlingAgain(st) => self.settle_again(st, steps),
            Phase::Ringing => self.ring(steps),
        }
        if self.model.temper != Temper::AlwaysCrashes {
            steps.maybe(
                self.name(),
                "crashes, and its message returns",
                self.crash(true),
            );
            steps.maybe(
                self.name(),
                "crashes, and its message is lost",
                self.crash(false),
            );
        }
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

    pub(super) fn crash(&self, message_returns: bool) -> World {
        self.go(Phase::Idle).with(|w| {
            w.truth.begun |= self.me().phase == Phase::ClaimingAgain;
            if message_returns {
                super::ring(self.model, w);
            }
        })
    }

    fn hear(&self, steps: &mut Steps<World>) {
        let first = self.world.workers[..self.n]
            .iter()
            .all(|other| other.phase != Phase::Idle);
        if self.world.bells > 0 && first {
            let to = self.go(Phase::Heard).with(|w| w.bells -= 1);
            steps.sure(self.name(), "receives a message", to);
        }
    }

    fn claim(&self, steps: &mut Steps<World>) {
        let Some(row) = self.world.row else {
            steps.sure(self.name(), "finds no row", self.go(Phase::Idle));
            return;
        };
        let claimable = row.st == St::Received
            || row.st == St::Failed && row.due
            || !self.model.has(Rule::ClaimAsksForState);
        if claimable && !used_up(self.model, &row) {
            self.take(false, steps);
        } else if self.model.has(Rule::OwnClaim) && self.is_mine(&row) {
            steps.sure(self.name(), "recognizes its own claim", self.leased(&row));
        } else {
            self.refused(&row, steps);
        }
    }

    fn is_mine(&self, row: &Row) -> bool {
        row.st == St::Processing && self.me().id != 0 && row.owner == self.me().id
    }

    fn refused(&self, row: &Row, steps: &mut Steps<World>) {
        let over = row.lease_over || !self.model.has(Rule::OthersWaitForLease);
        let (what, to) = match row.st {
            St::Done | St::DeadLetter => ("finds the event settled", Phase::Idle),
            St::Processing if !over => ("finds a live lease", Phase::Idle),
            _ if used_up(self.model, row) => {
                if self.model.has(Rule::WorkerExhausts) {
                    ("finds the event exhausted", Phase::Exhausting(row.epoch))
                } else {
                    ("finds the event exhausted", Phase::Idle)
                }
            }
            St::Processing => ("finds an expired lease", Phase::TakingOver(row.epoch)),
            St::Received | St::Failed => ("finds that the event is not due", Phase::Idle),
        };
        steps.sure(self.name(), what, self.go(to));
    }

    fn take_over(&self, seen: u8, steps: &mut Steps<World>) {
        let over = |row: &Row| row.lease_over || !self.model.has(Rule::OthersWaitForLease);
        match self.world.row {
            Some(row)
                if row.st == St::Processing
                    && row.epoch == seen
                    && over(&row)
                    && !used_up(self.model, &row) =>
            {
                self.take(true, steps);
            }
            _ => steps.sure(
                self.name(),
                "is too late to take over",
                self.go(Phase::Heard),
            ),
        }
    }

    /// Adds the steps of a claim whose condition holds.
    fn take(&self, over: bool, steps: &mut Steps<World>) {
        let world = self.taken(over);
        let Some(row) = world.row else { return };
        let at = At {
            model: self.model,
            world,
            n: self.n,
        };
        let (what, lost) = if over {
            ("takes over", "takes over; the answer is lost")
        } else {
            ("claims", "claims; the answer is lost")
        };
        steps.sure(self.name(), what, at.leased(&row));
        steps.maybe(self.name(), lost, at.go(Phase::ClaimingAgain));
        if world.lost_for_good > 0 {
            let gone = at.crash(true).with(|w| w.lost_for_good -= 1);
            steps.maybe(self.name(), "claims; all answers are lost", gone);
        }
    }

    fn taken(&self, over: bool) -> World {
        self.world.with(|w| {
            let Some(row) = &mut w.row else { return };
            let held = row.st == St::Processing && !row.lease_over;
            let stolen = held && row.owner != w.workers[self.n].id;
            if w.workers[self.n].id == 0 {
                // The number reaches its limit only with unlimited attempts. In this case there is
                // only one worker.
                w.ids = (w.ids + 1).min(9);
                w.workers[self.n].id = w.ids;
            }
            row.st = St::Processing;
            row.owner = w.workers[self.n].id;
            row.lease_over = false;
            row.due = false;
            row.epoch = (row.epoch + 1).min(9);
            row.open &= self.model.has(Rule::ClaimedRowIsSwept);
            if self.model.has(Rule::AttemptsCountedAtClaim) {
                row.attempts = (row.attempts + 1).min(self.model.attempts);
            }
            if over && self.model.has(Rule::CrashesCounted) {
                row.crashes += 1;
            }
            // It is unknown whether the previous worker made its call.
            w.truth.doubt |= over && row.fx == Fx::Intent;
            if stolen {
                w.is_wrong(Property::LiveLeaseIsLeft);
            }
        })
    }

    /// Returns the state in which the worker knows that it holds the lease.
    fn leased(&self, row: &Row) -> World {
        self.go(Phase::Leased).with(|w| {
            w.truth.begun = true;
            let me = &mut w.workers[self.n];
            me.epoch = row.epoch;
            me.attempts = row.attempts;
            me.generation = row.generation;
            me.fx = row.fx;
        })
    }

    fn exhaust(&self, seen: u8, steps: &mut Steps<World>) {
        match super::exhausted(self.model, &self.world, seen) {
            Some(world) => {
                let to = world.with(|w| w.workers[self.n] = Worker::IDLE);
                steps.sure(self.name(), "records an exhausted event", to);
            }
            None => steps.sure(
                self.name(),
                "is too late to record an exhausted event",
                self.go(Phase::Heard),
            ),
        }
    }
}

pub(super) fn used_up(model: &Inbox, row: &Row) -> bool {
    // The current holder of the expired lease counts as crashed.
    let crashes = row.crashes + u8::from(row.st == St::Processing);
    model.has(Rule::AttemptsLimited) && row.attempts >= model.attempts
        || model.has(Rule::CrashesCounted) && crashes >= model.crashes
}
