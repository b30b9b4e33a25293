//! The steps of the sweep: it reads open rows, sends messages for them, and records exhausted
//! events.

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
            steps.sure(ME, "sends a message", idle.with(|w| super::ring(model, w)));
        }
        Sweep::Exhausting(seen) => match super::exhausted(model, &idle, seen) {
            Some(to) => steps.sure(ME, "records an exhausted event", to),
            None => steps.sure(ME, "finds that the row has changed", idle),
        },
    }
    steps.maybe(ME, "crashes", idle);
}

/// Scans the time of receipt of the event, once in a run of the model.
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
    steps.sure(ME, "scans the event's time of receipt", to);
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
        steps.sure(ME, "finds that the event is exhausted", to);
    } else if world.bells < model.bells {
        let to = world.with(|w| w.sweep = Sweep::Ringing);
        steps.sure(ME, "reads the row and records that it sends a message", to);
    }
}
