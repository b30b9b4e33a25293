//! The environment of the functions: time, the queue, the destination, an operator.

use super::rules::{Expires, Inbox, Rule};
use super::world::{Catcher, Fx, Phase, Row, St, World};
use crate::checker::Steps;

pub(super) fn steps(model: &Inbox, world: &World, steps: &mut Steps<World>) {
    if world.bells > 0 {
        steps.maybe("queue", "loses a message", world.with(|w| w.bells -= 1));
        let twice = world.with(|w| super::ring(model, w));
        if twice.bells != world.bells {
            steps.maybe("queue", "duplicates a message", twice);
        }
    }
    if let Some(row) = world.row {
        time(model, world, row, steps);
        if row.is_settled() && world.replays > 0 {
            steps.maybe("operator", "replays the event", replayed(model, world, row));
        }
    }
    if model.expires == Expires::Key && !world.key_forgotten && world.truth.happened[0] > 0 {
        let to = world.with(|w| w.key_forgotten = true);
        steps.maybe("destination", "forgets the key", to);
    }
}

fn time(model: &Inbox, world: &World, row: Row, steps: &mut Steps<World>) {
    let held = row.st == St::Processing && !row.lease_over;
    if held && model.has(Rule::LeaseRunsOut) {
        let row = Row {
            lease_over: true,
            ..row
        };
        let to = world.with(|w| {
            w.row = Some(row);
            let mut owners = w.workers.iter().filter(|worker| worker.id == row.owner);
            w.truth.begun |= owners.any(|worker| worker.phase == Phase::ClaimingAgain);
        });
        steps.sure("time", "passes: the lease expires", to);
    }
    if row.st == St::Failed && !row.due {
        let to = world.with(|w| w.row = Some(Row { due: true, ..row }));
        steps.sure("time", "passes: the retry is due", to);
    }
    let quiet = world.deliveries == 0 && world.catchers.iter().all(|c| *c == Catcher::Free);
    let last = quiet || !model.has(Rule::RowOutlivesRedelivery);
    if model.expires == Expires::Row && row.st == St::Done && last {
        steps.maybe(
            "time",
            "passes: the row expires",
            world.with(|w| w.row = None),
        );
    }
}

fn replayed(model: &Inbox, world: &World, row: Row) -> World {
    world.with(|w| {
        w.replays -= 1;
        w.truth.outcomes = 0;
        w.truth.begun = false;
        let mut row = Row {
            epoch: if model.has(Rule::ReplayRaisesEpoch) {
                row.epoch + 1
            } else {
                0
            },
            run: row.run + 1,
            attempts: 0,
            crashes: 0,
            ..row.released(St::Received)
        };
        if model.new_effect {
            row.generation = 1;
            if model.has(Rule::NewEffectForgetsOld) {
                row.fx = Fx::None;
                w.truth.doubt = false;
            }
        }
        w.row = Some(row);
    })
}
