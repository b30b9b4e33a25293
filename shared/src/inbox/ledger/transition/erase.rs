//! The change that erases the payload of an event.

use std::time::Duration;

use super::{Change, dead_partition};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::erase::Scrubbed;
use crate::inbox::ledger::{Row, State, item};

/// Removes the payload from a row that no worker holds. An open event becomes a dead letter.
pub fn erase(row: &Row, rest: &Scrubbed, now: UnixMillis, keep: Duration) -> Change {
    let ends = if row.is_open() {
        "st = :dead_letter, reason = :reason, dead_at = :now, gpk = :gpk, gsk = :now, "
    } else {
        ""
    };
    // The event no longer waits for an operator, so the row can expire.
    let expires = if row.state == State::Done {
        ""
    } else {
        ", #ttl = :ttl"
    };
    // The quarantined event no longer waits for a decision.
    let decided = if row.state == State::Quarantined {
        ", gpk, gsk"
    } else {
        ""
    };
    // The event no longer waits for an approval.
    let version = if row.is_held() { ", sv = :sv" } else { "" };
    let change = Change::new(
        "erase an event",
        // If the epoch is unchanged, no worker has claimed the event since the row was read.
        "epoch = :seen",
        &format!(
            "SET {ends}erased_at = :now, h = :h, fx = :fx{expires}{version} \
             REMOVE hdr, err, b, acc, rq, due, hld, apv{decided} \
             ADD epoch :one"
        ),
    )
    .with(":seen", item::n(row.epoch))
    .with(":now", item::ms(now))
    .with(":one", item::n(1))
    .with(":h", rest.history.clone())
    .with(":fx", rest.effects.clone());
    let change = match &row.hold {
        Some(hold) => change.with(":sv", item::n(hold.version)),
        None => change,
    };
    let change = change.leaves_queue(row);
    let change = if row.is_open() {
        change
            .states(&[State::DeadLetter])
            .with(":reason", item::s("erased"))
            .with(":gpk", item::s(dead_partition(&row.key.pk())))
    } else {
        change
    };
    if expires.is_empty() {
        change
    } else {
        change
            .named("#ttl", "ttl")
            .with(":ttl", item::n((now + keep).secs()))
    }
}
