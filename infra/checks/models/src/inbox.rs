//! Models one event with provider, catcher, ledger, queue, processor, sweep and replay.
//!
//! Time is abstract, so a lease can expire at any moment, even while its worker continues. A
//! property that holds here holds for every clock and every pause.

mod action;
mod around;
mod cases;
mod catcher;
mod rules;
mod settle;
mod sweep;
mod worker;
mod world;

pub use cases::cases;
use rules::{Inbox, Rule};
use world::{St, World};

use crate::checker::{Model, Steps};
use crate::property::Property;

impl Model for Inbox {
    type State = World;

    fn start(&self) -> Vec<World> {
        vec![World::start(
            self.deliveries,
            self.replays,
            self.lost_for_good,
        )]
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        catcher::steps(self, world, steps);
        worker::steps(self, world, steps);
        sweep::steps(self, world, steps);
        around::steps(self, world, steps);
    }

    fn broken(&self, world: &World) -> Option<Property> {
        let truth = &world.truth;
        if truth.wrong.is_some() {
            return truth.wrong;
        }
        if truth.outcomes > 1 {
            return Some(Property::OneOutcomePerRun);
        }
        let Some(row) = world.row else {
            let lost = world.acked && !truth.ended;
            return lost.then_some(Property::AckedIsKept);
        };
        let happened = truth.happened[usize::from(row.generation)] > 0;
        (row.st == St::Done && !happened).then_some(Property::DoneMeansHappened)
    }

    /// Returns whether the sender has no 2xx, or the event has its outcome.
    fn at_rest(&self, world: &World) -> bool {
        world.row.is_none_or(|row| row.is_settled())
    }
}

/// Sends a work message. If the model's queue is full, another message changes nothing.
fn ring(model: &Inbox, world: &mut World) {
    world.bells = (world.bells + 1).min(model.bells);
}

/// Makes the row a dead letter, if the condition for exhausted attempts holds.
fn exhausted(model: &Inbox, world: &World, seen: u8) -> Option<World> {
    let row = world.row?;
    let over = row.lease_over || !model.has(Rule::OthersWaitForLease);
    let open = matches!(row.st, St::Received | St::Failed) || row.st == St::Processing && over;
    let as_seen = row.epoch == seen && open && worker::used_up(model, &row);
    if !as_seen && model.has(Rule::ExhaustAsksForEpoch) {
        return None;
    }
    Some(world.with(|w| {
        if row.st == St::Processing && !row.lease_over {
            w.is_wrong(Property::LiveLeaseIsLeft);
        }
        w.end(row, St::DeadLetter);
    }))
}
