//! What a human decides over an event that was kept apart.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Change, dead_partition, work_partition};
use crate::clock::Millis;
use crate::ledger::{Moment, Row, State, item};
use crate::timing::FIRST_LOOK;

/// Nobody has decided since the row was seen. The state is asked for as well: what is open or
/// settled must not be moved, also where the row has been put back from a backup.
const SEEN_APART: &str = "epoch = :seen AND st = :quarantined";

/// quarantined → received: it is worked on like any event, under the key that it was kept under.
pub fn release(row: &Row, told: [&Moment; 2], now: Millis) -> Change {
    Change::new(
        "release an event that was kept apart",
        SEEN_APART,
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
pub fn discard(row: &Row, told: [&Moment; 2], now: Millis) -> Change {
    Change::new(
        "discard an event that was kept apart",
        SEEN_APART,
        "SET st = :dead_letter, reason = :reason, dead_at = :now, gpk = :gpk, gsk = :now, h = :h \
         ADD epoch :one",
    )
    .states(&[State::DeadLetter])
    .decided(row, told)
    .with(":reason", item::s(super::DISCARDED))
    .with(":gpk", item::s(dead_partition(&row.key.pk())))
    .with(":now", item::ms(now))
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
