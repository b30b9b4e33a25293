//! The changes of an event that waits for a worker outside of Lambda, or that such a worker holds.
//!
//! The worker's other changes are those of the processor. They keep the event in its part of the
//! `work` index, because its row has `pul`, the name of its queue.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Change, Effects, FENCE, Fence};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{
    EffectLease, EffectRow, EffectState, PARKED_SCHEMA, Row, SCHEMA, State, item,
};
use crate::webhook::event::EventKey;

/// The word for a parked event in the history.
pub const PARKED: &str = "parked";

/// How long after the end of a lease the event appears in its part of the `work` index again.
pub const AFTER_LEASE: Duration = Duration::from_secs(10);

/// The condition that keeps the processor from an event that waits for a worker.
pub(super) const NOT_PULLED: &str = "attribute_not_exists(pul)";

/// Returns the part of the `work` index for the events of a source that wait for a worker. The
/// time of an entry is the time from which a worker can take the event.
pub fn pull_partition(key: &EventKey) -> String {
    pull_partition_of(key.source())
}

/// Like [`pull_partition`], for all events of a source.
pub fn pull_partition_of(source: &str) -> String {
    format!("P#{source}")
}

/// Moves an event from `processing` to `received`, where it waits for a worker of `queue`. The
/// attempts and the crashes of the actions end here. Those of the workers begin at zero.
pub fn park(
    fence: Fence<'_>,
    row: &Row,
    queue: &str,
    effects: Effects<'_>,
    now: UnixMillis,
) -> Change {
    Change::new(
        "park an event",
        FENCE,
        // Releases that do not know `pul` must not claim the event, so the row has a version that
        // they refuse.
        "SET st = :received, pul = :queue, sv = :sv, gpk = :gpk, gsk = :now, att = :zero, cr = :zero, \
         h = :h{fx} REMOVE own, lu, due, enq_n, off ADD died :died",
    )
    .fenced(fence)
    .states(&[State::Received])
    .with(":queue", item::s(queue))
    .with(":sv", item::n(PARKED_SCHEMA))
    .with(":gpk", item::s(pull_partition(&row.key)))
    .with(":now", item::ms(now))
    .with(":zero", item::n(0))
    .with(":died", item::n(row.crashes))
    .history(row, PARKED, queue, now)
    .effects(effects)
}

/// Moves an event that waits for a worker and is available to `processing`. The source decides which
/// queue its events are in, so events that waited before the queue got another name also get it.
pub fn claim(
    queue: &str,
    owner: &str,
    now: UnixMillis,
    until: UnixMillis,
    attempts: u32,
) -> Change {
    let mut change = super::claim(owner, now, until, attempts);
    change.condition = change
        .condition
        .replace(NOT_PULLED, "attribute_exists(pul)");
    change.update = change
        .update
        .replace("own = :own", "own = :own, pul = :queue");
    change.with(":queue", item::s(queue)).by_worker(until)
}

/// Gives an event to another worker, after the lease of its worker has expired. The caller has read
/// the queue of the event, which does not change under the same epoch.
pub fn take_over(
    seen: u64,
    owner: &str,
    now: UnixMillis,
    until: UnixMillis,
    attempts: u32,
) -> Change {
    super::take_over(seen, owner, now, until, attempts).by_worker(until)
}

/// Extends the lease of a worker, unless it has expired. A call of an effect that began under this
/// lease may now also end later, so its record gets the new end.
pub fn extend(fence: Fence<'_>, row: &Row, now: UnixMillis, until: UnixMillis) -> Change {
    let mut change = super::renew(fence, now, until).returning_after(until);
    let lease = EffectLease {
        epoch: fence.epoch,
        until,
    };
    for (index, name) in open_effects(row).enumerate() {
        // Only this part of the record is written: a request that ends the effect can come between
        // the read of the row and this write.
        let _ = write!(change.update, ", fx.#fx{index}.l = :fx_lease");
        change = change
            .named(&format!("#fx{index}"), name)
            .with(":fx_lease", item::s(lease.written()));
    }
    change
}

/// Returns the names of the effects that began under the current lease and have not ended.
fn open_effects(row: &Row) -> impl Iterator<Item = &str> {
    row.effects.iter().filter_map(|(name, effect)| {
        let lease = effect.lease.filter(|lease| lease.epoch == row.epoch);
        let is_open = effect.state == EffectState::Intent && lease.is_some();
        is_open.then_some(name.as_str())
    })
}

/// Records what became of an effect.
pub fn end_effect(fence: Fence<'_>, name: &str, effect: &EffectRow) -> Change {
    Change::new("record the end of an effect", FENCE, "SET fx.#n = :fx")
        .fenced(fence)
        .with(":fx", effect.write())
        .named("#n", name)
}

impl Change {
    /// Makes a claim of the processor a claim of a worker outside of Lambda.
    fn by_worker(self, until: UnixMillis) -> Self {
        self.with(":sv", item::n(PARKED_SCHEMA))
            .returning_after(until)
    }

    /// Sets the time at which the event appears in the index again, if the worker does not return.
    fn returning_after(mut self, until: UnixMillis) -> Self {
        self.update = self.update.replace("lu = :lu", "lu = :lu, gsk = :look");
        self.with(":look", item::ms(until + AFTER_LEASE))
    }

    /// Completes a change after which no worker can claim the event. The row gets the version that
    /// every release processes.
    pub(super) fn leaves_queue(mut self, row: &Row) -> Self {
        if row.pull.is_none() {
            return self;
        }
        // The end of a hold sets the version too.
        let version = if self.update.contains("sv = :sv") {
            ""
        } else {
            ", sv = :sv"
        };
        let leaves = format!("{version} REMOVE pul, ");
        self.update = self.update.replacen(" REMOVE ", &leaves, 1);
        self.with(":sv", item::n(SCHEMA))
    }
}
