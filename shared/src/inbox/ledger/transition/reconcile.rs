//! Every change of the records of a reconciliation.

use super::{Change, Fence, SYNC_FENCE, turn};
use crate::base::clock::UnixMillis;
use crate::base::timing::CLOCK_MARGIN;
use crate::inbox::ledger::item;

/// Takes the lease if it is free or has expired. The epoch increases, as in a state row.
pub fn lease(owner: &str, now: UnixMillis, until: UnixMillis) -> Change {
    turn("take the lease of a reconciliation", owner, now, until)
}

/// Releases the lease, if the caller still holds it.
pub fn release(fence: Fence<'_>) -> Change {
    Change::new(
        "release the lease of a reconciliation",
        SYNC_FENCE,
        "REMOVE own, lu",
    )
    .sync_fenced(fence)
}

/// Records the state of a repair in its report. The report must still exist.
pub fn repair(repair: &str) -> Change {
    Change::new(
        "record a repair in its report",
        "attribute_exists(pk)",
        "SET repair = :repair",
    )
    .with(":repair", item::s(repair))
}

/// Moves the cursor of a sync back to an earlier time, if no run holds the lease. Also deletes the
/// place where a run stopped.
pub fn rewind(before: UnixMillis, now: UnixMillis) -> Change {
    Change::new(
        "rewind the sync cursor",
        "cur > :cur AND (attribute_not_exists(lu) OR lu < :over)",
        "SET cur = :cur REMOVE page, pfrom, pstart, mk",
    )
    .with(":cur", item::ms(before))
    .with(":over", item::ms(now - CLOCK_MARGIN))
}
