//! The change that records the arrival of a known event by another `via`.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::item;
use crate::webhook::event::Via;

/// Records the time of the first arrival by a `via` other than `first`. The state of the row does
/// not matter. Each `via` is recorded once.
pub fn other_arrival(attribute: &str, first: Via, at: UnixMillis) -> Change {
    Change::new(
        "record another arrival of an event",
        "via = :first AND attribute_not_exists(#also)",
        "SET #also = :at",
    )
    .named("#also", attribute)
    .with(":first", item::s(first.as_str()))
    .with(":at", item::ms(at))
}
