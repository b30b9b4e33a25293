//! Models the sync of one source. Events appear late in the provider's list. Runs can overlap, can
//! crash between any two steps, and continue where another run stopped.
//!
//! No webhook arrives, so the sync must find every event. Time advances in ticks and stops at the
//! last one. An event appears in the list at most `lag` ticks after it happened.

mod cases;
mod run;

pub use cases::cases;

use crate::checker::{Model, Steps};
use crate::property::Property;

/// A protection of the sync that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    PutsBeforeAdvance,
    /// The page is stored after its events are in the ledger.
    PutsBeforePage,
    FailedPutEndsRun,
    /// A run that continues another run uses the start time of that run.
    ResumedRunKeepsStart,
    /// Only the holder of the lease writes the page and the cursor.
    Fence,
    /// The cursor never moves back.
    CursorOnlyGrows,
    /// A run does not continue from a page of a run that began before the cursor.
    StalePageDropped,
    /// A run does not request a page again that the provider no longer knows.
    RefusedPageDropped,
}

/// The value that becomes the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    StartOfRun,
    EndOfRun,
    NewestEvent,
}

#[derive(Clone, Copy, Debug)]
struct Sync {
    off: &'static [Rule],
    mark: Mark,
    lag: u8,
    overlap: u8,
    inclusive: bool,
    last_tick: u8,
    events: usize,
    runs: usize,
    /// Whether the provider can forget a position in its list.
    pages_expire: bool,
}

const EVENTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    /// The events, in the order in which they happened.
    events: [Option<Event>; EVENTS],
    cursor: Option<u8>,
    page: Option<Page>,
    /// The run that holds the lease, if any.
    holder: Option<u8>,
    lease_over: bool,
    runs: [Run; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Event {
    at: u8,
    listed: bool,
    known: bool,
}

/// The position of an unfinished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Page {
    /// The event after which the list continues. The list continues with older events.
    after: u8,
    from: u8,
    started: u8,
    expired: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The run has read the clock.
    Begun,
    Listing,
    /// The run puts this event into the ledger. The flag tells whether the page has more events.
    Putting(u8, bool),
    Noting,
    Advancing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    phase: Phase,
    started: u8,
    from: u8,
    after: Option<u8>,
    expired: bool,
    newest: Option<u8>,
}

impl Run {
    const IDLE: Self = Self {
        phase: Phase::Idle,
        started: 0,
        from: 0,
        after: None,
        expired: false,
        newest: None,
    };
}

impl Sync {
    /// Returns a changed copy of this configuration.
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn has(&self, rule: Rule) -> bool {
        !self.off.contains(&rule)
    }
}

impl World {
    #[must_use]
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn happened(&self) -> impl Iterator<Item = Event> {
        self.events.into_iter().flatten()
    }
}

impl Model for Sync {
    type State = World;

    fn start(&self) -> Vec<World> {
        vec![World {
            now: 0,
            events: [None; EVENTS],
            cursor: None,
            page: None,
            holder: None,
            lease_over: false,
            runs: [Run::IDLE; 2],
        }]
    }

    fn steps(&self, world: &World, steps: &mut Steps<World>) {
        self.provider(world, steps);
        self.time(world, steps);
        for n in 0..self.runs {
            run::steps(self, world, n, steps);
        }
    }

    fn broken(&self, _: &World) -> Option<Property> {
        None
    }

    fn at_rest(&self, world: &World) -> bool {
        world.happened().all(|event| event.known)
    }

    fn never_at_rest(&self) -> Property {
        Property::SyncFindsAll
    }
}

impl Sync {
    fn provider(&self, world: &World, steps: &mut Steps<World>) {
        const HAPPENS: [&str; EVENTS] = ["event 1 happens", "event 2 happens", "event 3 happens"];
        const SHOWS: [&str; EVENTS] = ["lists event 1", "lists event 2", "lists event 3"];
        let next = world.happened().count();
        if next < self.events {
            let event = Event {
                at: world.now,
                listed: false,
                known: false,
            };
            let to = world.with(|w| w.events[next] = Some(event));
            steps.maybe("provider", HAPPENS[next], to);
        }
        for (n, event) in world.events.iter().enumerate() {
            if let Some(event) = event.filter(|event| !event.listed) {
                let event = Event {
                    listed: true,
                    ..event
                };
                let to = world.with(|w| w.events[n] = Some(event));
                steps.sure("provider", SHOWS[n], to);
            }
        }
        if let Some(page) = world.page.filter(|page| self.pages_expire && !page.expired) {
            let page = Page {
                expired: true,
                ..page
            };
            let to = world.with(|w| w.page = Some(page));
            steps.maybe("provider", "forgets the position in the list", to);
        }
    }

    fn time(&self, world: &World, steps: &mut Steps<World>) {
        let late = |event: Event| !event.listed && event.at + self.lag <= world.now;
        if world.now < self.last_tick && !world.happened().any(late) {
            steps.sure("time", "passes: a tick", world.with(|w| w.now += 1));
        }
        if world.holder.is_some() && !world.lease_over {
            let to = world.with(|w| w.lease_over = true);
            steps.sure("time", "passes: the lease of the sync expires", to);
        }
    }
}
