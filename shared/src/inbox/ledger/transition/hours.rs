//! The change of the stored count of an hour.

use aws_sdk_dynamodb::types::AttributeValue;

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{SCHEMA, item};

/// Stores the count of an hour, unless a newer count is stored. The count of a past hour can still
/// grow, because spilled and reverified events keep their time of receipt.
pub fn count_hour(sources: AttributeValue, as_of: UnixMillis, expires: UnixMillis) -> Change {
    Change::new(
        "store the count of an hour",
        "attribute_not_exists(as_of) OR as_of < :as_of",
        "SET as_of = :as_of, n = :n, sv = :sv, #ttl = :ttl",
    )
    .named("#ttl", "ttl")
    .with(":as_of", item::ms(as_of))
    .with(":n", sources)
    .with(":sv", item::n(SCHEMA))
    .with(":ttl", item::n(expires.secs()))
}
