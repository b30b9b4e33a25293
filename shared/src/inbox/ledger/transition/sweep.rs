//! The changes of the sweep: when it checks an open row again, and its own lease.

use std::time::Duration;

use super::Change;
use crate::base::clock::UnixMillis;
use crate::base::timing::CLOCK_MARGIN;
use crate::inbox::ledger::{State, item};

/// Records that the sweep is about to send a message for an open row.
pub fn send(seen: UnixMillis, next: UnixMillis, now: UnixMillis) -> Change {
    Change::new(
        "record a message from the sweep",
        // Only a row in `processing` has a lease.
        "gsk = :seen AND (st IN (:received, :failed) OR lu < :over)",
        "SET gsk = :next, enq = :now ADD enq_n :one",
    )
    .states(&[State::Received, State::Failed])
    .with(":seen", item::ms(seen))
    .with(":over", item::ms(now - CLOCK_MARGIN))
    .with(":next", item::ms(next))
    .with(":now", item::ms(now))
    .with(":one", item::n(1))
}

/// Postpones the check of a row with a valid lease until after the lease ends.
pub fn wait(seen: UnixMillis, next: UnixMillis) -> Change {
    Change::new(
        "postpone a check of the sweep",
        // Each change that ends the attempt sets another `gsk`, or removes it.
        "gsk = :seen",
        "SET gsk = :next",
    )
    .with(":seen", item::ms(seen))
    .with(":next", item::ms(next))
}

/// Postpones the check of an open row to `next`, because all its destinations are failing.
pub fn skip(seen: UnixMillis, next: UnixMillis) -> Change {
    Change::new(
        "postpone a check of the sweep",
        "gsk = :seen AND st IN (:received, :failed)",
        "SET gsk = :next",
    )
    .states(&[State::Received, State::Failed])
    .with(":seen", item::ms(seen))
    .with(":next", item::ms(next))
}

/// Takes the lease if it is free, has expired or belongs to the caller. A lease that ends later
/// than any correct lease was written with a wrong clock. Such a lease must not block all sweeps
/// until its end.
pub fn lease(owner: &str, now: UnixMillis, until: UnixMillis) -> Change {
    Change::new(
        "take the lease of the sweep",
        "attribute_not_exists(lu) OR own = :own OR lu < :over OR lu > :wrong",
        "SET own = :own, lu = :lu",
    )
    .with(":over", item::ms(now - CLOCK_MARGIN))
    .with(":wrong", item::ms(until + LONGEST_SKEW))
    .with(":own", item::s(owner))
    .with(":lu", item::ms(until))
}

/// The largest accepted clock error. A larger error counts as a wrong clock.
const LONGEST_SKEW: Duration = Duration::from_secs(600);

/// Releases the lease, if the caller still holds it.
pub fn release(owner: &str) -> Change {
    let what = "release the lease of the sweep";
    Change::new(what, "own = :own", "REMOVE own, lu").with(":own", item::s(owner))
}
