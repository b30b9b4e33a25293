//! The change of a row whose event came by another way too.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::item;
use crate::webhook::event::Via;

/// Any row that was made by the way `first` → the same, with the time at which its event came by
/// another way; once for each.
pub fn other_arrival(attribute: &str, first: Via, at: UnixMillis) -> Change {
    Change::new(
        "note that an event came by another way too",
        "via = :first AND attribute_not_exists(#also)",
        "SET #also = :at",
    )
    .named("#also", attribute)
    .with(":first", item::s(first.as_str()))
    .with(":at", item::ms(at))
}
