//! The change of what is kept of an hour.

use aws_sdk_dynamodb::types::AttributeValue;

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{SCHEMA, item};

/// No count of an hour, or an older one → this one. An hour that is over can still grow: what was
/// spilled, and what a reverification let in, is of the time when it came.
pub fn count_hour(sources: AttributeValue, as_of: UnixMillis, expires: UnixMillis) -> Change {
    Change::new(
        "keep the count of an hour",
        "attribute_not_exists(as_of) OR as_of < :as_of",
        "SET as_of = :as_of, n = :n, sv = :sv, #ttl = :ttl",
    )
    .named("#ttl", "ttl")
    .with(":as_of", item::ms(as_of))
    .with(":n", sources)
    .with(":sv", item::n(SCHEMA))
    .with(":ttl", item::n(expires.secs()))
}
