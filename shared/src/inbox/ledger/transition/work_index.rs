//! The `work` index: its parts, and the change that adds an open row to it.

use super::Change;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{State, item};

/// Adds an open row to the `work` index, if it is not in the index.
pub fn index_event(pk: &str, now: UnixMillis) -> Change {
    Change::new(
        "add an event to the work index",
        // States that only newer code knows count as open.
        "attribute_exists(pk) AND attribute_not_exists(gpk) \
         AND st <> :done AND st <> :dead_letter AND st <> :quarantined",
        "SET gpk = :gpk, gsk = :now",
    )
    .states(&[State::Done, State::DeadLetter, State::Quarantined])
    .with(":gpk", item::s(work_partition(pk)))
    .with(":now", item::ms(now))
}

/// Returns the part of the `work` index for an open row.
pub fn work_partition(pk: &str) -> String {
    format!("W#{}", shard(pk))
}

/// Returns the part of the `work` index for a dead letter.
pub fn dead_partition(pk: &str) -> String {
    format!("D#{}", shard(pk))
}

/// The number of parts of the `work` index. The parts spread the writes over several partitions.
pub const WORK_SHARDS: u8 = 8;

/// The part of the `work` index for quarantined events that wait for a decision. A source has few
/// of them per day, so one part is enough, and is cheap to count. This part does not contain rows
/// of version 1 that were written before the part existed. An operator can list and decide these
/// events, but they are not counted.
pub const QUARANTINED: &str = "Q#0";

/// Returns the FNV-1a hash of a key. The hash must be the same on every machine and in every
/// version.
pub(in crate::inbox::ledger) fn hash(pk: &str) -> u64 {
    pk.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the number of the index part for a key.
pub(in crate::inbox::ledger) fn shard(pk: &str) -> u8 {
    let hash = hash(pk);
    // Consecutive ids often differ only in their last characters, which hardly change the high half
    // of the hash. So the part depends on both halves.
    u8::try_from((hash ^ (hash >> 32)) % u64::from(WORK_SHARDS)).unwrap_or(0)
}
