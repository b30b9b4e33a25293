//! What protects the protocol, each of which can be switched off, and how large a model is.

/// A rule of the protocol. Without it something breaks, or another rule makes up for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// 2xx only after the put.
    PutBeforeAck,
    PutBeforeRing,
    /// A refused put of the same writer is its own, applied before the answer was lost.
    OwnPut,
    OwnClaim,
    OwnSettlement,
    /// The claim asks for the state.
    ClaimAsksForState,
    /// Takeover and exhaustion wait until the lease is over.
    OthersWaitForLease,
    LeaseRunsOut,
    /// Writes after a claim ask for its epoch.
    FenceByEpoch,
    /// Writes after a claim ask for its claim id.
    FenceByOwner,
    ReplayRaisesEpoch,
    AttemptsCountedAtClaim,
    CrashesCounted,
    AttemptsLimited,
    /// A used-up event is a dead letter: by the worker that finds it so.
    WorkerExhausts,
    SweepExhausts,
    /// Exhaustion asks for the epoch that was read.
    ExhaustAsksForEpoch,
    Sweep,
    /// The sweep goes over what came in the order of time, and gives what is open its place in the
    /// index of open rows, where no new row is.
    SoughtByTime,
    /// It goes over a time only when all that came in it can be seen.
    MarkStaysBehind,
    /// A claim leaves the row in the index of open rows.
    ClaimedRowIsSwept,
    /// The intent of an effect without a key is written before the call.
    Intent,
    IntentIsFenced,
    /// What the row says of the effect decides about the call.
    KnownEffects,
    /// An intent that could not be written is known not to have been followed by a call.
    FailedIntentIsKnown,
    /// One key for all attempts.
    StableKey,
    /// The row is kept until no provider repeats the event any more.
    RowOutlivesRedelivery,
    /// A replay for a new effect forgets what happened under the old key.
    NewEffectForgetsOld,
}

/// What the destination does with the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temper {
    /// Every answer there is.
    Any,
    AlwaysFails,
    /// The event kills its worker.
    AlwaysCrashes,
}

/// What is remembered for a long time, and is forgotten in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expires {
    Nothing,
    /// The key, at the destination.
    Key,
    /// The settled row.
    Row,
}

/// A configuration of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbox {
    pub(super) off: &'static [Rule],
    pub(super) deliveries: u8,
    pub(super) catchers: usize,
    pub(super) workers: usize,
    /// Doorbells in the queue; one more changes nothing.
    pub(super) bells: u8,
    pub(super) attempts: u8,
    pub(super) crashes: u8,
    pub(super) replays: u8,
    /// Whether a replay asks for a new effect.
    pub(super) new_effect: bool,
    pub(super) keyed: bool,
    pub(super) temper: Temper,
    /// How many answers may be lost so that no repetition learns of them either.
    pub(super) lost_for_good: u8,
    pub(super) expires: Expires,
}

impl Inbox {
    /// Two of everything, as the code has it.
    pub(super) const PLAN: Self = Self {
        off: &[],
        deliveries: 2,
        catchers: 1,
        workers: 2,
        bells: 1,
        attempts: 2,
        crashes: 2,
        replays: 0,
        new_effect: false,
        keyed: true,
        temper: Temper::Any,
        lost_for_good: 0,
        expires: Expires::Nothing,
    };

    pub(super) fn has(&self, rule: Rule) -> bool {
        !self.off.contains(&rule)
    }

    #[must_use]
    pub(super) const fn without(self, off: &'static [Rule]) -> Self {
        Self { off, ..self }
    }

    /// This configuration with a change.
    #[must_use]
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
