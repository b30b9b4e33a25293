//! A state of the model: provider, catchers, row, queue, workers and sweep. It also contains the
//! real effects, which no part of the system can observe.

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
    /// Whether the sweep has scanned the event's time of receipt.
    pub(super) passed: bool,
    pub(super) replays: u8,
    pub(super) lost_for_good: u8,
    /// The number of claim ids given so far.
    pub(super) ids: u8,
    /// Whether the destination has forgotten the key.
    pub(super) key_forgotten: bool,
    pub(super) truth: Truth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Catcher {
    Free,
    Putting,
    /// The put was applied, its answer was lost, and the SDK retries.
    PuttingAgain,
    Ringing,
    Answering,
    /// The catcher answers or sends the message before the put. This needs the protection off.
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
    /// The id of the claim that holds the row, or 0 if none does.
    pub(super) owner: u8,
    pub(super) lease_over: bool,
    pub(super) due: bool,
    pub(super) attempts: u8,
    pub(super) crashes: u8,
    pub(super) run: u8,
    pub(super) generation: u8,
    pub(super) fx: Fx,
    /// Whether the row is in the index of open rows.
    pub(super) open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Heard,
    /// The claim was applied, its answer was lost, and the SDK retries.
    ClaimingAgain,
    /// The worker found an expired lease of this epoch.
    TakingOver(u8),
    /// The worker found an exhausted event of this epoch.
    Exhausting(u8),
    Leased,
    /// The intent is recorded.
    Intended,
    Settling(Outcome),
    /// The settlement was applied, its answer was lost, and the SDK retries.
    SettlingAgain(St),
    Ringing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    Done,
    /// The effect happened, but another action of the event requests a retry.
    DoneAndRetry,
    Not,
    /// The effect may have happened, and repeating it is safe.
    UnclearAndRetry,
    /// Nothing is known beyond the row.
    Retry,
    Permanent,
    /// The effect may have happened, and repeating it is not safe.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    pub(super) phase: Phase,
    /// The values that the claim returned.
    pub(super) id: u8,
    pub(super) epoch: u8,
    pub(super) attempts: u8,
    pub(super) generation: u8,
    pub(super) fx: Fx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sweep {
    Idle,
    /// The next check is recorded.
    Ringing,
    Exhausting(u8),
}

/// The real effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// The number of outcomes in the current run.
    pub(super) outcomes: u8,
    /// Whether a run has ended.
    pub(super) ended: bool,
    /// The number of times that the effect of each generation happened.
    pub(super) happened: [u8; 2],
    /// Whether a worker knew that it processes this run, or crashed or paused before it could know.
    pub(super) begun: bool,
    /// Whether an effect may have happened without a known answer.
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

    /// Returns the row with a state and without a holder.
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

    /// Returns a changed copy of this state.
    #[must_use]
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn is_wrong(&mut self, property: Property) {
        self.truth.wrong.get_or_insert(property);
    }

    /// Gives the row its outcome.
    pub(super) fn end(&mut self, row: Row, st: St) {
        self.row = Some(row.released(st));
        self.truth.outcomes = (self.truth.outcomes + 1).min(2);
        self.truth.ended = true;
        if st == St::DeadLetter && !self.truth.begun {
            self.is_wrong(Property::NoUnexecutedDeadLetter);
        }
    }
}
