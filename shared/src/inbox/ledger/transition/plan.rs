//! Every change of a replay plan: its lease, its progress and its end.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Change, Fence, SYNC_FENCE};
use crate::base::clock::UnixMillis;
use crate::base::timing::CLOCK_MARGIN;
use crate::inbox::ledger::item;

/// Takes the lease of a plan that is running, or planned and not expired. No other valid lease may
/// exist. The epoch increases, as in a state row, and the run is added to the plan.
pub fn begin(owner: &str, run: AttributeValue, now: UnixMillis, until: UnixMillis) -> Change {
    Change::new(
        "take the lease of a replay",
        "(st = :running OR (st = :planned AND good > :now)) AND (attribute_not_exists(lu) OR lu < :over)",
        "SET st = :running, own = :own, lu = :lu, runs = list_append(if_not_exists(runs, :none), :run) \
         ADD epoch :one",
    )
    .with(":planned", item::s("planned"))
    .with(":running", item::s("running"))
    .with(":now", item::ms(now))
    .with(":over", item::ms(now - CLOCK_MARGIN))
    .with(":own", item::s(owner))
    .with(":lu", item::ms(until))
    .with(":none", AttributeValue::L(Vec::new()))
    .with(":run", AttributeValue::L(vec![run]))
    .with(":one", item::n(1))
}

/// Renews the lease and stores the progress. DynamoDB refuses the change if an operator has
/// cancelled the replay.
pub fn checkpoint(fence: Fence<'_>, next: usize, until: UnixMillis) -> Change {
    Change::new(
        "store the progress of a replay",
        &format!("st = :running AND {SYNC_FENCE}"),
        "SET #next = :next, lu = :lu",
    )
    .sync_fenced(fence)
    .named("#next", "next")
    .with(":running", item::s("running"))
    .with(":next", item::n(next))
    .with(":lu", item::ms(until))
}

/// Releases the lease, so that a later run can continue. `place` is the index of the run in the
/// plan.
pub fn pause(fence: Fence<'_>, next: usize, place: usize, run: AttributeValue) -> Change {
    Change::new(
        "end a run of a replay",
        SYNC_FENCE,
        &format!("SET #next = :next, runs[{place}] = :run REMOVE own, lu"),
    )
    .sync_fenced(fence)
    .named("#next", "next")
    .with(":next", item::n(next))
    .with(":run", run)
}

/// Finishes a plan in which each event is queued or left out.
pub fn finish(
    fence: Fence<'_>,
    next: usize,
    place: usize,
    run: AttributeValue,
    outcome: &str,
    now: UnixMillis,
) -> Change {
    Change::new(
        "finish a replay",
        &format!("st = :running AND {SYNC_FENCE}"),
        &format!(
            "SET st = :finished, #next = :next, runs[{place}] = :run, #out = :out, ended = :now REMOVE own, lu"
        ),
    )
    .sync_fenced(fence)
    .named("#next", "next")
    .named("#out", "out")
    .with(":running", item::s("running"))
    .with(":finished", item::s("finished"))
    .with(":next", item::n(next))
    .with(":run", run)
    .with(":out", item::s(outcome))
    .with(":now", item::ms(now))
}

/// Cancels a planned or running replay. A running replay stops at its next checkpoint.
pub fn cancel(who: &str, now: UnixMillis) -> Change {
    Change::new(
        "cancel a replay",
        "st IN (:planned, :running)",
        "SET st = :cancelled, cby = :who, ended = :now",
    )
    .with(":planned", item::s("planned"))
    .with(":running", item::s("running"))
    .with(":cancelled", item::s("cancelled"))
    .with(":who", item::s(who))
    .with(":now", item::ms(now))
}
