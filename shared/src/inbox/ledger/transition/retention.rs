//! The changes that hold the body of an event, or let it expire.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::item;

/// Stops a body from expiring, if the body exists.
pub fn hold_body() -> Change {
    Change::new(
        "hold a body",
        "attribute_exists(pk)",
        "SET held = :one REMOVE #ttl",
    )
    .named("#ttl", "ttl")
    .with(":one", item::n(1))
}

/// Lets a body expire again, if the body exists.
pub fn release_body(expires: UnixMillis) -> Change {
    Change::new(
        "release a body",
        "attribute_exists(pk)",
        "SET #ttl = :ttl REMOVE held",
    )
    .named("#ttl", "ttl")
    .with(":ttl", item::n(expires.secs()))
}

/// Records that the bodies of all events that became dead letters before `now` are held.
pub fn held_until(now: UnixMillis) -> Change {
    Change::new(
        "record that bodies are held",
        "attribute_not_exists(pk) OR #at <= :at",
        "SET #at = :at",
    )
    .named("#at", "at")
    .with(":at", item::ms(now))
}
