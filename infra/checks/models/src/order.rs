//! Models the events of one entity, each with a newer state, and workers that take the events in
//! any order.
//!
//! This model was written from the design, before the code. It contains the four modes of ordering.
//! A lease or a lock can expire while its worker continues.

mod cases;
mod worker;

pub use cases::cases;

use crate::checker::{Model, Steps};
use crate::property::Property;

/// How a source orders the events of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Each event writes its own state.
    None,
    /// An event writes its state only if the destination has an older one. With `at_write`, the
    /// destination compares the states. Otherwise the worker compares them before the write.
    LatestWins { at_write: bool },
    /// The worker fetches the current state and writes it.
    Fetch { lock: bool, guard: bool },
    /// The workers process one event at a time. The oldest open event comes first.
    Strict { oldest_first: bool, keyed: bool },
}

#[derive(Clone, Copy, Debug)]
struct Order {
    mode: Mode,
    events: u8,
    workers: usize,
    /// Whether a lease can expire while its worker continues.
    pauses: bool,
}

const EVENTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    /// The newest state at the provider: the state of the event with this number.
    current: u8,
    events: [St; EVENTS],
    /// The worker that holds the lock of the entity.
    lock: Option<u8>,
    workers: [Worker; 3],
    /// The state at the destination.
    destination: u8,
    /// Whether the effect of each event has happened.
    happened: [bool; EVENTS],
    wrong: Option<Property>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum St {
    Ahead,
    Open,
    Held { by: u8, over: bool },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Worker {
    phase: Phase,
    event: u8,
    /// The state that the worker writes.
    state: u8,
    /// Whether each event had arrived when the worker took its event.
    arrived: [bool; EVENTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Leased,
    /// The worker knows the state to write.
    Writing,
    Settling,
}

impl Worker {
    const IDLE: Self = Self {
        phase: Phase::Idle,
        event: 0,
        state: 0,
        arrived: [false; EVENTS],
    };
}

impl World {
    #[must_use]
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Model for Order {
    type State = World;

    fn start(&self) -> Vec<World> {
        vec![World {
            current: 0,
            events: [St::Ahead; EVENTS],
            lock: None,
            workers: [Worker::IDLE; 3],
            destination: 0,
            happened: [false; EVENTS],
            wrong: None,
        }]
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        self.provider(world, steps);
        self.time(world, steps);
        for n in 0..self.workers {
            worker::steps(self, world, n, steps);
        }
    }

    fn broken(&self, world: &World) -> Option<Property> {
        let settled = self.at_rest(world) && world.current == self.events;
        let old = settled && world.destination != world.current;
        // In strict mode, this property does not apply. `ArrivedInOrder` applies instead.
        let states = !matches!(self.mode, Mode::Strict { .. });
        let stale = (old && states).then_some(Property::NewestStateWins);
        world.wrong.or(stale)
    }

    fn at_rest(&self, world: &World) -> bool {
        let events = &world.events[..usize::from(world.current)];
        events.iter().all(|event| *event == St::Done)
    }
}

impl Order {
    fn provider(&self, world: &World, steps: &mut Steps<World>) {
        const CHANGES: [&str; EVENTS] = [
            "changes the entity: state 1",
            "changes the entity: state 2",
            "changes the entity: state 3",
            "changes the entity: state 4",
        ];
        const ARRIVES: [&str; EVENTS] = [
            "delivers event 1",
            "delivers event 2",
            "delivers event 3",
            "delivers event 4",
        ];
        if world.current < self.events {
            let what = CHANGES[usize::from(world.current)];
            steps.maybe("provider", what, world.with(|w| w.current += 1));
        }
        let arrives = ARRIVES.iter().take(usize::from(world.current));
        for (n, what) in arrives.enumerate() {
            if world.events[n] == St::Ahead {
                let to = world.with(|w| w.events[n] = St::Open);
                steps.sure("provider", what, to);
            }
        }
    }

    fn time(&self, world: &World, steps: &mut Steps<World>) {
        for n in 0..EVENTS {
            let St::Held { by, over: false } = world.events[n] else {
                continue;
            };
            let worker = world.workers[usize::from(by)];
            let alive = worker.phase != Phase::Idle && usize::from(worker.event) == n;
            if alive && !self.pauses {
                continue;
            }
            let to = world.with(|w| {
                w.events[n] = St::Held { by, over: true };
                if w.lock == Some(by) {
                    w.lock = None;
                }
            });
            steps.sure("time", "passes: lease and lock expire", to);
        }
    }
}
