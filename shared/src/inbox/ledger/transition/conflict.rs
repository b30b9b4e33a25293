//! The decisions of an operator on quarantined events.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Change, dead_partition, work_partition};
use crate::base::clock::UnixMillis;
use crate::base::timing::FIRST_LOOK;
use crate::inbox::ledger::{Moment, Row, SCHEMA, State, item};

/// This condition is true if no decision was made since the row was read. The condition also checks
/// the state, because an open or settled row must not change, even if the row was restored from a
/// backup.
const SEEN_QUARANTINED: &str = "epoch = :seen AND st = :quarantined";

/// Moves an event from `quarantined` to `received`. The event is processed like any other event,
/// under its quarantine key.
pub fn release(row: &Row, told: [&Moment; 2], now: UnixMillis) -> Change {
    Change::new(
        "release a quarantined event",
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

/// Moves an event from `quarantined` to `dead_letter`. The event is not processed.
pub fn discard(row: &Row, told: [&Moment; 2], now: UnixMillis) -> Change {
    Change::new(
        "discard a quarantined event",
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

/// Counts another copy of a quarantined event. The counter names the row of the quarantined event,
/// which was durable before the counter was written.
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

/// Creates the counter for copies of a quarantined event. The row of the event must already be
/// durable.
pub fn expect_copies(pk: &str, expires: UnixMillis) -> Change {
    Change::new(
        "start counting copies of a quarantined event",
        // If two copies arrive at the same time, the counter names the row of the first one.
        "attribute_not_exists(ek)",
        "SET ek = :ek, n = :zero, sv = :sv, #ttl = :ttl",
    )
    .named("#ttl", "ttl")
    .with(":ek", item::s(pk))
    .with(":zero", item::n(0))
    .with(":sv", item::n(SCHEMA))
    .with(":ttl", item::n(expires.secs()))
}

/// Counts one more quarantined event of a day if fewer than `most` are counted.
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
    /// Sets the values of the condition and of the history. The history has the reason for the
    /// quarantine, the later changes, and the decision.
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
