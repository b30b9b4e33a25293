//! The changes that record later arrivals of a known event.

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

/// Adds `weight` to the count of repeated requests in `attribute`. The update needs a condition,
/// because an update without one would create a row that DynamoDB has deleted in the meantime.
pub fn repetition(attribute: &str, weight: u64, at: UnixMillis) -> Change {
    Change::new(
        "count a repeated request of an event",
        "attribute_exists(pk)",
        "ADD #count :weight SET dat = :at",
    )
    .named("#count", attribute)
    .with(":weight", item::n(weight))
    .with(":at", item::ms(at))
}
