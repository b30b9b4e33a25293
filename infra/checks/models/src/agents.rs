//! Models one event that a worker outside of Lambda claims, with the processor that parks it, two
//! workers, a person who approves its effect, the sweep and a replay.
//!
//! Time is abstract, so a lease can end at any moment. The effect is a call to a destination that
//! ignores idempotency keys, and that can be searched.

mod approver;
mod around;
mod cases;
mod effect;
mod finish;
mod processor;
mod rules;
mod worker;
mod world;

pub use cases::cases;
use rules::Agents;
use world::{Part, Row, Sort, St, World};

use crate::checker::{Model, Steps};
use crate::property::Property;

impl Model for Agents {
    type State = World;

    fn start(&self) -> Vec<World> {
        vec![World::start(self.replays)]
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        processor::steps(self, world, steps);
        worker::steps(self, world, steps);
        approver::steps(self, world, steps);
        around::steps(self, world, steps);
    }

    fn broken(&self, world: &World) -> Option<Property> {
        if world.wrong.is_some() {
            return world.wrong;
        }
        if world.happened > 1 {
            return Some(Property::OneEffectPerKey);
        }
        (!is_listed(&world.row)).then_some(Property::WaitingIsListed)
    }

    fn at_rest(&self, world: &World) -> bool {
        world.row.is_settled()
    }
}

/// Returns whether the index of open work has the row where its readers look for it. A row is in
/// the index only if it has both keys.
fn is_listed(row: &Row) -> bool {
    let part = row.part.filter(|_| row.sort != Sort::Absent);
    match row.st {
        St::Done => part.is_none(),
        St::DeadLetter => part == Some(Part::Dead),
        St::Received if row.hold.is_some() => part == Some(Part::Held),
        _ => !row.parked || row.hold.is_some() || part == Some(Part::Parked),
    }
}
