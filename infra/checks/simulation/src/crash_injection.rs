//! Runs a function that can crash or freeze between any two of its steps, with a clock error.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use crate::clock;
use crate::world::Shared;

thread_local! {
    static KILLED: Cell<bool> = const { Cell::new(false) };
    static ROLE: Cell<Role> = const { Cell::new(Role::Nobody) };
    static INVOCATION: Cell<u64> = const { Cell::new(0) };
}

/// The function that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Nobody,
    Catcher,
    Processor,
    BackupSync,
}

/// Returns the function that currently runs.
pub fn role() -> Role {
    ROLE.get()
}

/// Returns the number of the current invocation. Each invocation has a different number.
pub fn invocation() -> u64 {
    INVOCATION.get()
}

/// Ends the current function, as an abort would.
pub fn kill_the_worker() {
    KILLED.set(true);
}

/// How a function ended.
#[derive(Debug)]
pub enum Ended<T> {
    Returned { value: T, was_frozen: bool },
    Died,
}

pin_project! {
    /// A running function, and the faults that can happen to it.
    pub struct AtRisk<F> {
        #[pin]
        work: Option<F>,
        #[pin]
        frozen: Option<Sleep>,
        was_frozen: bool,
        role: Role,
        invocation: u64,
        skew_ms: i64,
        // The time at which Lambda ends the function. Lambda does not end a frozen function, which
        // continues when it wakes up.
        ends: Instant,
        world: Shared,
    }
}

/// Runs a function with its own clock, for at most `time`.
pub fn at_risk<F: Future>(
    role: Role,
    work: F,
    skew_ms: i64,
    time: Duration,
    world: &Shared,
) -> AtRisk<F> {
    AtRisk {
        work: Some(work),
        frozen: None,
        was_frozen: false,
        role,
        invocation: world.lock().next_invocation(),
        skew_ms,
        ends: Instant::now() + time,
        world: world.clone(),
    }
}

enum Hazard {
    None,
    Death,
    Freeze(Duration),
}

fn draw(world: &Shared) -> Hazard {
    let mut world = world.lock();
    let (deaths, freezes) = (world.scenario.deaths, world.scenario.freezes);
    if world.dice.hits(deaths) {
        Hazard::Death
    } else if world.dice.hits(freezes) {
        Hazard::Freeze(Duration::from_millis(world.dice.between(20_000, 600_000)))
    } else {
        Hazard::None
    }
}

impl<F> AtRisk<F> {
    pub fn invocation(&self) -> u64 {
        self.invocation
    }
}

impl<F: Future> Future for AtRisk<F> {
    type Output = Ended<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(frozen) = this.frozen.as_mut().as_pin_mut() {
            ready!(frozen.poll(context));
            this.frozen.set(None);
        } else {
            match draw(this.world) {
                Hazard::None => {}
                Hazard::Death => {
                    this.work.set(None);
                    return Poll::Ready(Ended::Died);
                }
                Hazard::Freeze(time) => {
                    *this.was_frozen = true;
                    this.frozen.set(Some(tokio::time::sleep(time)));
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
        let overdue = Instant::now() >= *this.ends && !*this.was_frozen;
        let Some(work) = this.work.as_mut().as_pin_mut().filter(|_| !overdue) else {
            this.work.set(None);
            return Poll::Ready(Ended::Died);
        };
        KILLED.set(false);
        let before = ROLE.replace(*this.role);
        let invocation = INVOCATION.replace(*this.invocation);
        let polled = clock::skewed(*this.skew_ms, || work.poll(context));
        ROLE.set(before);
        INVOCATION.set(invocation);
        if KILLED.take() {
            this.work.set(None);
            return Poll::Ready(Ended::Died);
        }
        polled.map(|value| Ended::Returned {
            value,
            was_frozen: *this.was_frozen,
        })
    }
}
