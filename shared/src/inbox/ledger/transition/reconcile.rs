//! Every change of what is noted of a comparison of the provider's objects with ours.

use super::{Change, Fence, SYNC_FENCE, turn};
use crate::base::clock::UnixMillis;
use crate::base::timing::CLOCK_MARGIN;
use crate::inbox::ledger::item;

/// Free, or its lease over → held. The epoch grows, as that of a row.
pub fn lease(owner: &str, now: UnixMillis, until: UnixMillis) -> Change {
    turn("take the lease of a reconcile", owner, now, until)
}

/// Held by us → free.
pub fn release(fence: Fence<'_>) -> Change {
    Change::new(
        "release the lease of a reconcile",
        SYNC_FENCE,
        "REMOVE own, lu",
    )
    .sync_fenced(fence)
}

/// Notes of a report that it is repaired, or was. It has to be there still.
pub fn repair(repair: &str) -> Change {
    Change::new(
        "note a repair in its report",
        "attribute_exists(pk)",
        "SET repair = :repair",
    )
    .with(":repair", item::s(repair))
}

/// The cursor of a sync, while no run is at it: back to an earlier time, and where a run stopped
/// is forgotten.
pub fn rewind(before: UnixMillis, now: UnixMillis) -> Change {
    Change::new(
        "send a sync back",
        "cur > :cur AND (attribute_not_exists(lu) OR lu < :over)",
        "SET cur = :cur REMOVE page, pfrom, pstart, mk",
    )
    .with(":cur", item::ms(before))
    .with(":over", item::ms(now - CLOCK_MARGIN))
}
