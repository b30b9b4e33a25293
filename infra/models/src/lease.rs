//! The timing chain: two workers, clocks that differ, stores that answer late, pauses.
//!
//! Here time is counted, in units of five seconds, to see what the lease does for a destination
//! that is called: two calls of one effect must not be under way together. Where they can be, an
//! idempotency key or the written intent has to make up for it.

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "lease";
const NAMES: [&str; 2] = ["worker 1", "worker 2"];

/// When the model's clock stops: two leases and something over.
const LAST: u8 = 20;

#[derive(Clone, Copy, Debug)]
struct Timing {
    lease: u8,
    /// How long an action may run, from its own beginning.
    effect: u8,
    /// What clocks may differ by, and what is left free at both ends of a lease for it.
    margin: u8,
    skew: u8,
    /// How long after the clock was read for the claim the action may begin: as long as claim,
    /// takeover and the reading of the body may take.
    begin: u8,
    /// Whether a worker may be frozen between its claim and its call.
    pauses: bool,
    /// Whether nothing is begun close to the end of the lease.
    held_back: bool,
    /// Whether the action is dropped before the lease ends, however late it began.
    dropped_in_time: bool,
}

const PLAN: Timing = Timing {
    lease: 7,
    effect: 5,
    margin: 1,
    skew: 1,
    // Three calls of 15.2 s at most, of which the call is held back after 30 s.
    begin: 6,
    pauses: true,
    held_back: true,
    dropped_in_time: true,
};

/// All configurations.
pub fn cases() -> Vec<Case> {
    let holds = |name, of| Case::new(MODEL, name, Expect::Holds, of);
    let breaks = |name, of| {
        let property = Property::CallsDoNotOverlap;
        Case::new(MODEL, name, Expect::Breaks(property), of)
    };
    let unbound = Timing {
        dropped_in_time: false,
        ..PLAN
    };
    vec![
        holds("the action ends with the lease", PLAN),
        holds(
            "the action begins within 10 s",
            Timing {
                begin: 2,
                ..unbound
            },
        ),
        breaks(
            "a lease shorter than the effect",
            Timing {
                lease: 4,
                begin: 1,
                pauses: false,
                ..unbound
            },
        ),
        breaks("no margin for clocks", Timing { margin: 0, ..PLAN }),
        breaks(
            "a call is begun at any time",
            Timing {
                held_back: false,
                ..PLAN
            },
        ),
        breaks(
            "clocks differ by more than the margin",
            Timing { skew: 3, ..PLAN },
        ),
        breaks(
            "the time of an action counts from its own beginning",
            unbound,
        ),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    /// How far each worker's clock is ahead.
    ahead: [u8; 2],
    /// Until when the row is held, by the clock of who holds it.
    until: Option<u8>,
    workers: [Phase; 2],
}

/// What a worker is at. `until` is by its own clock, all else by the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// It read its clock, which stood at this, and asks for the row.
    Claiming {
        clock: u8,
        latest: u8,
    },
    Leased {
        until: u8,
        began: u8,
    },
    Calling {
        ends: u8,
    },
}

impl World {
    #[must_use]
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Model for Timing {
    type State = World;

    fn start(&self) -> Vec<World> {
        let clocks = (0..=self.skew).flat_map(|one| [[one, 0], [0, one]]);
        let world = |ahead| World {
            now: 0,
            ahead,
            until: None,
            workers: [Phase::Idle; 2],
        };
        clocks.map(world).collect()
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        for n in 0..2 {
            self.worker(world, n, steps);
        }
        let urgent = |phase: &Phase| match *phase {
            Phase::Claiming { latest, .. } => latest <= world.now,
            Phase::Leased { began, .. } => !self.pauses && began + self.effect <= world.now,
            Phase::Calling { ends } => ends <= world.now,
            Phase::Idle => false,
        };
        if world.now < LAST && !world.workers.iter().any(urgent) {
            steps.sure("time", "passes: five seconds", world.with(|w| w.now += 1));
        }
    }

    fn broken(&self, world: &World) -> Option<Property> {
        let calling = |phase: &Phase| matches!(phase, Phase::Calling { .. });
        let both = world.workers.iter().all(calling);
        both.then_some(Property::CallsDoNotOverlap)
    }

    fn at_rest(&self, _: &World) -> bool {
        true
    }
}

impl Timing {
    fn worker(self, world: &World, n: usize, steps: &mut Steps<World>) {
        let me = NAMES[n];
        let go = |phase| world.with(|w| w.workers[n] = phase);
        let clock = world.now + world.ahead[n];
        match world.workers[n] {
            Phase::Idle => {
                let latest = world.now + self.begin;
                let to = go(Phase::Claiming { clock, latest });
                steps.sure(me, "reads its clock and claims", to);
            }
            Phase::Claiming { clock, .. } => {
                if world
                    .until
                    .is_some_and(|until| until + self.margin >= clock)
                {
                    steps.sure(me, "finds somebody at work", go(Phase::Idle));
                    return;
                }
                let (until, began) = (clock + self.lease, world.now);
                let to = go(Phase::Leased { until, began });
                steps.sure(me, "has the lease", to.with(|w| w.until = Some(until)));
            }
            Phase::Leased { until, began } => {
                if clock + self.margin >= until && self.held_back {
                    steps.sure(me, "holds its call back", go(Phase::Idle));
                    return;
                }
                let end = (until - self.margin).saturating_sub(world.ahead[n]);
                let ends = if self.dropped_in_time {
                    end.min(began + self.effect)
                } else {
                    began + self.effect
                };
                steps.sure(me, "calls", go(Phase::Calling { ends }));
            }
            Phase::Calling { .. } => steps.sure(me, "ends its call", go(Phase::Idle)),
        }
    }
}
