//! The figures of a run.

/// The figures of a run. Most of them must be zero, and the others must be small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub events: u64,
    pub acknowledged: u64,
    pub done: u64,
    pub dead: u64,
    /// Events that were acknowledged but are not in the ledger.
    pub lost: u64,
    /// Events that are not settled at the end.
    pub stuck: u64,
    /// Second outcomes in one run, and outcomes that were revoked.
    pub double_outcomes: u64,
    /// Events that the destination carried out more than once.
    pub double_effects: u64,
    /// Events that are done in the ledger, but that the destination never carried out.
    pub hollow: u64,
    /// Dead letters without a cause at the destination and without a crash.
    pub unexplained: u64,
    /// Rows whose history does not match their state.
    pub bad_histories: u64,
    /// Events that were quarantined without a reason, as if they conflicted with another event.
    pub false_conflicts: u64,
    /// Attempts that began too early.
    pub early: u64,
    /// Entities whose version at the destination is not the newest at the end.
    pub stale: u64,
    /// Calls for an event before an older event of its entity that had arrived.
    pub inversions: u64,
    /// Rows that may run and were not caused by a genuine sender, or were caused a second time.
    pub forged: u64,
    /// Genuine requests that were rejected.
    pub refused: u64,
    /// Genuine requests that were rejected temporarily for longer than it takes to fetch a key.
    pub delayed: u64,
    /// Keys of genuine senders that were not fetched in time.
    pub unfetched: u64,
    /// Writes for workers that changed a row with a newer claim than theirs.
    pub stale_writes: u64,
    /// Calls of workers for held events without an approval.
    pub unapproved: u64,
    /// Events in another part of the index than their state says.
    pub misplaced: u64,
    /// Claims of a processor for events that wait for a worker or for a person.
    pub trespasses: u64,
    /// Messages left in the spill queue at the end.
    pub undrained: u64,
    /// Messages sent to either queue. A message moved from the backlog queue counts once.
    pub sent: u64,
    /// Sent messages that a processor moved to the backlog queue because they had waited too long.
    pub moved: u64,
    /// Messages that were sent to the spill queue.
    pub spilled: u64,
    /// Messages that were necessary.
    pub needed: u64,
    pub calls: u64,
}

impl Figures {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            acknowledged: self.acknowledged + other.acknowledged,
            done: self.done + other.done,
            dead: self.dead + other.dead,
            lost: self.lost + other.lost,
            stuck: self.stuck + other.stuck,
            double_outcomes: self.double_outcomes + other.double_outcomes,
            double_effects: self.double_effects + other.double_effects,
            hollow: self.hollow + other.hollow,
            unexplained: self.unexplained + other.unexplained,
            bad_histories: self.bad_histories + other.bad_histories,
            false_conflicts: self.false_conflicts + other.false_conflicts,
            early: self.early + other.early,
            stale: self.stale + other.stale,
            inversions: self.inversions + other.inversions,
            forged: self.forged + other.forged,
            refused: self.refused + other.refused,
            delayed: self.delayed + other.delayed,
            unfetched: self.unfetched + other.unfetched,
            stale_writes: self.stale_writes + other.stale_writes,
            unapproved: self.unapproved + other.unapproved,
            misplaced: self.misplaced + other.misplaced,
            trespasses: self.trespasses + other.trespasses,
            undrained: self.undrained + other.undrained,
            sent: self.sent + other.sent,
            moved: self.moved + other.moved,
            spilled: self.spilled + other.spilled,
            needed: self.needed + other.needed,
            calls: self.calls + other.calls,
        }
    }

    /// Returns the number of messages sent for each message needed.
    pub fn amplification(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio for display")]
        let ratio = self.sent as f64 / self.needed.max(1) as f64;
        ratio
    }
}
