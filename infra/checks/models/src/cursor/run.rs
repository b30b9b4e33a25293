//! The steps of a run: it reads the clock, takes the lease, reads page after page, and moves the
//! cursor.

use super::{Event, Mark, Page, Phase, Rule, Run, Sync, World};
use crate::checker::Steps;

const NAMES: [&str; 2] = ["run 1", "run 2"];
const GETS: [&str; 3] = ["gets event 1", "gets event 2", "gets event 3"];

pub(super) fn steps(sync: &Sync, world: &World, n: usize, steps: &mut Steps<World>) {
    let me = At {
        sync,
        world: *world,
        n,
    };
    me.steps(steps);
}

/// One run in a state of the model.
struct At<'s> {
    sync: &'s Sync,
    world: World,
    n: usize,
}

impl At<'_> {
    fn steps(&self, steps: &mut Steps<World>) {
        match self.me().phase {
            Phase::Idle => return self.begin(steps),
            Phase::Begun => self.lease(steps),
            Phase::Listing => self.list(steps),
            Phase::Putting(event, more) => self.put(event, more, steps),
            Phase::Noting => self.note(steps),
            Phase::Advancing => self.advance(steps),
        }
        steps.maybe(self.name(), "is killed", self.gone());
    }

    fn me(&self) -> Run {
        self.world.runs[self.n]
    }

    fn name(&self) -> &'static str {
        NAMES[self.n]
    }

    fn go(&self, phase: Phase) -> World {
        self.world.with(|w| w.runs[self.n].phase = phase)
    }

    /// Returns the state after the run has stopped. Its lease stays until it expires.
    fn gone(&self) -> World {
        self.world.with(|w| w.runs[self.n] = Run::IDLE)
    }

    fn holds(&self, world: &World) -> bool {
        world.holder == u8::try_from(self.n).ok()
    }

    /// Returns the state after the run ends normally. The run releases the lease if it still holds
    /// it.
    fn released(&self) -> World {
        let holds = self.holds(&self.world);
        self.gone().with(|w| {
            if holds {
                w.holder = None;
                w.lease_over = false;
            }
        })
    }

    fn begin(&self, steps: &mut Steps<World>) {
        let first = self.world.runs[..self.n]
            .iter()
            .all(|other| other.phase != Phase::Idle);
        if first {
            let to = self.go(Phase::Begun);
            let to = to.with(|w| w.runs[self.n].started = w.now);
            steps.sure(self.name(), "begins and reads the clock", to);
        }
    }

    fn lease(&self, steps: &mut Steps<World>) {
        if self.world.holder.is_some() && !self.world.lease_over {
            steps.sure(
                self.name(),
                "finds that another run holds the lease",
                self.gone(),
            );
            return;
        }
        let fresh = |page: &Page| {
            !self.sync.has(Rule::StalePageDropped)
                || self
                    .world
                    .cursor
                    .is_none_or(|cursor| page.started >= cursor)
        };
        let page = self.world.page.filter(fresh);
        let to = self.go(Phase::Listing).with(|w| {
            w.holder = u8::try_from(self.n).ok();
            w.lease_over = false;
            w.page = page;
            let run = &mut w.runs[self.n];
            run.from = w.cursor.unwrap_or(0).saturating_sub(self.sync.overlap);
            if let Some(page) = page {
                run.from = page.from;
                run.after = Some(page.after);
                run.expired = page.expired;
                if self.sync.has(Rule::ResumedRunKeepsStart) {
                    run.started = page.started;
                }
            }
            if !self.sync.has(Rule::PutsBeforeAdvance) {
                w.cursor = w.cursor.max(Some(run.started));
            }
        });
        let what = if page.is_some() {
            "takes the lease and continues where another run stopped"
        } else {
            "takes the lease"
        };
        steps.sure(self.name(), what, to);
    }

    /// Reads a page. A page contains one event, the newest that is left.
    fn list(&self, steps: &mut Steps<World>) {
        let me = self.me();
        if me.expired {
            let to = self.released().with(|w| {
                if self.sync.has(Rule::RefusedPageDropped) {
                    w.page = None;
                }
            });
            steps.sure(
                self.name(),
                "requests a page that the provider no longer knows",
                to,
            );
            return;
        }
        steps.maybe(
            self.name(),
            "gets no page in time and stops",
            self.released(),
        );
        let mut left = (0..self.end()).rev().filter(|n| self.is_asked_for(*n));
        let Some(event) = left.next() else {
            steps.sure(self.name(), "finds nothing more", self.go(Phase::Advancing));
            return;
        };
        let more = left.next().is_some();
        let index = u8::try_from(event).unwrap_or(0);
        let at = self.world.events[event].map(|event| event.at);
        let to = self.go(Phase::Putting(index, more)).with(|w| {
            let run = &mut w.runs[self.n];
            run.newest = run.newest.max(at);
            if more && !self.sync.has(Rule::PutsBeforePage) {
                w.page = Some(page(run, index));
            }
        });
        steps.sure(self.name(), GETS[event], to);
    }

    fn end(&self) -> usize {
        self.me().after.map_or(self.world.events.len(), usize::from)
    }

    fn is_asked_for(&self, n: usize) -> bool {
        let from = self.me().from;
        let inside = |event: &Event| {
            event.at > from || event.at == from && (self.sync.inclusive || from == 0)
        };
        self.world.events[n].is_some_and(|event| event.listed && inside(&event))
    }

    fn put(&self, event: u8, more: bool, steps: &mut Steps<World>) {
        let then = if more {
            Phase::Noting
        } else {
            Phase::Advancing
        };
        let on = self.go(then);
        let on = on.with(|w| w.runs[self.n].after = Some(event));
        let put = on.with(|w| {
            if let Some(event) = &mut w.events[usize::from(event)] {
                event.known = true;
            }
        });
        steps.sure(self.name(), "puts the event", put);
        if self.sync.has(Rule::FailedPutEndsRun) {
            steps.maybe(
                self.name(),
                "fails to put the event and stops",
                self.released(),
            );
        } else {
            steps.maybe(self.name(), "fails to put the event and continues", on);
        }
    }

    fn note(&self, steps: &mut Steps<World>) {
        let me = self.me();
        if !self.holds(&self.world) && self.sync.has(Rule::Fence) {
            steps.sure(self.name(), "finds that another run took over", self.gone());
            return;
        }
        let to = self.go(Phase::Listing);
        let to = to.with(|w| w.page = me.after.map(|after| page(&me, after)));
        steps.sure(self.name(), "stores the page", to);
    }

    fn advance(&self, steps: &mut Steps<World>) {
        let me = self.me();
        let mark = match self.sync.mark {
            Mark::StartOfRun => Some(me.started),
            Mark::EndOfRun => Some(self.world.now),
            Mark::NewestEvent => me.newest.max(self.world.cursor),
        };
        let back = self.world.cursor > mark && self.sync.has(Rule::CursorOnlyGrows);
        if back || !self.holds(&self.world) && self.sync.has(Rule::Fence) {
            steps.sure(self.name(), "must not move the cursor", self.gone());
            return;
        }
        let to = self.released().with(|w| {
            w.cursor = mark;
            w.page = None;
        });
        steps.sure(self.name(), "moves the cursor", to);
    }
}

fn page(run: &Run, after: u8) -> Page {
    Page {
        after,
        from: run.from,
        started: run.started,
        expired: false,
    }
}
