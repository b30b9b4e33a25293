//! Updates that set or clear an operator flag, such as the pause of a source, and the update that
//! makes the next sweep check a waiting event.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::operator_flag::OperatorFlag;
use crate::inbox::ledger::{SCHEMA, State, item};

/// Sets a flag that is not set. An existing flag is not replaced, because only the operator who set
/// it knows its reason.
pub fn set(flag: &OperatorFlag) -> Change {
    Change::new(
        "set an operator flag",
        "attribute_not_exists(nid)",
        "SET sv = :sv, nid = :nid, who = :who, why = :why, #at = :at, doc = :doc",
    )
    .named("#at", "at")
    .with(":sv", item::n(SCHEMA))
    .with(":nid", item::s(&flag.id))
    .with(":who", item::s(&flag.who))
    .with(":why", item::s(&flag.why))
    .with(":at", item::ms(flag.at))
    .with(":doc", item::s(&flag.doc))
}

/// Clears a flag, if it is still the flag that was read.
pub fn clear(id: &str) -> Change {
    Change::new(
        "clear an operator flag",
        "nid = :nid",
        "REMOVE nid, who, why, #at, doc",
    )
    .named("#at", "at")
    .with(":nid", item::s(id))
}

/// Makes the next sweep check an open row that is due and that no worker holds.
pub fn look_now(seen: UnixMillis, now: UnixMillis) -> Change {
    Change::new(
        "wake an event",
        // If a sweep has sent a message since the row was read, `gsk` has changed.
        "gsk = :seen AND (st = :received OR (st = :failed AND due <= :now))",
        "SET gsk = :now",
    )
    .states(&[State::Received, State::Failed])
    .with(":seen", item::ms(seen))
    .with(":now", item::ms(now))
}
