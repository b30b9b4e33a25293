//! The steps of an effect: the worker asks whether it may make the call, and makes it.

use super::rules::{InDoubt, Rule};
use super::worker::At;
use super::world::{Age, Effect, Fx, Outcome, Part, Phase, Search, Sort, St, World};
use crate::checker::Steps;
use crate::property::Property;

impl At<'_> {
    /// The answer of `begin`, and its writes.
    pub(super) fn begin(&self, search: Search, steps: &mut Steps<World>) {
        let me = self.name();
        if !self.fence_holds() || self.world.row.lease_over {
            steps.sure(
                me,
                "learns that its lease is lost, or the event held",
                self.go(Phase::Idle),
            );
            return;
        }
        steps.maybe(
            me,
            "releases the event",
            self.go(Phase::Finishing(Outcome::Release)),
        );
        match self.world.row.fx {
            Fx::Done => {
                let to = self.go(Phase::Finishing(Outcome::Done));
                steps.sure(me, "learns that the effect has happened", to);
            }
            Fx::Refused => {
                let to = self.go(Phase::Finishing(Outcome::DeadLetter));
                steps.sure(me, "learns that the effect was refused", to);
            }
            Fx::Doubt { current, age } if !current && !self.is_resolved(search, age) => {
                self.doubt(search, age, steps);
            }
            Fx::Not | Fx::Doubt { .. } => self.allow(steps),
        }
    }

    /// Returns whether the search proves that the effect has not happened.
    fn is_resolved(&self, search: Search, age: Age) -> bool {
        if search == Search::None || !self.model.has(Rule::SearchWaits) {
            return search != Search::None;
        }
        if self.model.has(Rule::SearchIsDated) {
            search == Search::Late
        } else {
            age == Age::Old
        }
    }

    fn doubt(&self, search: Search, age: Age, steps: &mut Steps<World>) {
        let me = self.name();
        let late = age == Age::Old;
        if self.model.in_doubt == InDoubt::Stops {
            let to = self.go(Phase::Finishing(Outcome::DeadLetter));
            steps.sure(me, "learns that the effect may have happened", to);
        } else if search != Search::None {
            let to = self.go(Phase::Finishing(Outcome::Retry));
            steps.sure(me, "learns that it searched too early", to);
            steps.maybe(
                me,
                "learns that it searched too early, and searches again",
                self.go(Phase::Searching { late }),
            );
        } else {
            let to = self.go(Phase::Searching { late });
            steps.sure(me, "learns that the effect may have happened", to);
        }
    }

    /// The effect may be called if no rule holds it.
    fn allow(&self, steps: &mut Steps<World>) {
        let me = self.name();
        let approved = self.world.row.approval.is_some_and(|approval| {
            approval.plan == self.me().plan || !self.model.has(Rule::ApprovalNamesPlan)
        });
        if self.model.is_held() && !approved {
            return self.hold(steps);
        }
        let noted = |world: World| {
            world.with(|w| {
                self.is_newest(w);
                if self.model.has(Rule::Intent) {
                    w.row.fx = Fx::Doubt {
                        current: true,
                        age: Age::Live,
                    };
                }
            })
        };
        steps.sure(me, "is allowed to call", noted(self.go(Phase::Going)));
        steps.maybe(
            me,
            "is allowed to call; the answer is lost",
            noted(self.world),
        );
    }

    fn hold(&self, steps: &mut Steps<World>) {
        let me = self.name();
        let row = self.world.row;
        if row.hold.is_some() {
            steps.sure(me, "learns that its lease is lost", self.go(Phase::Idle));
            return;
        }
        if row.holds >= self.model.holds {
            let to = self.go(Phase::Idle).with(|w| w.row.end(St::DeadLetter));
            steps.sure(me, "makes too many plans: the event is a dead letter", to);
            return;
        }
        let held = |world: World| {
            world.with(|w| {
                self.is_newest(w);
                w.set_hold(Some(self.me().plan));
                w.row.holds += 1;
                w.row.attempts = w.row.attempts.saturating_sub(1);
                if self.model.has(Rule::HoldEndsLease) {
                    w.row.st = St::Received;
                    w.row.lease_over = false;
                }
                w.row.part = Some(Part::Held);
                w.row.sort = Sort::Later;
            })
        };
        steps.sure(me, "has its plan held", held(self.go(Phase::Idle)));
        steps.maybe(
            me,
            "has its plan held; the answer is lost",
            held(self.world),
        );
    }

    /// A search finds an effect that has happened, and no call that is still under way.
    pub(super) fn search(&self, late: bool, steps: &mut Steps<World>) {
        let me = self.name();
        if self.world.happened > 0 {
            steps.sure(me, "finds the effect", self.go(Phase::Ending(Effect::Done)));
        } else {
            let search = if late { Search::Late } else { Search::Early };
            let to = self.go(Phase::Beginning(search));
            steps.sure(me, "does not find the effect", to);
        }
        steps.maybe(
            me,
            "cannot search",
            self.go(Phase::Finishing(Outcome::Retry)),
        );
    }

    pub(super) fn go_ahead(&self, steps: &mut Steps<World>) {
        if !self.is_live() && self.model.has(Rule::CallNeedsLease) {
            let to = self.go(Phase::Ending(Effect::Not));
            steps.sure(
                self.name(),
                "sees that its lease has ended; makes no call",
                to,
            );
        } else if self.is_begun_under_another_end() && self.model.has(Rule::CallNeedsLeaseOfIntent)
        {
            let to = self.go(Phase::Beginning(Search::None));
            let what = "sees that the lease of the intent has ended; begins again";
            steps.sure(self.name(), what, to);
        } else if self.model.has(Rule::LookAndCallAreOne) {
            self.call(steps);
        } else {
            steps.sure(
                self.name(),
                "sees that its lease is live",
                self.go(Phase::Looked),
            );
        }
    }

    /// Returns whether the lease had ended by now if it had not been extended.
    fn is_begun_under_another_end(&self) -> bool {
        matches!(self.world.row.fx, Fx::Doubt { age, .. } if age != Age::Live)
    }

    pub(super) fn call(&self, steps: &mut Steps<World>) {
        let me = self.name();
        let called = |result, happens: bool| {
            self.go(Phase::Ending(result)).with(|w| {
                self.is_approved(w);
                w.happened = (w.happened + u8::from(happens)).min(2);
            })
        };
        steps.sure(
            me,
            "calls, and the effect happens",
            called(Effect::Done, true),
        );
        steps.sure(me, "calls without effect", called(Effect::Not, false));
        steps.maybe(me, "is refused permanently", called(Effect::Refused, false));
        let to = called(Effect::Unknown, true);
        steps.maybe(me, "calls, the effect happens, and the answer is lost", to);
        let to = called(Effect::Unknown, false).with(|w| w.calls += 1);
        steps.maybe(me, "calls, and waits no longer; the call is under way", to);
    }

    fn is_approved(&self, world: &mut World) {
        let row = world.row;
        let approved = row
            .approval
            .is_some_and(|approval| approval.plan == self.me().plan && approval.run == row.run);
        if self.model.is_held() && !approved {
            world.is_wrong(Property::ApprovedBeforeCall);
        }
    }

    /// Notes a violation if a write is not under the newest claim.
    pub(super) fn is_newest(&self, world: &mut World) {
        if !self.me().current {
            world.is_wrong(Property::NewestClaimWrites);
        }
    }
}
