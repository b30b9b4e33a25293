//! Every change of a notice, and the change of a row that waited because of the notice.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::operator_flag::OperatorFlag;
use crate::inbox::ledger::{SCHEMA, State, item};

/// No notice → set. An existing notice is not replaced: only its author knows its reason.
pub fn set(notice: &OperatorFlag) -> Change {
    Change::new(
        "set a notice",
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

/// Set → no notice, if the notice is still the one that was read.
pub fn clear(id: &str) -> Change {
    Change::new(
        "clear a notice",
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
