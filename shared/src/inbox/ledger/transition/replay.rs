//! The changes of an event and of its plan in a replay.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Change, work_partition};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, Row, SCHEMA, State, item};

/// The states of an event in a plan.
pub const PLANNED: &str = "planned";
pub const APPLIED: &str = "applied";

/// The word for a replay in the history. The history entries before a replay belong to earlier
/// runs.
pub const REPLAYED: &str = "replayed";

/// Moves an event in `done`, `dead_letter` or `failed` to `received`, in a new run.
///
/// The change increases the fencing token, so that a late worker of the last run cannot write into
/// this run. An event of a trial gets the version of a usual row, because no worker claims rows of
/// a trial.
pub fn replay(
    row: &Row,
    seen: u64,
    plan: &str,
    new_effects: bool,
    look: UnixMillis,
    now: UnixMillis,
) -> Change {
    let (forget, next) = if new_effects {
        (", fx = :none", ", gen :one")
    } else {
        ("", "")
    };
    let schema = match &row.hold {
        Some(hold) => Some(hold.version),
        None => row.is_trial().then_some(SCHEMA),
    };
    let version = if schema.is_some() { ", sv = :sv" } else { "" };
    let change = Change::new(
        "replay an event",
        // A claim after the row was read would have increased the token.
        "epoch = :seen",
        &format!(
            "SET st = :received, att = :zero, cr = :zero, enq_n = :zero, enq = :now, gpk = :gpk, \
             gsk = :look, h = :h{forget}{version} \
             REMOVE #ttl, due, off, died, reason, dead_at, done_at, done_by, hld, apv ADD epoch :one, run :one{next}"
        ),
    )
    .states(&[State::Received])
    .with(":seen", item::n(seen))
    .with(":zero", item::n(0))
    .with(":one", item::n(1))
    .with(":now", item::ms(now))
    .with(":look", item::ms(look))
    .with(":gpk", item::s(work_partition(&row.key.pk())))
    .named("#ttl", "ttl")
    .history(row, REPLAYED, plan, now);
    let change = match schema {
        Some(schema) => change.with(":sv", item::n(schema)),
        None => change,
    };
    // The processor runs the other actions again, and parks the event again.
    let change = change.leaves_queue(row);
    if new_effects {
        change.with(":none", AttributeValue::M(Item::new()))
    } else {
        change
    }
}

/// Records that a plan has replayed an event. A plan replays each event only once.
pub fn apply(now: UnixMillis) -> Change {
    Change::new(
        "record an event as replayed",
        "st = :planned",
        "SET st = :applied, #at = :now",
    )
    .with(":planned", item::s(PLANNED))
    .with(":applied", item::s(APPLIED))
    .with(":now", item::ms(now))
    .named("#at", "at")
}
