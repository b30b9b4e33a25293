//! Every change of the pointer to the current version of the sources.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::item;
use crate::inbox::ledger::SCHEMA;

/// The facts that the pointer stores of a version.
#[derive(Clone, Copy, Debug)]
pub struct Pointed<'a> {
    pub version: u64,
    pub hash: &'a str,
    pub by: &'a str,
    pub why: &'a str,
    pub at: UnixMillis,
    /// The compressed text of the file, if the pointer stores it too.
    pub packed: Option<&'a [u8]>,
}

/// Moves the pointer to a new version, if it still points to the version that the operator has
/// seen. `seen` is 0 if the operator has seen no pointer.
pub fn point(to: Pointed<'_>, seen: u64) -> Change {
    let condition = if seen == 0 {
        "attribute_not_exists(pk)"
    } else {
        "v = :seen"
    };
    let update = match to.packed {
        Some(_) => "SET sv = :sv, v = :v, #hash = :hash, #by = :by, why = :why, #at = :at, b = :b",
        None => "SET sv = :sv, v = :v, #hash = :hash, #by = :by, why = :why, #at = :at REMOVE b",
    };
    let change = Change::new("move the pointer to the current sources", condition, update)
        .named("#hash", "hash")
        .named("#by", "by")
        .named("#at", "at")
        .with(":sv", item::n(SCHEMA))
        .with(":v", item::n(to.version))
        .with(":hash", item::s(to.hash))
        .with(":by", item::s(to.by))
        .with(":why", item::s(to.why))
        .with(":at", item::ms(to.at));
    let change = match to.packed {
        Some(packed) => change.with(":b", item::b(packed)),
        None => change,
    };
    if seen == 0 {
        change
    } else {
        change.with(":seen", item::n(seen))
    }
}

/// Lets DynamoDB delete an old version. Creates no item if the version no longer exists.
pub fn expire(now: UnixMillis) -> Change {
    Change::new(
        "expire an old version of the sources",
        "attribute_exists(pk)",
        "SET #ttl = :now",
    )
    .named("#ttl", "ttl")
    .with(":now", item::n(now.secs()))
}
