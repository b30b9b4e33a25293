//! Every change of an operator flag, and the change of a row that waited because of the flag.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::operator_flag::OperatorFlag;
use crate::inbox::ledger::{SCHEMA, State, item};

/// Not set → set. A flag that is set is not replaced: only the operator who set it knows its
/// reason.
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

/// Set → not set, if the flag is still the one that was read.
pub fn clear(id: &str) -> Change {
    Change::new(
        "clear an operator flag",
        "nid = :nid",
        "REMOVE nid, who, why, #at, doc",
    )
    .named("#at", "at")
    .with(":nid", item::s(id))
}

/// An open row that no worker holds and that is due → checked by the next sweep.
pub fn look_now(seen: UnixMillis, now: UnixMillis) -> Change {
    Change::new(
        "wake an event",
        // If a sweep has sent a message since, `gsk` has changed.
        "gsk = :seen AND (st = :received OR (st = :failed AND due <= :now))",
        "SET gsk = :now",
    )
    .states(&[State::Received, State::Failed])
    .with(":seen", item::ms(seen))
    .with(":now", item::ms(now))
}
