//! The protections of the protocol, each of which can be switched off, and the size of a model.

/// A protection. Without it, a property is violated, or another protection prevents the violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The catcher sends 2xx only after the put.
    PutBeforeAck,
    PutBeforeRing,
    /// If a put is rejected because the same writer's put was applied before its answer was lost,
    /// the writer recognizes its own put.
    OwnPut,
    OwnClaim,
    OwnSettlement,
    /// The condition of the claim includes the state.
    ClaimAsksForState,
    /// Takeover and exhaustion wait until the lease has expired.
    OthersWaitForLease,
    LeaseRunsOut,
    /// The condition of writes after a claim includes the epoch.
    FenceByEpoch,
    /// The condition of writes after a claim includes the claim id.
    FenceByOwner,
    ReplayRaisesEpoch,
    AttemptsCountedAtClaim,
    CrashesCounted,
    AttemptsLimited,
    /// The worker makes an exhausted event a dead letter.
    WorkerExhausts,
    SweepExhausts,
    /// The condition of exhaustion includes the epoch that was read.
    ExhaustAsksForEpoch,
    Sweep,
    /// The sweep scans events by time of receipt and indexes the open ones. New rows are not in the
    /// index of open rows yet.
    SoughtByTime,
    /// The sweep scans a time only when all events received in it are visible.
    MarkStaysBehind,
    /// A claim keeps the row in the index of open rows.
    ClaimedRowIsSwept,
    /// The worker records the intent of an effect without a key before the call.
    Intent,
    IntentIsFenced,
    /// The state of the effect in the row decides whether the worker makes the call.
    KnownEffects,
    /// If an intent could not be recorded, the worker knows that it makes no call.
    FailedIntentIsKnown,
    /// All attempts use the same key.
    StableKey,
    /// The row is stored until the provider no longer redelivers the event.
    RowOutlivesRedelivery,
    /// A replay for a new effect ignores the effect under the old key.
    NewEffectForgetsOld,
}

/// The behaviour of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temper {
    /// The destination gives any answer.
    Any,
    AlwaysFails,
    /// The event crashes its worker.
    AlwaysCrashes,
}

/// Long-lived state that expires eventually.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expires {
    Nothing,
    /// The key at the destination.
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
    /// The number of messages in the queue. More messages change nothing.
    pub(super) bells: u8,
    pub(super) attempts: u8,
    pub(super) crashes: u8,
    pub(super) replays: u8,
    /// Whether a replay requests a new effect.
    pub(super) new_effect: bool,
    pub(super) keyed: bool,
    pub(super) temper: Temper,
    /// The number of lost answers for which the answers of all repetitions are lost too.
    pub(super) lost_for_good: u8,
    pub(super) expires: Expires,
}

impl Inbox {
    /// A configuration with two of each part and the parameters of the code.
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

    /// Returns a changed copy of this configuration.
    #[must_use]
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
