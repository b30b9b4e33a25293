//! What a human decides over an event that was kept apart.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Change, dead_partition, work_partition};
use crate::base::clock::UnixMillis;
use crate::base::timing::FIRST_LOOK;
use crate::inbox::ledger::{Moment, Row, SCHEMA, State, item};

/// Nobody has decided since the row was seen. The state is asked for as well: what is open or
/// settled must not be moved, also where the row has been put back from a backup.
const SEEN_QUARANTINED: &str = "epoch = :seen AND st = :quarantined";

/// quarantined → received: it is worked on like any event, under the key that it was kept under.
pub fn release(row: &Row, told: [&Moment; 2], now: UnixMillis) -> Change {
    Change::new(
        "release an event that was kept apart",
        SEEN_QUARANTINED,
        "SET st = :received, gpk = :gpk, gsk = :look, enq = :now, h = :h REMOVE reason \
         ADD epoch :one",
    )
    .states(&[State::Received])
    .decided(row, told)
    .with(":gpk", item::s(work_partition(&row.key.pk())))
    .with(":look", item::ms(now + FIRST_LOOK))
    .with(":now", item::ms(now))
}

/// quarantined → dead letter: nobody works on it.
pub fn discard(row: &Row, told: [&Moment; 2], now: UnixMillis) -> Change {
    Change::new(
        "discard an event that was kept apart",
        SEEN_QUARANTINED,
        "SET st = :dead_letter, reason = :reason, dead_at = :now, gpk = :gpk, gsk = :now, h = :h \
         ADD epoch :one",
    )
    .states(&[State::DeadLetter])
    .decided(row, told)
    .with(":reason", item::s(super::DISCARDED))
    .with(":gpk", item::s(dead_partition(&row.key.pk())))
    .with(":now", item::ms(now))
}

/// A copy of an event that is quarantined arrived once more. The item names the row that the copy
/// stands in, which was durable before the item was written.
pub fn count_copy(now: UnixMillis, expires: UnixMillis) -> Change {
    Change::new(
        "count a copy of a quarantined event",
        "attribute_exists(ek)",
        "SET #last = :now, #ttl = :ttl ADD n :one",
    )
    .named("#last", "last")
    .named("#ttl", "ttl")
    .with(":now", item::ms(now))
    .with(":ttl", item::n(expires.secs()))
    .with(":one", item::n(1))
}

/// The row of a quarantined event is durable: its copies are counted from now on.
pub fn expect_copies(pk: &str, expires: UnixMillis) -> Change {
    Change::new(
        "note where copies of a quarantined event are counted",
        // Of two that arrive at the same time the first one is named.
        "attribute_not_exists(ek)",
        "SET ek = :ek, n = :zero, sv = :sv, #ttl = :ttl",
    )
    .named("#ttl", "ttl")
    .with(":ek", item::s(pk))
    .with(":zero", item::n(0))
    .with(":sv", item::n(SCHEMA))
    .with(":ttl", item::n(expires.secs()))
}

/// One more quarantined event of a day, while there are fewer than `most`.
pub fn count_conflict(most: u32, expires: UnixMillis) -> Change {
    Change::new(
        "count a quarantined event",
        "attribute_not_exists(n) OR n < :most",
        "SET sv = :sv, #ttl = :ttl ADD n :one",
    )
    .named("#ttl", "ttl")
    .with(":most", item::n(most))
    .with(":sv", item::n(SCHEMA))
    .with(":ttl", item::n(expires.secs()))
    .with(":one", item::n(1))
}

impl Change {
    /// The condition's values, and the history: why it was kept apart, what was done to it since,
    /// and what was decided.
    fn decided(self, row: &Row, [first, last]: [&Moment; 2]) -> Self {
        let history = [first.write()].into_iter();
        let history = history.chain(row.raw_history.iter().cloned());
        let history = history.chain([last.write()]);
        self.states(&[State::Quarantined])
            .with(":seen", item::n(row.epoch))
            .with(":one", item::n(1))
            .with(":h", AttributeValue::L(history.collect()))
    }
}
