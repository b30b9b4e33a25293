//! Every change of an entity's order record, and the change of a row that waits for its turn.

use super::{Change, Fence, SYNC_FENCE};
use crate::base::clock::UnixMillis;
use crate::base::timing::{CLOCK_MARGIN, KEEP_ORDER};
use crate::inbox::ledger::{State, item};
use crate::sources::ordering::Version;

/// The reason for a deferral that another event of the same entity causes. [`wake`] compares stored
/// rows with this text, so it must not change.
pub const WAITS: &str = "it waits for another event of its entity";

/// Takes the lock of an entity if it is free or has expired. Each lock increases the
/// epoch, as each claim does in a state row.
pub fn lock(owner: &str, now: UnixMillis, until: UnixMillis) -> Change {
    Change::new(
        "lock an entity",
        "attribute_not_exists(lu) OR lu < :over",
        "SET own = :own, lu = :lu, #ttl = :ttl ADD epoch :one",
    )
    .with(":over", item::ms(now - CLOCK_MARGIN))
    .with(":own", item::s(owner))
    .with(":lu", item::ms(until))
    .with(":one", item::n(1))
    .kept(now)
}

/// Releases the lock of an entity, if the caller still holds it.
pub fn unlock(fence: Fence<'_>) -> Change {
    Change::new("unlock an entity", SYNC_FENCE, "REMOVE own, lu").sync_fenced(fence)
}

/// Records the newest processed version, which never decreases. The condition does not include the
/// lock, because a worker without the lock can do no harm. Such a worker can only record a newer
/// version of an open event.
pub fn advance_version(version: &Version, event: &str, now: UnixMillis) -> Change {
    Change::new(
        "record the version of an entity",
        "attribute_not_exists(ver) OR ver <= :ver",
        "SET ver = :ver, was = :was, ek = :ek, #ttl = :ttl",
    )
    .with(":ver", item::s(version.sorted()))
    .with(":was", item::s(&version.written))
    .with(":ek", item::s(event))
    .kept(now)
}

/// Makes an event due now, if it is failed and waits for its turn.
pub fn wake(now: UnixMillis) -> Change {
    Change::new(
        "wake an event",
        "st = :failed AND due > :now AND err = :waits",
        "SET due = :now, gsk = :now",
    )
    .states(&[State::Failed])
    .with(":now", item::ms(now))
    .with(":waits", item::s(WAITS))
}

impl Change {
    fn kept(self, now: UnixMillis) -> Self {
        self.with(":ttl", item::n((now + KEEP_ORDER).secs()))
            .named("#ttl", "ttl")
    }
}
