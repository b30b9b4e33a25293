//! The steps of an action under a lease: it checks the known state of its effect, records the
//! intent, and makes the call.

use super::rules::{Rule, Temper};
use super::worker::At;
use super::world::{Fx, Outcome, Phase, World};
use crate::checker::Steps;
use crate::property::Property;

impl At<'_> {
    pub(super) fn act(&self, steps: &mut Steps<World>) {
        let fresh = self.me().phase == Phase::Leased;
        if fresh && self.model.has(Rule::KnownEffects) {
            if self.me().fx == Fx::Done {
                steps.sure(
                    self.name(),
                    "skips an effect that is known to have happened",
                    self.ends(Outcome::Done),
                );
                return;
            }
            if !self.model.keyed && matches!(self.me().fx, Fx::Intent | Fx::Unknown) {
                let to = self.ends(Outcome::Unknown);
                steps.sure(
                    self.name(),
                    "finds that the effect may have happened before",
                    to,
                );
                return;
            }
        }
        if fresh && !self.model.keyed && self.model.has(Rule::Intent) {
            self.intend(steps);
        } else {
            self.call(steps);
        }
    }

    fn ends(&self, outcome: Outcome) -> World {
        self.go(Phase::Settling(outcome))
    }

    fn intend(&self, steps: &mut Steps<World>) {
        let fenced = self.model.has(Rule::IntentIsFenced);
        let row = self.world.row;
        let row = row.filter(|row| row.fx != Fx::Done && (!fenced || self.fence_holds(row)));
        let Some(row) = row else {
            steps.sure(
                self.name(),
                "cannot record its intent",
                self.ends(Outcome::Retry),
            );
            return;
        };
        let noted = |to: World| {
            to.with(|w| {
                if row.owner != self.me().id {
                    w.is_wrong(Property::NewestClaimWrites);
                }
                w.row = Some(row).map(|row| super::world::Row {
                    fx: Fx::Intent,
                    ..row
                });
            })
        };
        let to = noted(self.go(Phase::Intended)).with(|w| w.truth.doubt = true);
        steps.sure(self.name(), "records its intent", to);
        if self.world.lost_for_good > 0 {
            let outcome = if self.model.has(Rule::FailedIntentIsKnown) {
                Outcome::Not
            } else {
                Outcome::Retry
            };
            let to = noted(self.ends(outcome)).with(|w| w.lost_for_good -= 1);
            steps.maybe(
                self.name(),
                "records its intent; all answers are lost; makes no call",
                to,
            );
        }
    }

    fn call(&self, steps: &mut Steps<World>) {
        let me = self.name();
        let unclear = if self.model.keyed {
            Outcome::UnclearAndRetry
        } else {
            Outcome::Unknown
        };
        let happens = |to: World| to.with(|w| self.happen(w));
        let doubt = |to: World| to.with(|w| w.truth.doubt = true);
        if self.model.temper == Temper::AlwaysCrashes {
            steps.sure(
                me,
                "is killed before the effect happens",
                doubt(self.crash(true)),
            );
            steps.sure(
                me,
                "is killed after the effect has happened",
                happens(self.crash(true)),
            );
            return;
        }
        steps.sure(
            me,
            "calls without effect, or makes no call",
            self.ends(Outcome::Not),
        );
        steps.sure(
            me,
            "calls without effect and gets no answer",
            doubt(self.ends(unclear)),
        );
        if self.model.temper == Temper::AlwaysFails {
            return;
        }
        steps.sure(
            me,
            "calls, and the effect happens",
            happens(self.ends(Outcome::Done)),
        );
        steps.maybe(
            me,
            "calls, the effect happens, and another action requests a retry",
            happens(self.ends(Outcome::DoneAndRetry)),
        );
        steps.maybe(
            me,
            "calls, the effect happens, and the answer is lost",
            happens(self.ends(unclear)),
        );
        steps.maybe(me, "is rejected permanently", self.ends(Outcome::Permanent));
    }

    /// Returns the state after the call reaches the destination.
    fn happen(&self, world: &mut World) {
        let forgotten = world.key_forgotten;
        let truth = &mut world.truth;
        truth.doubt = true;
        let happened = &mut truth.happened[usize::from(self.me().generation)];
        let known = self.model.keyed && self.model.has(Rule::StableKey) && !forgotten;
        if *happened == 0 || !known {
            *happened += 1;
        }
        if *happened > 1 {
            world.is_wrong(Property::OneEffectPerKey);
        }
    }
}
