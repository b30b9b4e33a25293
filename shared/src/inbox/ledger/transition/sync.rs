//! The changes of a sync's cursor.

use super::{Change, Fence, SYNC_FENCE, turn};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::item;

/// Takes the lease of the cursor, which one sync run holds at a time. Always records the start
/// time: the next run begins with the source that was served longest ago.
pub fn lease(owner: &str, now: UnixMillis, until: UnixMillis) -> Change {
    let mut change = turn("take the sync lease", owner, now, until);
    change.update = change.update.replacen("SET ", "SET srv = :srv, ", 1);
    change.with(":srv", item::ms(now))
}

/// All events of a page are in the ledger: the next run can continue after this page.
pub fn page(
    fence: Fence<'_>,
    page: &str,
    from: UnixMillis,
    started: UnixMillis,
    until: UnixMillis,
) -> Change {
    Change::new(
        "record a page of the sync",
        SYNC_FENCE,
        "SET page = :page, pfrom = :from, pstart = :started, lu = :lu",
    )
    .sync_fenced(fence)
    .with(":page", item::s(page))
    .with(":from", item::ms(from))
    .with(":started", item::ms(started))
    .with(":lu", item::ms(until))
}

/// The run is complete: its start time becomes the cursor, which never decreases.
pub fn advance(fence: Fence<'_>, cursor: UnixMillis, now: UnixMillis) -> Change {
    Change::new(
        "advance the sync cursor",
        &format!("{SYNC_FENCE} AND (attribute_not_exists(cur) OR cur <= :cur)"),
        "SET cur = :cur, last_ok = :now REMOVE page, pfrom, pstart, own, lu",
    )
    .sync_fenced(fence)
    .with(":cur", item::ms(cursor))
    .with(":now", item::ms(now))
}

/// The same, with the place in the provider's list from which the next run continues.
pub fn advance_to(fence: Fence<'_>, cursor: UnixMillis, mark: &str, now: UnixMillis) -> Change {
    Change::new(
        "advance the sync cursor",
        &format!("{SYNC_FENCE} AND (attribute_not_exists(cur) OR cur <= :cur)"),
        "SET cur = :cur, last_ok = :now, mk = :mark REMOVE page, pfrom, pstart, own, lu",
    )
    .sync_fenced(fence)
    .with(":cur", item::ms(cursor))
    .with(":mark", item::s(mark))
    .with(":now", item::ms(now))
}

/// The run stops before its end; the next run continues from there.
pub fn release(fence: Fence<'_>) -> Change {
    Change::new("release the sync lease", SYNC_FENCE, "REMOVE own, lu").sync_fenced(fence)
}

/// The run stops. Deletes its page and the place it started from.
pub fn restart(fence: Fence<'_>) -> Change {
    Change::new(
        "restart the sync",
        SYNC_FENCE,
        "REMOVE page, pfrom, pstart, mk, own, lu",
    )
    .sync_fenced(fence)
}
