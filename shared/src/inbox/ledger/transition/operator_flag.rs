//! Every change of a notice, and the one of a row that slept because of it.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::operator_flag::OperatorFlag;
use crate::inbox::ledger::{SCHEMA, State, item};

/// None → up. One that is up stays: whoever put it up knows why.
pub fn set(notice: &OperatorFlag) -> Change {
    Change::new(
        "put a notice up",
        "attribute_not_exists(nid)",
        "SET sv = :sv, nid = :nid, who = :who, why = :why, #at = :at, doc = :doc",
    )
    .named("#at", "at")
    .with(":sv", item::n(SCHEMA))
    .with(":nid", item::s(&notice.id))
    .with(":who", item::s(&notice.who))
    .with(":why", item::s(&notice.why))
    .with(":at", item::ms(notice.at))
    .with(":doc", item::s(&notice.doc))
}

/// Up → none, if it is the one that was read.
pub fn clear(id: &str) -> Change {
    Change::new(
        "take a notice down",
        "nid = :nid",
        "REMOVE nid, who, why, #at, doc",
    )
    .named("#at", "at")
    .with(":nid", item::s(id))
}

/// An open row that nobody is at work on and that has nothing to wait for → looked at by the next
/// sweep.
pub fn look_now(seen: UnixMillis, now: UnixMillis) -> Change {
    Change::new(
        "call an event up",
        // What a sweep has rung for since has another time to be looked at.
        "gsk = :seen AND (st = :received OR (st = :failed AND due <= :now))",
        "SET gsk = :now",
    )
    .states(&[State::Received, State::Failed])
    .with(":seen", item::ms(seen))
    .with(":now", item::ms(now))
}
