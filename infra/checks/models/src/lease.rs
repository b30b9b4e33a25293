//! Models the time limits of a lease, with two workers, clocks that differ, stores that answer
//! late, and pauses.
//!
//! This model counts time in units of five seconds. It shows what the lease guarantees to a
//! destination: two calls for one effect must not overlap. If they can overlap, an idempotency key
//! or the recorded intent must prevent a second effect.

use crate::case::{Case, Expect};
use crate::checker::{Model, Steps};
use crate::property::Property;

const MODEL: &str = "lease";
const NAMES: [&str; 2] = ["worker 1", "worker 2"];

/// The end of the model's time: two leases and some time after them.
const LAST: u8 = 20;

#[derive(Clone, Copy, Debug)]
struct Timing {
    lease: u8,
    /// The maximum duration of an action, from its start.
    effect: u8,
    /// The tolerated clock difference. No action runs within this time at the beginning and the end
    /// of a lease.
    margin: u8,
    skew: u8,
    /// The latest start of the action, measured from when the worker read the clock for its claim.
    /// The claim, the takeover and reading the body can take this long.
    begin: u8,
    /// Whether a worker can pause between its claim and its call.
    pauses: bool,
    /// Whether a worker starts no call close to the end of the lease.
    held_back: bool,
    /// Whether the worker cancels the action before the lease ends, regardless of its start.
    dropped_in_time: bool,
}

const PLAN: Timing = Timing {
    lease: 7,
    effect: 5,
    margin: 1,
    skew: 1,
    // Three calls of at most 15.2 s. After 30 s, the worker makes no call.
    begin: 6,
    pauses: true,
    held_back: true,
    dropped_in_time: true,
};

/// Returns all cases.
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
            "the action starts within 10 s",
            Timing {
                begin: 2,
                ..unbound
            },
        ),
        breaks(
            "a lease shorter than the action",
            Timing {
                lease: 4,
                begin: 1,
                pauses: false,
                ..unbound
            },
        ),
        breaks(
            "no margin for clock differences",
            Timing { margin: 0, ..PLAN },
        ),
        breaks(
            "a call starts at any time",
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
            "the time limit of an action counts from its own start",
            unbound,
        ),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    /// The time by which each worker's clock is ahead.
    ahead: [u8; 2],
    /// The end of the lease, by the clock of its holder.
    until: Option<u8>,
    workers: [Phase; 2],
}

/// The phase of a worker. The worker's own clock measures `until`. The other times are real times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The worker read this time from its clock, and claims the row.
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
                    steps.sure(me, "finds a live lease", go(Phase::Idle));
                    return;
                }
                let (until, began) = (clock + self.lease, world.now);
                let to = go(Phase::Leased { until, began });
                steps.sure(me, "has the lease", to.with(|w| w.until = Some(until)));
            }
            Phase::Leased { until, began } => {
                if clock + self.margin >= until && self.held_back {
                    steps.sure(me, "makes no call", go(Phase::Idle));
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
