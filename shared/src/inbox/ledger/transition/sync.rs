//! The changes of a sync's cursor.

use super::{Change, Fence, SYNC_FENCE, turn};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::item;

/// Takes the lease of the cursor, which one sync run holds at a time. The change always records the
/// start time, because the next run begins with the source that was synced longest ago.
pub fn lease(owner: &str, now: UnixMillis, until: UnixMillis) -> Change {
    let mut change = turn("take the sync lease", owner, now, until);
    change.update = change.update.replacen("SET ", "SET srv = :srv, ", 1);
    change.with(":srv", item::ms(now))
}

/// Stores the next page of a run. All events of the earlier pages are in the ledger, so the next
/// run can continue from there.
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

/// Ends a complete run. The start time of the run becomes the cursor, which never decreases.
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

/// Like `advance`, but also stores the place in the provider's list from which the next run
/// continues.
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

/// Ends a run before its last page. The next run continues from the stored page.
pub fn release(fence: Fence<'_>) -> Change {
    Change::new("release the sync lease", SYNC_FENCE, "REMOVE own, lu").sync_fenced(fence)
}

/// Ends a run, and deletes its page and its place in the provider's list.
pub fn restart(fence: Fence<'_>) -> Change {
    Change::new(
        "restart the sync",
        SYNC_FENCE,
        "REMOVE page, pfrom, pstart, mk, own, lu",
    )
    .sync_fenced(fence)
}
