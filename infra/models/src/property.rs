//! What must hold, in words.

/// A promise of the system, or a rule that its promises rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// An acknowledged event is durable: a row, a spilled request, or a recorded end.
    AckedIsKept,
    /// From every reachable state the system reaches an outcome by what it does by itself.
    EveryEventEnds,
    OneOutcomePerRun,
    /// A write after a claim is made by the newest claim.
    NewestClaimWrites,
    /// A row under a live lease is changed by nobody but its owner.
    LiveLeaseIsLeft,
    /// A logical effect happens at most once.
    OneEffectPerKey,
    /// A run is not given up before a worker knew that it was to work on it.
    NoUnexecutedDeadLetter,
    /// "Outcome unknown" is said only where something may have happened.
    NoFalseDoubt,
    DoneMeansHappened,
    /// Who writes what needs a doorbell tries to ring.
    WriterRings,
    /// Every event of the provider can still be found.
    SyncFindsAll,
    /// When all is settled, the destination has the newest state.
    NewestStateWins,
    /// No event of an entity is worked on before an earlier one that has arrived.
    ArrivedInOrder,
    /// Two calls of one effect are never under way together.
    CallsDoNotOverlap,
    AnsweredInTime,
    /// What is known to be durable is acknowledged.
    KeptIsAcked,
    /// What was signed once runs once, and as it was signed.
    OneEventPerSignature,
}

impl Property {
    pub const ALL: [Self; 17] = [
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
    ];

    /// What a counterexample shows.
    pub fn broken(self) -> &'static str {
        match self {
            Self::AckedIsKept => "an acknowledged event is lost",
            Self::EveryEventEnds => "from here no outcome can be reached any more",
            Self::OneOutcomePerRun => "a run has a second outcome",
            Self::NewestClaimWrites => "an older claim has written",
            Self::LiveLeaseIsLeft => "a row under a live lease was changed by somebody else",
            Self::OneEffectPerKey => "the effect has happened twice",
            Self::NoUnexecutedDeadLetter => "a dead letter was never executed",
            Self::NoFalseDoubt => "its outcome is called unknown, and nothing can have happened",
            Self::DoneMeansHappened => "it is done, and its effect has not happened",
            Self::WriterRings => "nobody rang for what was just written",
            Self::SyncFindsAll => "from here an event can never be found any more",
            Self::NewestStateWins => "all is settled, and the destination has an old state",
            Self::ArrivedInOrder => "an event overtook an earlier one that had arrived",
            Self::CallsDoNotOverlap => "two calls of one effect are under way",
            Self::AnsweredInTime => "the sender waited for too long",
            Self::KeptIsAcked => "a durable event was not acknowledged",
            Self::OneEventPerSignature => "a captured request runs as another event",
        }
    }
}
