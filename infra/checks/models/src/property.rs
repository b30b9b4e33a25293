//! The properties that must hold.

/// A guarantee of the system, or a rule on which a guarantee depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// An acknowledged event is durable: a row, a spilled request, or a recorded outcome.
    AckedIsKept,
    /// From every reachable state, the system reaches an outcome without outside help.
    EveryEventEnds,
    OneOutcomePerRun,
    /// Only the newest claim writes after its claim.
    NewestClaimWrites,
    /// Only its owner changes a row while the lease of the row is valid.
    LiveLeaseIsLeft,
    /// A logical effect happens at most once.
    OneEffectPerKey,
    /// A run ends as a dead letter only after a worker knows about the run.
    NoUnexecutedDeadLetter,
    /// The outcome "unknown" is recorded only if the effect may have happened.
    NoFalseDoubt,
    DoneMeansHappened,
    /// A write that needs a work message is followed by an attempt to send it.
    WriterRings,
    /// Every event of the provider can still be found.
    SyncFindsAll,
    /// When all events are settled, the destination has the newest state.
    NewestStateWins,
    /// An event of an entity is processed only after earlier events that have arrived.
    ArrivedInOrder,
    /// Two calls of one effect never overlap.
    CallsDoNotOverlap,
    AnsweredInTime,
    /// An event that is known to be durable is acknowledged.
    KeptIsAcked,
    /// A signed message runs once, and unchanged.
    OneEventPerSignature,
    /// The processor claims no event that waits for a worker or for an approval, and workers claim
    /// no other events.
    ClaimedByItsSide,
    /// An event that waits for a worker or for an approval is in the partition of the index that is
    /// read for it.
    WaitingIsListed,
    /// A call that a rule holds is made only as a person approved it, in the same run.
    ApprovedBeforeCall,
}

impl Property {
    pub const ALL: [Self; 20] = [
        Self::AckedIsKept,
        Self::EveryEventEnds,
        Self::OneOutcomePerRun,
        Self::NewestClaimWrites,
        Self::LiveLeaseIsLeft,
        Self::OneEffectPerKey,
        Self::NoUnexecutedDeadLetter,
        Self::NoFalseDoubt,
        Self::DoneMeansHappened,
        Self::WriterRings,
        Self::SyncFindsAll,
        Self::NewestStateWins,
        Self::ArrivedInOrder,
        Self::CallsDoNotOverlap,
        Self::AnsweredInTime,
        Self::KeptIsAcked,
        Self::OneEventPerSignature,
        Self::ClaimedByItsSide,
        Self::WaitingIsListed,
        Self::ApprovedBeforeCall,
    ];

    /// Describes the violation that a counterexample shows.
    pub fn broken(self) -> &'static str {
        match self {
            Self::AckedIsKept => "an acknowledged event is lost",
            Self::EveryEventEnds => "from this state, no outcome can be reached",
            Self::OneOutcomePerRun => "a run has a second outcome",
            Self::NewestClaimWrites => "an older claim has written",
            Self::LiveLeaseIsLeft => "a row under a live lease was changed by another worker",
            Self::OneEffectPerKey => "the effect has happened twice",
            Self::NoUnexecutedDeadLetter => "a dead letter was never executed",
            Self::NoFalseDoubt => "the outcome is unknown, but the effect cannot have happened",
            Self::DoneMeansHappened => "the event is done, but its effect has not happened",
            Self::WriterRings => "no message was sent for a row that was just written",
            Self::SyncFindsAll => "from this state, an event can never be found",
            Self::NewestStateWins => "all events are settled, but the destination has an old state",
            Self::ArrivedInOrder => "an event overtook an earlier one that had arrived",
            Self::CallsDoNotOverlap => "two calls of one effect overlap",
            Self::AnsweredInTime => "the sender waited too long",
            Self::KeptIsAcked => "a durable event was not acknowledged",
            Self::OneEventPerSignature => "a captured request runs as another event",
            Self::ClaimedByItsSide => {
                "the processor has claimed a parked event, or a worker another event"
            }
            Self::WaitingIsListed => "a waiting event is not in its partition of the index",
            Self::ApprovedBeforeCall => "a call was made that was not approved",
        }
    }
}
