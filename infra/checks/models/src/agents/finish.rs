//! The steps of a worker after the call. A write whose answer is lost is repeated, and the second
//! answer is the same as the first.

use super::rules::InDoubt;
use super::worker::At;
use super::world::{Age, Effect, Fx, Outcome, Part, Phase, Sort, St, World};
use crate::checker::Steps;

impl At<'_> {
    pub(super) fn end(&self, result: Effect, steps: &mut Steps<World>) {
        let me = self.name();
        if !self.fence_holds() {
            steps.sure(me, "learns that its lease is lost", self.go(Phase::Idle));
            return;
        }
        let noted = |world: World| {
            world.with(|w| {
                self.is_newest(w);
                w.row.fx = match (result, w.row.fx) {
                    (Effect::Done, _) => Fx::Done,
                    (Effect::Not, _) => Fx::Not,
                    (Effect::Refused, _) => Fx::Refused,
                    // The doubt is as old as the intent.
                    (Effect::Unknown, doubt @ Fx::Doubt { .. }) => doubt,
                    (Effect::Unknown, _) => Fx::Doubt {
                        current: true,
                        age: Age::Live,
                    },
                };
            })
        };
        let outcome = match result {
            Effect::Done => Outcome::Done,
            Effect::Unknown if self.model.in_doubt == InDoubt::Stops => Outcome::DeadLetter,
            Effect::Not | Effect::Unknown => Outcome::Retry,
            Effect::Refused => Outcome::DeadLetter,
        };
        let what = match result {
            Effect::Done => "records that the effect has happened",
            Effect::Not => "records that the effect has not happened",
            Effect::Refused => "records that the effect was refused",
            Effect::Unknown => "records that the effect may have happened",
        };
        steps.sure(me, what, noted(self.go(Phase::Finishing(outcome))));
        steps.maybe(
            me,
            "records the result; the answer is lost",
            noted(self.world),
        );
    }

    pub(super) fn finish(&self, outcome: Outcome, steps: &mut Steps<World>) {
        let me = self.name();
        if !self.fence_holds() {
            steps.sure(
                me,
                "finds its settlement applied or stale",
                self.go(Phase::Idle),
            );
            return;
        }
        let settled = |world: World| {
            world.with(|w| {
                self.is_newest(w);
                let used_up = w.row.attempts >= self.model.attempts;
                match outcome {
                    Outcome::Done => w.row.end(St::Done),
                    Outcome::Release => {
                        w.row.attempts = w.row.attempts.saturating_sub(1);
                        w.row.release(St::Failed, Part::Parked, Sort::Later);
                    }
                    Outcome::Retry if !used_up => {
                        w.row.release(St::Failed, Part::Parked, Sort::Later);
                    }
                    Outcome::Retry | Outcome::DeadLetter => w.row.end(St::DeadLetter),
                }
            })
        };
        let (what, lost) = match outcome {
            Outcome::Done => ("finishes: done", "finishes: done; the answer is lost"),
            Outcome::Retry => ("finishes: retry", "finishes: retry; the answer is lost"),
            Outcome::DeadLetter => (
                "finishes: dead letter",
                "finishes: dead letter; the answer is lost",
            ),
            Outcome::Release => ("finishes: release", "finishes: release; the answer is lost"),
        };
        steps.sure(me, what, settled(self.go(Phase::Idle)));
        steps.maybe(me, lost, settled(self.world));
    }
}
