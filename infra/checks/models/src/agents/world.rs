//! A state of the model: row, queue, processor, workers and approver. It also contains the real
//! effect, which no part of the system can observe without a search.
//!
//! A state has no epochs. Only the comparison with the row's epoch matters, so each part that has
//! read the row knows whether its epoch is still `current`.

use crate::property::Property;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) row: Row,
    pub(super) messages: u8,
    pub(super) processors: [Processor; 2],
    pub(super) workers: [Worker; 2],
    pub(super) approver: Option<Shown>,
    pub(super) replays: u8,
    /// The number of calls that are still under way to the destination.
    pub(super) calls: u8,
    /// The number of times that the effect happened.
    pub(super) happened: u8,
    pub(super) wrong: Option<Property>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum St {
    Received,
    Processing,
    Failed,
    Done,
    DeadLetter,
}

/// A partition of the index of open work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Work,
    Parked,
    Held,
    Dead,
}

/// The sort key of the index: the time from which a reader finds the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sort {
    Absent,
    Later,
    Now,
}

/// The hash of what a worker is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Plan {
    A,
    B,
}

/// An approval, with the run that the approver saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Approval {
    pub(super) plan: Plan,
    pub(super) run: u8,
}

/// The recorded state of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fx {
    /// No intent is recorded, or the call had no effect.
    Not,
    /// The intent is recorded, or the result of the call is unknown.
    Doubt {
        /// Whether the lease that wrote the intent is the row's newest.
        current: bool,
        age: Age,
    },
    Done,
    Refused,
}

/// The time since the end of the lease under which an intent was written, as it was then. A later
/// extension does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Age {
    Live,
    Ended,
    /// Calls that began under the lease have arrived, or never will.
    Old,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) st: St,
    pub(super) lease_over: bool,
    /// Whether the lease was extended.
    pub(super) extended: bool,
    pub(super) part: Option<Part>,
    pub(super) sort: Sort,
    pub(super) attempts: u8,
    pub(super) run: u8,
    /// Whether the row names a queue of workers.
    pub(super) parked: bool,
    /// The plan that a hold shows.
    pub(super) hold: Option<Plan>,
    /// The number of holds in this run.
    pub(super) holds: u8,
    pub(super) approval: Option<Approval>,
    pub(super) fx: Fx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Processor {
    pub(super) phase: Step,
    pub(super) current: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Idle,
    /// It found an expired lease of another processor.
    TakingOver,
    Leased,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    pub(super) phase: Phase,
    /// Whether the epoch that it knows is the row's.
    pub(super) current: bool,
    pub(super) plan: Plan,
    /// Whether an extension of its lease is under way.
    pub(super) extends: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// It found an expired lease.
    TakingOver,
    /// It found an exhausted event.
    Exhausting,
    /// It asks whether it may make the call.
    Beginning(Search),
    /// It learned that an earlier attempt may have made the call. `late`: it learned so when no
    /// call of the earlier lease could still be under way.
    Searching {
        late: bool,
    },
    /// It may make the call.
    Going,
    /// It has looked at the clock. This needs the protection off.
    Looked,
    /// It knows the result of the call.
    Ending(Effect),
    Finishing(Outcome),
}

/// Whether the worker has searched the destination without result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Search {
    None,
    Early,
    Late,
}

/// The result of a call, as far as the worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Effect {
    Done,
    Not,
    Unknown,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    Done,
    Retry,
    /// Permanent failure, or a result that an operator has to find out.
    DeadLetter,
    /// The attempt does not count.
    Release,
}

/// The hold that the approver was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shown {
    pub(super) plan: Plan,
    pub(super) run: u8,
    /// Whether the epoch of the hold is the row's.
    pub(super) epoch: bool,
    /// Whether the row still has this hold.
    pub(super) hold: bool,
}

impl Row {
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.st, St::Done | St::DeadLetter)
    }

    /// Returns whether the row is claimed and the lease has not ended.
    pub(super) fn is_live(&self) -> bool {
        self.st == St::Processing && !self.lease_over
    }

    /// Gives the row a state without a lease, and a place in the index.
    pub(super) fn release(&mut self, st: St, part: Part, sort: Sort) {
        self.st = st;
        self.lease_over = false;
        self.extended = false;
        self.part = Some(part);
        self.sort = sort;
    }

    /// Gives the row its outcome.
    pub(super) fn end(&mut self, st: St) {
        self.release(st, Part::Dead, Sort::Now);
        if st == St::Done {
            self.part = None;
            self.sort = Sort::Absent;
        }
        self.parked = false;
        self.hold = None;
    }
}

impl Worker {
    pub(super) const IDLE: Self = Self {
        phase: Phase::Idle,
        current: false,
        plan: Plan::A,
        extends: false,
    };
}

impl Processor {
    pub(super) const IDLE: Self = Self {
        phase: Step::Idle,
        current: false,
    };
}

impl World {
    pub(super) fn start(replays: u8) -> Self {
        Self {
            row: Row {
                st: St::Received,
                lease_over: false,
                extended: false,
                part: None,
                sort: Sort::Absent,
                attempts: 0,
                run: 0,
                parked: false,
                hold: None,
                holds: 0,
                approval: None,
                fx: Fx::Not,
            },
            messages: 1,
            processors: [Processor::IDLE; 2],
            workers: [Worker::IDLE; 2],
            approver: None,
            replays,
            calls: 0,
            happened: 0,
            wrong: None,
        }
    }

    /// Returns a changed copy of this state.
    #[must_use]
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn is_wrong(&mut self, property: Property) {
        self.wrong.get_or_insert(property);
    }

    /// Gives the row a new epoch.
    pub(super) fn raise_epoch(&mut self) {
        for worker in &mut self.workers {
            worker.current = false;
            // The extension will be refused.
            worker.extends = false;
            if worker.phase == Phase::Idle {
                *worker = Worker::IDLE;
            }
        }
        for processor in &mut self.processors {
            processor.current = false;
        }
        if let Some(shown) = &mut self.approver {
            shown.epoch = false;
        }
        if let Fx::Doubt { current, .. } = &mut self.row.fx {
            *current = false;
        }
    }

    /// Moves the row to `processing`, under a new epoch.
    pub(super) fn claim(&mut self) {
        if self.row.is_live() {
            self.is_wrong(Property::LiveLeaseIsLeft);
        }
        self.raise_epoch();
        self.row.st = St::Processing;
        self.row.lease_over = false;
        self.row.extended = false;
        self.row.attempts += 1;
    }

    /// Changes the hold. A hold that an approver was shown is then another one.
    pub(super) fn set_hold(&mut self, hold: Option<Plan>) {
        self.row.hold = hold;
        if let Some(shown) = &mut self.approver {
            shown.hold = false;
        }
    }
}
