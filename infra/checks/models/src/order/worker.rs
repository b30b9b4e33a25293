//! The steps of a worker: it takes an event, determines what to write, writes it, and settles the
//! event.

use super::{EVENTS, Mode, Order, Phase, St, Worker, World};
use crate::checker::Steps;
use crate::property::Property;

const NAMES: [&str; 3] = ["worker 1", "worker 2", "worker 3"];
const TAKES: [&str; EVENTS] = [
    "takes event 1",
    "takes event 2",
    "takes event 3",
    "takes event 4",
];

pub(super) fn steps(order: &Order, world: &World, n: usize, steps: &mut Steps<World>) {
    let me = At {
        order,
        world: *world,
        n,
    };
    me.steps(steps);
}

/// One worker in a state of the model.
struct At<'o> {
    order: &'o Order,
    world: World,
    n: usize,
}

impl At<'_> {
    fn steps(&self, steps: &mut Steps<World>) {
        match self.me().phase {
            Phase::Idle => return self.take(steps),
            Phase::Leased => self.prepare(steps),
            Phase::Writing => self.write(steps),
            Phase::Settling => self.settle(steps),
        }
        steps.maybe(NAMES[self.n], "crashes", self.idle());
    }

    fn me(&self) -> Worker {
        self.world.workers[self.n]
    }

    fn idle(&self) -> World {
        self.world.with(|w| w.workers[self.n] = Worker::IDLE)
    }

    fn go(&self, phase: Phase) -> World {
        self.world.with(|w| w.workers[self.n].phase = phase)
    }

    fn by(&self) -> u8 {
        u8::try_from(self.n).unwrap_or(0)
    }

    fn locks(&self) -> bool {
        matches!(
            self.order.mode,
            Mode::Fetch { lock: true, .. } | Mode::Strict { .. }
        )
    }

    fn take(&self, steps: &mut Steps<World>) {
        if self.locks() && self.world.lock.is_some() {
            return;
        }
        let is_open = |st: St| matches!(st, St::Open | St::Held { .. });
        for (event, what) in TAKES.iter().enumerate() {
            let st = self.world.events[event];
            let free = matches!(st, St::Open | St::Held { over: true, .. });
            let older = self.world.events[..event].iter().any(|st| is_open(*st));
            let waits = matches!(
                self.order.mode,
                Mode::Strict {
                    oldest_first: true,
                    ..
                }
            );
            if !free || older && waits {
                continue;
            }
            let number = u8::try_from(event).unwrap_or(0);
            let to = self.world.with(|w| {
                w.events[event] = St::Held {
                    by: self.by(),
                    over: false,
                };
                if self.locks() {
                    w.lock = Some(self.by());
                }
                w.workers[self.n] = Worker {
                    phase: Phase::Leased,
                    event: number,
                    state: number + 1,
                    arrived: w.events.map(|st| st != St::Ahead),
                };
            });
            steps.sure(NAMES[self.n], what, to);
        }
    }

    fn prepare(&self, steps: &mut Steps<World>) {
        match self.order.mode {
            Mode::Fetch { .. } => {
                let to = self.go(Phase::Writing);
                let to = to.with(|w| w.workers[self.n].state = w.current);
                steps.sure(NAMES[self.n], "fetches the current state", to);
            }
            Mode::LatestWins { at_write: false } if self.me().state <= self.world.destination => {
                let to = self.go(Phase::Settling);
                steps.sure(
                    NAMES[self.n],
                    "finds that the destination has a newer state",
                    to,
                );
            }
            _ => steps.sure(NAMES[self.n], "prepares the write", self.go(Phase::Writing)),
        }
    }

    fn write(&self, steps: &mut Steps<World>) {
        let me = self.me();
        let guarded = matches!(
            self.order.mode,
            Mode::LatestWins { at_write: true } | Mode::Fetch { guard: true, .. }
        );
        let event = usize::from(me.event);
        let keyed = !matches!(self.order.mode, Mode::Strict { keyed: false, .. });
        let repeated = matches!(self.order.mode, Mode::Strict { .. }) && self.world.happened[event];
        let written = self.go(Phase::Settling).with(|w| {
            if repeated && keyed || guarded && me.state <= w.destination {
                return;
            }
            if matches!(self.order.mode, Mode::Strict { .. }) && self.is_out_of_order() {
                w.wrong = Some(Property::ArrivedInOrder);
            }
            w.destination = me.state;
            w.happened[event] = true;
        });
        steps.sure(NAMES[self.n], "writes", written);
        // The attempt fails, and the event is due for another attempt.
        let failed = self.idle().with(|w| self.release(w, St::Open));
        steps.maybe(NAMES[self.n], "fails to write", failed);
    }

    /// Returns whether the event is processed out of order: an earlier event had arrived and is not
    /// applied, or a later one is applied.
    fn is_out_of_order(&self) -> bool {
        let me = self.me();
        let event = usize::from(me.event);
        let earlier = (0..event).any(|n| me.arrived[n] && !self.world.happened[n]);
        let again = self.world.happened[event];
        earlier || again && self.world.happened[event + 1..].contains(&true)
    }

    fn settle(&self, steps: &mut Steps<World>) {
        let to = self.idle().with(|w| self.release(w, St::Done));
        steps.sure(NAMES[self.n], "settles if it still holds the event", to);
    }

    /// Only the holder of the event changes its state (the fence).
    fn release(&self, world: &mut World, to: St) {
        let event = usize::from(self.me().event);
        if matches!(world.events[event], St::Held { by, .. } if by == self.by()) {
            world.events[event] = to;
            if world.lock == Some(self.by()) {
                world.lock = None;
            }
        }
    }
}
