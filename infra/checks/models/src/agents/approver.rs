//! The steps of a person who approves or rejects a hold, some time after reading it.

use super::rules::{Agents, Rule};
use super::world::{Approval, Part, Shown, Sort, St, World};
use crate::checker::Steps;

const ME: &str = "approver";

pub(super) fn steps(model: &Agents, world: &World, steps: &mut Steps<World>) {
    let Some(shown) = world.approver else {
        if let Some(plan) = world.row.hold {
            let shown = Shown {
                plan,
                run: world.row.run,
                epoch: true,
                hold: true,
            };
            let to = world.with(|w| w.approver = Some(shown));
            steps.maybe(ME, "reads the hold", to);
        }
        return;
    };
    let gone = world.with(|w| w.approver = None);
    if !model.stands(world, shown) {
        steps.maybe(ME, "learns that the hold has ended", gone);
        return;
    }
    let approved = gone.with(|w| {
        w.row.approval = Some(Approval {
            plan: shown.plan,
            run: shown.run,
        });
        w.set_hold(None);
        w.row.release(St::Received, Part::Parked, Sort::Now);
        w.raise_epoch();
    });
    steps.maybe(ME, "approves the plan", approved);
    let rejected = gone.with(|w| {
        w.row.end(St::DeadLetter);
        w.raise_epoch();
    });
    steps.maybe(ME, "rejects the plan", rejected);
}

impl Agents {
    /// Returns whether the condition of an approval holds.
    fn stands(&self, world: &World, shown: Shown) -> bool {
        let row = world.row;
        row.st == St::Received
            && row.hold.is_some()
            && (shown.epoch || !self.has(Rule::ApprovalAsksForEpoch))
            && (shown.hold || !self.has(Rule::ApprovalAsksForHold))
    }
}
