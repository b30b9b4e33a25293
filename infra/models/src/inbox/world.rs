//! A state of the model: provider, catchers, row, queue, workers, sweep, and what really
//! happened, which no part of the system can see.

use crate::property::Property;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) deliveries: u8,
    pub(super) acked: bool,
    pub(super) catchers: [Catcher; 2],
    pub(super) row: Option<Row>,
    pub(super) bells: u8,
    pub(super) workers: [Worker; 2],
    pub(super) sweep: Sweep,
    /// The sweep has gone over the time at which the event came.
    pub(super) passed: bool,
    pub(super) replays: u8,
    pub(super) lost_for_good: u8,
    /// Claim ids given so far.
    pub(super) ids: u8,
    /// The destination has forgotten the key.
    pub(super) key_forgotten: bool,
    pub(super) truth: Truth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Catcher {
    Free,
    Putting,
    /// The put was applied, its answer lost, and the SDK tries again.
    PuttingAgain,
    Ringing,
    Answering,
    /// Only where the answer or the ring comes before the put.
    AckingFirst,
    RingingFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum St {
    Received,
    Processing,
    Failed,
    Done,
    DeadLetter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fx {
    None,
    Intent,
    Done,
    Not,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) st: St,
    pub(super) epoch: u8,
    /// The id of the claim that holds it; 0 when nobody does.
    pub(super) owner: u8,
    pub(super) lease_over: bool,
    pub(super) due: bool,
    pub(super) attempts: u8,
    pub(super) crashes: u8,
    pub(super) run: u8,
    pub(super) generation: u8,
    pub(super) fx: Fx,
    /// In the index of open rows.
    pub(super) open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Heard,
    /// The claim was applied, its answer lost, and the SDK tries again.
    ClaimingAgain,
    /// It saw a lease that is over, of this epoch.
    TakingOver(u8),
    /// It saw an event that is used up, of this epoch.
    Exhausting(u8),
    Leased,
    /// The intent is written.
    Intended,
    Settling(Outcome),
    /// The settlement was applied, its answer lost, and the SDK tries again.
    SettlingAgain(St),
    Ringing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    Done,
    /// It happened, but another action of the event asks for a retry.
    DoneAndRetry,
    Not,
    /// It may have happened, and repeating it is safe.
    UnclearAndRetry,
    /// Nothing is known that the row does not say.
    Retry,
    Permanent,
    /// It may have happened, and repeating it is not safe.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    pub(super) phase: Phase,
    /// What the claim left in its hands.
    pub(super) id: u8,
    pub(super) epoch: u8,
    pub(super) attempts: u8,
    pub(super) generation: u8,
    pub(super) fx: Fx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sweep {
    Idle,
    /// The next look is noted.
    Ringing,
    Exhausting(u8),
}

/// What really happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// Outcomes of the run that the row is in.
    pub(super) outcomes: u8,
    /// Some run came to an end.
    pub(super) ended: bool,
    /// How often the effect of each generation happened.
    pub(super) happened: [u8; 2],
    /// A worker knew that it was to work on this run, or died or slept before it could know.
    pub(super) begun: bool,
    /// An effect may have happened without a known answer.
    pub(super) doubt: bool,
    pub(super) wrong: Option<Property>,
}

impl Row {
    pub(super) const NEW: Self = Self {
        st: St::Received,
        epoch: 0,
        owner: 0,
        lease_over: false,
        due: false,
        attempts: 0,
        crashes: 0,
        run: 0,
        generation: 0,
        fx: Fx::None,
        open: false,
    };

    pub(super) fn is_settled(&self) -> bool {
        matches!(self.st, St::Done | St::DeadLetter)
    }

    /// Moves on to a state that nobody holds.
    pub(super) fn released(self, st: St) -> Self {
        let open = !matches!(st, St::Done | St::DeadLetter);
        Self {
            st,
            owner: 0,
            lease_over: false,
            due: false,
            open,
            ..self
        }
    }
}

impl Worker {
    pub(super) const IDLE: Self = Self {
        phase: Phase::Idle,
        id: 0,
        epoch: 0,
        attempts: 0,
        generation: 0,
        fx: Fx::None,
    };
}

impl World {
    pub(super) fn start(deliveries: u8, replays: u8, lost_for_good: u8) -> Self {
        Self {
            deliveries,
            acked: false,
            catchers: [Catcher::Free; 2],
            row: None,
            bells: 0,
            workers: [Worker::IDLE; 2],
            sweep: Sweep::Idle,
            passed: false,
            replays,
            lost_for_good,
            ids: 0,
            key_forgotten: false,
            truth: Truth {
                outcomes: 0,
                ended: false,
                happened: [0; 2],
                begun: false,
                doubt: false,
                wrong: None,
            },
        }
    }

    /// This state with a change.
    #[must_use]
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn is_wrong(&mut self, property: Property) {
        self.truth.wrong.get_or_insert(property);
    }

    /// The row gets its outcome.
    pub(super) fn end(&mut self, row: Row, st: St) {
        self.row = Some(row.released(st));
        self.truth.outcomes = (self.truth.outcomes + 1).min(2);
        self.truth.ended = true;
        if st == St::DeadLetter && !self.truth.begun {
            self.is_wrong(Property::NoUnexecutedDeadLetter);
        }
    }
}
