//! The steps of the drainer, which puts spilled events through the same function as every other
//! event.

use super::{Drainer, Row, Rule, Spill, World};
use crate::checker::Steps;

const ME: &str = "drainer";

pub(super) fn steps(spill: Spill, world: &World, steps: &mut Steps<World>) {
    let go = |to| world.with(|w| w.drainer = to);
    let back = go(Drainer::Idle).with(|w| w.spilled += 1);
    match world.drainer {
        Drainer::Idle => {
            if world.spilled > 0 {
                let begin = if spill.has(Rule::PutBeforeDelete) {
                    Drainer::Putting
                } else {
                    Drainer::PuttingDeleted
                };
                let to = go(begin).with(|w| w.spilled -= 1);
                steps.sure(ME, "receives a spilled request", to);
            }
        }
        Drainer::Putting | Drainer::PuttingDeleted if world.up => {
            if world.old && !spill.has(Rule::JudgedAtReceipt) {
                let to = go(Drainer::Idle);
                steps.sure(
                    ME,
                    "rejects the event as too old and deletes the message",
                    to,
                );
                return;
            }
            let put = |w: &mut World| {
                if w.row.is_none() || !spill.has(Rule::PutIsConditional) {
                    w.row = Some(Row::Open);
                }
            };
            steps.sure(
                ME,
                "puts the row or finds it",
                go(Drainer::Deleting).with(put),
            );
            dies(world, back, steps);
        }
        Drainer::PuttingDeleted => dies(world, back, steps),
        Drainer::Putting => {
            if spill.has(Rule::ManyReceives) {
                steps.sure(ME, "cannot put the event; the message returns later", back);
            } else {
                let parked = go(Drainer::Idle).with(|w| w.parked += 1);
                steps.sure(
                    ME,
                    "cannot put the event; the message was received too often",
                    parked,
                );
            }
            dies(world, back, steps);
        }
        Drainer::Deleting => {
            steps.sure(ME, "deletes the message", go(Drainer::Idle));
            dies(world, back, steps);
        }
    }
}

fn dies(world: &World, back: World, steps: &mut Steps<World>) {
    if world.drainer == Drainer::PuttingDeleted {
        let to = world.with(|w| w.drainer = Drainer::Idle);
        steps.maybe(ME, "crashes with the only copy", to);
    } else {
        steps.maybe(ME, "crashes; the message returns", back);
    }
}
