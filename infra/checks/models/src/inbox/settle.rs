//! The steps at the end of an attempt.

use super::rules::Rule;
use super::worker::At;
use super::world::{Fx, Outcome, Phase, Row, St, World};
use crate::checker::Steps;
use crate::property::Property;

impl At<'_> {
    pub(super) fn settle(&self, outcome: Outcome, steps: &mut Steps<World>) {
        let Some((world, st)) = self.settled(outcome) else {
            steps.sure(
                self.name(),
                "finds its settlement stale",
                self.go(Phase::Idle),
            );
            return;
        };
        let at = At {
            model: self.model,
            world,
            n: self.n,
        };
        let (what, lost, then) = match st {
            St::Done => (
                "records done",
                "records done; the answer is lost",
                Phase::Idle,
            ),
            St::Failed => (
                "records a retry",
                "records a retry; the answer is lost",
                Phase::Ringing,
            ),
            _ => (
                "records a dead letter",
                "records a dead letter; the answer is lost",
                Phase::Idle,
            ),
        };
        steps.sure(self.name(), what, at.go(then));
        steps.maybe(self.name(), lost, at.go(Phase::SettlingAgain(st)));
    }

    pub(super) fn fence_holds(&self, row: &Row) -> bool {
        let (epoch, owner) = (
            self.model.has(Rule::FenceByEpoch),
            self.model.has(Rule::FenceByOwner),
        );
        // Without a fence, the write has no condition.
        (!(epoch || owner) || row.st == St::Processing)
            && (!epoch || row.epoch == self.me().epoch)
            && (!owner || row.owner == self.me().id)
    }

    fn settled(&self, outcome: Outcome) -> Option<(World, St)> {
        let row = self.world.row.filter(|row| self.fence_holds(row))?;
        let used_up =
            self.me().attempts >= self.model.attempts && self.model.has(Rule::AttemptsLimited);
        let st = match outcome {
            Outcome::Done => St::Done,
            Outcome::Permanent | Outcome::Unknown => St::DeadLetter,
            _ if used_up => St::DeadLetter,
            _ => St::Failed,
        };
        let world = self.world.with(|w| {
            if row.st != St::Processing || row.owner != self.me().id {
                w.is_wrong(Property::NewestClaimWrites);
            }
            if outcome == Outcome::Unknown && !w.truth.doubt {
                w.is_wrong(Property::NoFalseDoubt);
            }
            let mut row = row;
            row.fx = fx_after(outcome, row.fx);
            if !self.model.has(Rule::AttemptsCountedAtClaim) && st == St::Failed {
                row.attempts = (row.attempts + 1).min(self.model.attempts);
            }
            match st {
                St::Failed => w.row = Some(row.released(st)),
                st => w.end(row, st),
            }
        });
        Some((world, st))
    }

    /// Adds the steps of the second attempt of a settlement that was applied.
    pub(super) fn settle_again(&self, st: St, steps: &mut Steps<World>) {
        let standing = self
            .world
            .row
            .is_some_and(|row| row.epoch == self.me().epoch && row.st == st);
        if st != St::Failed || !standing {
            steps.sure(self.name(), "finds the current state", self.go(Phase::Idle));
        } else if self.model.has(Rule::OwnSettlement) {
            steps.sure(
                self.name(),
                "recognizes its own settlement",
                self.go(Phase::Ringing),
            );
        } else {
            let to = self.go(Phase::Idle);
            let to = to.with(|w| w.is_wrong(Property::WriterRings));
            steps.sure(
                self.name(),
                "mistakes its own settlement for a stale one",
                to,
            );
        }
    }

    pub(super) fn ring(&self, steps: &mut Steps<World>) {
        let rung = self.go(Phase::Idle).with(|w| super::ring(self.model, w));
        steps.sure(self.name(), "sends a message for the retry", rung);
        steps.maybe(
            self.name(),
            "sends a message, and the message is lost",
            self.go(Phase::Idle),
        );
    }
}

/// Returns the state of the effect after a settlement.
fn fx_after(outcome: Outcome, before: Fx) -> Fx {
    match outcome {
        Outcome::Done | Outcome::DoneAndRetry => Fx::Done,
        Outcome::Not | Outcome::Permanent => Fx::Not,
        Outcome::UnclearAndRetry => Fx::Unknown,
        Outcome::Retry | Outcome::Unknown => before,
    }
}
