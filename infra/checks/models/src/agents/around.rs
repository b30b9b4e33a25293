//! The environment of the workers: time, the queue, the sweep, the destination, an operator.

use super::rules::{Agents, Rule};
use super::world::{Age, Fx, Part, Sort, St, World};
use crate::checker::Steps;

pub(super) fn steps(model: &Agents, world: &World, steps: &mut Steps<World>) {
    if world.messages > 0 {
        steps.maybe("queue", "loses a message", world.with(|w| w.messages -= 1));
        if world.messages < model.messages {
            let to = world.with(|w| w.messages += 1);
            steps.maybe("queue", "duplicates a message", to);
        }
    } else {
        let to = world.with(|w| w.messages += 1);
        steps.maybe("queue", "delivers a message again", to);
    }
    if world.calls > 0 {
        let arrived = world.with(|w| {
            w.calls -= 1;
            w.happened = (w.happened + 1).min(2);
        });
        steps.sure(
            "destination",
            "gets a late call, and the effect happens",
            arrived,
        );
        let lost = world.with(|w| w.calls -= 1);
        steps.sure("destination", "never gets a late call", lost);
    }
    if world.row.is_settled() && world.replays > 0 {
        steps.maybe("operator", "replays the event", replayed(model, world));
    }
    sweep(model, world, steps);
    time(world, steps);
}

fn replayed(model: &Agents, world: &World) -> World {
    world.with(|w| {
        w.replays -= 1;
        w.row.release(St::Received, Part::Work, Sort::Now);
        w.row.attempts = 0;
        w.row.holds = 0;
        w.row.run += 1;
        // A refusal counts in its run only.
        if w.row.fx == Fx::Refused {
            w.row.fx = Fx::Not;
        }
        if model.has(Rule::ReplayForgetsApproval) {
            w.row.approval = None;
        }
        w.raise_epoch();
    })
}

/// The sweep sends messages for events that are not parked, and ends expired holds.
fn sweep(model: &Agents, world: &World, steps: &mut Steps<World>) {
    let row = world.row;
    let waits = row.st == St::Received || row.st == St::Failed && row.sort == Sort::Now;
    let open = waits || row.st == St::Processing && row.lease_over;
    if open && !row.parked && world.messages < model.messages {
        let to = world.with(|w| w.messages += 1);
        steps.sure("sweep", "sends a message", to);
    }
    if row.hold.is_some() && row.st == St::Received && row.sort == Sort::Now {
        let to = world.with(|w| {
            w.row.end(St::DeadLetter);
            w.raise_epoch();
        });
        steps.sure("sweep", "ends an expired hold", to);
    }
}

fn time(world: &World, steps: &mut Steps<World>) {
    let row = world.row;
    if row.is_live() {
        let to = world.with(|w| {
            w.row.lease_over = true;
            if w.row.part == Some(Part::Parked) {
                w.row.sort = Sort::Now;
            }
        });
        steps.sure("time", "passes: the lease ends", to);
    }
    if row.sort == Sort::Later && row.st != St::Processing {
        let to = world.with(|w| w.row.sort = Sort::Now);
        let what = if row.hold.is_some() {
            "passes: the hold expires"
        } else {
            "passes: the retry is due"
        };
        steps.sure("time", what, to);
    }
    let Fx::Doubt { current, age } = row.fx else {
        return;
    };
    let aged = |age| world.with(|w| w.row.fx = Fx::Doubt { current, age });
    let ended = !row.is_live() || !current || row.extended;
    // A call or an extension arrives within this time, or never.
    let silent = world.calls == 0 && world.workers.iter().all(|worker| !worker.extends);
    match age {
        Age::Live if ended => {
            steps.sure(
                "time",
                "passes: the lease of the intent ends",
                aged(Age::Ended),
            );
        }
        Age::Ended if silent => {
            let what = "passes: 60 seconds after the lease of the intent";
            steps.sure("time", what, aged(Age::Old));
        }
        _ => {}
    }
}
