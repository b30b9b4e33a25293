//! Every change of what is noted of an entity's order, and the one of a row that waits for it.

use super::{Change, Fence, SYNC_FENCE};
use crate::base::clock::UnixMillis;
use crate::base::timing::{CLOCK_MARGIN, KEEP_ORDER};
use crate::inbox::ledger::{State, item};
use crate::sources::ordering::Version;

/// Why an event was put off that waits for another one of its entity. A row that says so may be
/// called up.
pub const WAITS: &str = "it waits for another event of its entity";

/// Free, or its lease over → held. The epoch grows, as that of a row.
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

/// Held by us → free.
pub fn unlock(fence: Fence<'_>) -> Change {
    Change::new("unlock an entity", SYNC_FENCE, "REMOVE own, lu").sync_fenced(fence)
}

/// The guard: the newest version that was worked on, which never goes back. It says nothing of
/// the lock, because what a worker without one can do to it is harmless: name an event that is
/// newer, and open.
pub fn advance_version(version: &Version, event: &str, now: UnixMillis) -> Change {
    Change::new(
        "note the version of an entity",
        "attribute_not_exists(ver) OR ver <= :ver",
        "SET ver = :ver, was = :was, ek = :ek, #ttl = :ttl",
    )
    .with(":ver", item::s(version.sorted()))
    .with(":was", item::s(&version.written))
    .with(":ek", item::s(event))
    .kept(now)
}

/// failed, because it waits → failed, and due now.
pub fn wake(now: UnixMillis) -> Change {
    Change::new(
        "call an event up",
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
