//! The protections of the protocol, each of which can be switched off, and the size of a model.

/// A protection. Without it, a property is violated, or another protection prevents the violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The condition of the processor's claim refuses a parked event.
    ProcessorLeavesParked,
    /// The condition of the processor's takeover includes the epoch that was read.
    ProcessorAsksForEpoch,
    /// The condition of a worker's takeover includes the epoch that was read.
    TakeoverAsksForEpoch,
    /// The condition of a worker's takeover includes the end of the lease.
    TakeoverWaitsForLease,
    /// The condition of a worker's claim refuses a held event.
    ClaimLeavesHeld,
    /// The condition of writes after a claim includes the epoch and the owner.
    Fence,
    /// Parking writes the sort key of the index.
    ParkWritesSortKey,
    /// The intent is written before the call.
    Intent,
    /// A search without result counts only when no call of the earlier lease can still be under way.
    SearchWaits,
    /// That time counts at the beginning of the search, and not when the worker reports its result.
    SearchIsDated,
    /// The worker makes the call only under its lease.
    CallNeedsLease,
    /// The lease of a call is the one of its intent, without later extensions.
    CallNeedsLeaseOfIntent,
    /// The worker makes the call at the moment in which it looks at the clock.
    LookAndCallAreOne,
    /// An approval counts only for the plan that was shown.
    ApprovalNamesPlan,
    /// The condition of an approval includes the epoch that was shown.
    ApprovalAsksForEpoch,
    /// The condition of an approval includes the id of the hold that was shown.
    ApprovalAsksForHold,
    /// A hold ends the lease.
    HoldEndsLease,
    /// A replay removes the approval.
    ReplayForgetsApproval,
}

/// What the worker does when an earlier attempt may have made the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InDoubt {
    /// It searches the destination.
    Asks,
    /// It leaves the event to an operator.
    Stops,
}

/// A configuration of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agents {
    pub(super) off: &'static [Rule],
    pub(super) processors: usize,
    pub(super) workers: usize,
    /// The number of messages in the queue. More messages change nothing.
    pub(super) messages: u8,
    /// The number of attempts of the processor, and then of the workers.
    pub(super) attempts: u8,
    /// The number of holds in a run. The next one makes the event a dead letter.
    pub(super) holds: u8,
    pub(super) replays: u8,
    pub(super) in_doubt: InDoubt,
    /// Whether workers extend their leases. An extension can arrive after the lease has ended.
    pub(super) extends: bool,
}

impl Agents {
    /// A configuration without rules that hold the effect.
    pub(super) const PULL: Self = Self {
        off: &[],
        processors: 1,
        workers: 2,
        messages: 1,
        attempts: 2,
        holds: 0,
        replays: 1,
        in_doubt: InDoubt::Asks,
        extends: false,
    };

    /// A configuration with a rule that holds the effect.
    pub(super) const HOLD: Self = Self {
        holds: 2,
        workers: 1,
        ..Self::PULL
    };

    pub(super) fn has(&self, rule: Rule) -> bool {
        !self.off.contains(&rule)
    }

    /// Returns whether a rule holds the effect until a person approves it.
    pub(super) fn is_held(&self) -> bool {
        self.holds > 0
    }

    #[must_use]
    pub(super) const fn without(self, off: &'static [Rule]) -> Self {
        Self { off, ..self }
    }
}
