//! The changes of a sync's cursor.

use super::{Change, Fence, SYNC_FENCE, turn};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::item;

/// One sync run at a time holds the cursor. When it began is noted whatever becomes of it: the source
/// served longest ago comes first in the next run.
pub fn lease(owner: &str, now: UnixMillis, until: UnixMillis) -> Change {
    let mut change = turn("take the sync lease", owner, now, until);
    change.update = change.update.replacen("SET ", "SET srv = :srv, ", 1);
    change.with(":srv", item::ms(now))
}

/// All events of a page are in the ledger: the next run may go on behind it.
pub fn page(
    fence: Fence<'_>,
    page: &str,
    from: UnixMillis,
    started: UnixMillis,
    until: UnixMillis,
) -> Change {
    Change::new(
        "note a page of the sync",
        SYNC_FENCE,
        "SET page = :page, pfrom = :from, pstart = :started, lu = :lu",
    )
    .sync_fenced(fence)
    .with(":page", item::s(page))
    .with(":from", item::ms(from))
    .with(":started", item::ms(started))
    .with(":lu", item::ms(until))
}

/// The run is complete: its start becomes the cursor, which never goes back.
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

/// The same, with the place in the provider's list that the next run goes on from.
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

/// The run stops before its end; the next one goes on where it was.
pub fn release(fence: Fence<'_>) -> Change {
    Change::new("release the sync lease", SYNC_FENCE, "REMOVE own, lu").sync_fenced(fence)
}

/// The run stops, and where it was is forgotten, with the place that it went on from.
pub fn restart(fence: Fence<'_>) -> Change {
    Change::new(
        "restart the sync",
        SYNC_FENCE,
        "REMOVE page, pfrom, pstart, mk, own, lu",
    )
    .sync_fenced(fence)
}
