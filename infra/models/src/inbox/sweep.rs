//! The sweep: looks at open rows, rings for them, and records what is used up.

use super::rules::{Inbox, Rule};
use super::worker::used_up;
use super::world::{St, Sweep, World};
use crate::checker::Steps;

const ME: &str = "sweep";

pub(super) fn steps(model: &Inbox, world: &World, steps: &mut Steps<World>) {
    let idle = world.with(|w| w.sweep = Sweep::Idle);
    match world.sweep {
        Sweep::Idle => {
            pass(model, world, steps);
            return look(model, world, steps);
        }
        Sweep::Ringing => {
            steps.sure(ME, "rings", idle.with(|w| super::ring(model, w)));
        }
        Sweep::Exhausting(seen) => match super::exhausted(model, &idle, seen) {
            Some(to) => steps.sure(ME, "records an exhausted event", to),
            None => steps.sure(ME, "finds that the row has moved on", idle),
        },
    }
    steps.maybe(ME, "dies", idle);
}

/// Goes over the time at which the event came, once.
fn pass(model: &Inbox, world: &World, steps: &mut Steps<World>) {
    if world.passed || !model.has(Rule::Sweep) || !model.has(Rule::SoughtByTime) {
        return;
    }
    if world.row.is_none() && model.has(Rule::MarkStaysBehind) {
        return;
    }
    let to = world.with(|w| {
        w.passed = true;
        if let Some(row) = &mut w.row {
            row.open |= !row.is_settled();
        }
    });
    steps.sure(ME, "goes over the time at which it came", to);
}

fn look(model: &Inbox, world: &World, steps: &mut Steps<World>) {
    let Some(row) = world.row.filter(|row| row.open) else {
        return;
    };
    let live = row.st == St::Processing && !row.lease_over && model.has(Rule::OthersWaitForLease);
    if live || !model.has(Rule::Sweep) {
        return;
    }
    if used_up(model, &row) && model.has(Rule::SweepExhausts) {
        let to = world.with(|w| w.sweep = Sweep::Exhausting(row.epoch));
        steps.sure(ME, "sees that the event is used up", to);
    } else if world.bells < model.bells {
        let to = world.with(|w| w.sweep = Sweep::Ringing);
        steps.sure(ME, "looks at the row and notes that it rings", to);
    }
}
