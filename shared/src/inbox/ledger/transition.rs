//! Every change of a state row: its condition and its update expression.
//!
//! The conditional put in `receive.rs` creates a state row. After that, only the pure functions of
//! this module and its submodules define updates of the row. Each change that a worker makes after
//! its claim has the fence `st = processing AND epoch = … AND own = …` in its condition. So only
//! the worker with the newest claim can write. [`keep`] claims an event and settles it in one write.

pub mod arrivals;
pub mod conflict;
pub mod coverage;
mod erase;
pub mod hold;
pub mod hours;
pub mod operator_flag;
pub mod order;
pub mod plan;
pub mod reconcile;
pub mod replay;
pub mod retention;
pub mod source_versions;
pub mod sweep;
pub mod sync;
pub mod trial;
pub mod work;
mod work_index;

use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{EffectRow, Moment, NEWEST_SCHEMA, Row, State, item};
use crate::base::backoff::CRASHES;
use crate::base::clock::UnixMillis;
use crate::base::timing::CLOCK_MARGIN;
pub use crate::inbox::table::Change;
pub use erase::erase;
pub use work_index::{QUARANTINED, WORK_SHARDS, dead_partition, index_event, work_partition};
pub(super) use work_index::{hash, shard};

/// The maximum number of history entries in a row.
const LONGEST_HISTORY: usize = 20;

/// The maximum size of an error text in a row, in bytes.
const LONGEST_ERROR: usize = 256;

/// The reason of a dead letter that an operator discarded.
pub const DISCARDED: &str = "discarded";

const FENCE: &str = "st = :processing AND epoch = :epoch AND own = :own";

/// The proof of a claim. Each later write of the worker requires it.
#[derive(Clone, Copy, Debug)]
pub struct Fence<'l> {
    pub epoch: u64,
    pub owner: &'l str,
}

/// Effects that are written together with another change.
pub type Effects<'l> = &'l [(String, EffectRow)];

/// Moves a received event, or a failed event that is due, to `processing`.
pub fn claim(owner: &str, now: UnixMillis, until: UnixMillis, attempts: u32) -> Change {
    Change::new(
        "claim an event",
        // The condition also refuses rows that this code cannot read, so that the claim does not
        // count as an attempt.
        "(st = :received OR (st = :failed AND due <= :now)) AND att < :max AND cr < :crashes \
         AND sv <= :sv AND attribute_not_exists(pul) AND attribute_not_exists(hld) AND epoch >= :zero \
         AND attribute_type(fx, :map)",
        "SET st = :processing, own = :own, lu = :lu ADD epoch :one, att :one",
    )
    .states(&[State::Received, State::Failed, State::Processing])
    .with(":now", item::ms(now))
    .with(":max", item::n(attempts))
    .with(":crashes", item::n(CRASHES))
    .with(":zero", item::n(0))
    .with(":map", item::s("M"))
    .with(":sv", item::n(NEWEST_SCHEMA))
    .with(":own", item::s(owner))
    .with(":lu", item::ms(until))
    .with(":one", item::n(1))
}

/// Moves a received event that no worker has claimed to `done`, as a claim and a settlement at the
/// same time.
pub fn keep(owner: &str, now: UnixMillis, until: UnixMillis, expires: UnixMillis) -> Change {
    let moment = Moment {
        at: now,
        what: State::Done.as_str().to_owned(),
        attempt: 1,
        lease_until: Some(until),
        owner: owner.to_owned(),
        note: String::new(),
    };
    Change::new(
        "record a kept event as done",
        "st = :received AND epoch = :zero AND att = :zero AND sv <= :sv AND attribute_not_exists(pul) \
         AND attribute_type(fx, :map)",
        "SET st = :done, done_at = :now, done_by = :own, #ttl = :ttl, \
         h = list_append(if_not_exists(h, :none), :h) \
         REMOVE gpk, gsk, own, lu, due ADD epoch :one, att :one",
    )
    .states(&[State::Received, State::Done])
    .named("#ttl", "ttl")
    .with(":zero", item::n(0))
    .with(":sv", item::n(NEWEST_SCHEMA))
    .with(":map", item::s("M"))
    .with(":now", item::ms(now))
    .with(":own", item::s(owner))
    .with(":ttl", item::n(expires.secs()))
    .with(":none", AttributeValue::L(Vec::new()))
    .with(":h", AttributeValue::L(vec![moment.write()]))
    .with(":one", item::n(1))
}

/// Gives an event in `processing` to another owner, after its lease has expired.
pub fn take_over(
    seen: u64,
    owner: &str,
    now: UnixMillis,
    until: UnixMillis,
    attempts: u32,
) -> Change {
    Change::new(
        "take over an event",
        "st = :processing AND lu < :over AND epoch = :seen AND att < :max AND cr < :crashes AND sv <= :sv",
        "SET own = :own, lu = :lu ADD epoch :one, att :one, cr :one",
    )
    .states(&[State::Processing])
    .with(":over", item::ms(now - CLOCK_MARGIN))
    .with(":seen", item::n(seen))
    .with(":max", item::n(attempts))
    // The crash that caused this takeover also counts.
    .with(":crashes", item::n(CRASHES - 1))
    .with(":sv", item::n(NEWEST_SCHEMA))
    .with(":own", item::s(owner))
    .with(":lu", item::ms(until))
    .with(":one", item::n(1))
}

/// Extends the lease of a worker, unless it has expired.
pub fn renew(fence: Fence<'_>, now: UnixMillis, until: UnixMillis) -> Change {
    Change::new(
        "renew a lease",
        &format!("{FENCE} AND lu > :now"),
        "SET lu = :lu",
    )
    .fenced(fence)
    .with(":now", item::ms(now))
    .with(":lu", item::ms(until))
}

/// Records that a worker is about to try an effect. DynamoDB refuses the change if the effect is
/// done.
pub fn intent(fence: Fence<'_>, name: &str, effect: &EffectRow) -> Change {
    Change::new(
        "record the intent of an effect",
        &format!("{FENCE} AND (attribute_not_exists(fx.#n) OR fx.#n.s <> :done)"),
        "SET fx.#n = :fx",
    )
    .fenced(fence)
    .states(&[State::Done])
    .with(":fx", effect.write())
    .named("#n", name)
}

/// Moves an event from `processing` to `done`.
pub fn done(
    fence: Fence<'_>,
    row: &Row,
    effects: Effects<'_>,
    now: UnixMillis,
    expires: UnixMillis,
) -> Change {
    Change::new(
        "record an event as done",
        FENCE,
        "SET st = :done, done_at = :now, done_by = :own, #ttl = :ttl, h = :h\
         {fx} REMOVE gpk, gsk, own, lu, due",
    )
    .fenced(fence)
    .states(&[State::Done])
    .with(":now", item::ms(now))
    .with(":ttl", item::n(expires.secs()))
    .named("#ttl", "ttl")
    .history(row, "done", "", now)
    .effects(effects)
    .leaves_queue(row)
}

/// Moves an event from `processing` to `failed`, with the due time of the next attempt.
pub fn retry(
    fence: Fence<'_>,
    row: &Row,
    effects: Effects<'_>,
    error: &str,
    due: UnixMillis,
    look: UnixMillis,
    now: UnixMillis,
) -> Change {
    Change::new(
        "record a failed attempt",
        FENCE,
        // The message count belongs to the attempt that ended, so it starts again at zero.
        "SET st = :failed, due = :due, gpk = :gpk, gsk = :look, err = :err, h = :h, enq_n = :zero{fx} \
         REMOVE own, lu",
    )
    .open(row)
    .with(":zero", item::n(0))
    .fenced(fence)
    .states(&[State::Failed])
    .with(":due", item::ms(due))
    .with(":look", item::ms(look))
    .error(error)
    .history(row, "failed", error, now)
    .effects(effects)
}

/// Moves an event from `processing` to `failed` because no action ran, for a reason outside the
/// event. `attempts` is the new attempt count, without this claim. `off` counts the deferrals, and
/// limits the messages that a worker sends to itself.
///
/// A deferral resets the count of consecutive crashes, because a waiting event is claimed often.
/// `died` keeps the total, because a crashed attempt may have made a call.
pub fn defer(
    fence: Fence<'_>,
    row: &Row,
    effects: Effects<'_>,
    why: &str,
    attempts: u32,
    due: UnixMillis,
    look: UnixMillis,
) -> Change {
    Change::new(
        "defer an event",
        FENCE,
        "SET st = :failed, due = :due, gpk = :gpk, gsk = :look, err = :err, enq_n = :zero, cr = :zero, \
         att = :att{fx} REMOVE own, lu ADD off :one, died :died",
    )
    .open(row)
    .with(":zero", item::n(0))
    .with(":att", item::n(attempts))
    .with(":died", item::n(row.crashes))
    .with(":one", item::n(1))
    .fenced(fence)
    .states(&[State::Failed])
    .with(":due", item::ms(due))
    .with(":look", item::ms(look))
    .error(why)
    .effects(effects)
}

/// Moves an event from `processing` to `dead_letter`, with the reason that the worker gives.
pub fn dead_letter(
    fence: Fence<'_>,
    row: &Row,
    effects: Effects<'_>,
    reason: &str,
    error: &str,
    now: UnixMillis,
) -> Change {
    Change::new(
        "record a dead letter",
        FENCE,
        "SET st = :dead_letter, reason = :reason, err = :err, dead_at = :now, gpk = :gpk, gsk = :now, h = :h\
         {fx} REMOVE own, lu, due",
    )
    .fenced(fence)
    .dead(row, reason, error, now)
    .effects(effects)
    .leaves_queue(row)
}

/// Moves an open event to `dead_letter` if its attempts or crashes are exhausted. The worker or the
/// sweep makes this change.
pub fn exhaust(seen: u64, row: &Row, attempts: u32, reason: &str, now: UnixMillis) -> Change {
    Change::new(
        "record an exhausted event",
        // Only a row in `processing` has a lease.
        // The worker may have held the event after the row was read.
        "epoch = :seen AND (st IN (:received, :failed) OR lu < :over) AND (att >= :max OR cr >= :crashes) \
         AND attribute_not_exists(hld)",
        "SET st = :dead_letter, reason = :reason, err = :err, dead_at = :now, gpk = :gpk, gsk = :now, h = :h, \
         cr = :cr REMOVE own, lu, due",
    )
    .states(&[State::Received, State::Failed])
    .with(":seen", item::n(seen))
    .with(":over", item::ms(now - CLOCK_MARGIN))
    .with(":max", item::n(attempts))
    .with(":cr", item::n(row.crashed()))
    .with(":crashes", item::n(CRASHES - (row.crashed() - row.crashes)))
    .dead(row, reason, row.error.as_deref().unwrap_or(reason), now)
    .leaves_queue(row)
}

/// Takes an exclusive lease that ends at `until`.
fn turn(what: &'static str, owner: &str, now: UnixMillis, until: UnixMillis) -> Change {
    Change::new(
        what,
        "attribute_not_exists(lu) OR lu < :over",
        "SET own = :own, lu = :lu ADD epoch :one",
    )
    .with(":over", item::ms(now - CLOCK_MARGIN))
    .with(":own", item::s(owner))
    .with(":lu", item::ms(until))
    .with(":one", item::n(1))
}

const SYNC_FENCE: &str = "own = :own AND epoch = :epoch";

/// Counts one more redelivery request if fewer than `most` are counted.
pub fn count_redelivery_request(most: u64, expires: UnixMillis) -> Change {
    Change::new(
        "count a redelivery request",
        "attribute_not_exists(n) OR n < :most",
        "SET #ttl = :ttl ADD n :one",
    )
    .named("#ttl", "ttl")
    .with(":most", item::n(most))
    .with(":ttl", item::n(expires.secs()))
    .with(":one", item::n(1))
}

impl Change {
    /// Binds each state to a placeholder with its own name.
    fn states(self, states: &[State]) -> Self {
        states.iter().fold(self, |change, state| {
            change.with(&format!(":{state}"), item::s(state.as_str()))
        })
    }

    fn fenced(self, fence: Fence<'_>) -> Self {
        self.states(&[State::Processing]).sync_fenced(fence)
    }

    fn sync_fenced(self, fence: Fence<'_>) -> Self {
        self.with(":epoch", item::n(fence.epoch))
            .with(":own", item::s(fence.owner))
    }

    fn error(self, error: &str) -> Self {
        self.with(":err", item::s(cut(error)))
    }

    /// Keeps the time of the first attempt of this run, in the same write.
    pub(super) fn first_attempt(mut self, row: &Row, at: UnixMillis) -> Self {
        self.update = self.update.replacen(" REMOVE ", ", fa = :fa REMOVE ", 1);
        self.with(":fa", item::s(format!("{}|{}", row.run, at.0)))
    }

    /// Puts the row into the `work` index among the open rows, even if it was not indexed before.
    fn open(self, row: &Row) -> Self {
        let part = match row.pull {
            Some(_) => work::pull_partition(&row.key),
            None => work_partition(&row.key.pk()),
        };
        self.with(":gpk", item::s(part))
    }

    fn dead(self, row: &Row, reason: &str, error: &str, now: UnixMillis) -> Self {
        self.states(&[State::DeadLetter])
            .with(":reason", item::s(cut(reason)))
            .with(":now", item::ms(now))
            .with(":gpk", item::s(dead_partition(&row.key.pk())))
            .error(error)
            .history(row, "dead_letter", reason, now)
    }

    /// Appends an entry to the history, in the same write as the change that the entry describes.
    fn history(self, row: &Row, what: &str, note: &str, now: UnixMillis) -> Self {
        let moment = Moment {
            at: now,
            what: what.to_owned(),
            attempt: row.attempts,
            lease_until: row.lease_until,
            owner: row.owner.clone().unwrap_or_default(),
            note: note.chars().take(80).collect(),
        };
        self.moment(row, &moment)
    }

    /// Like `history`, for an entry that is not about an attempt.
    fn moment(self, row: &Row, moment: &Moment) -> Self {
        let skip = (row.raw_history.len() + 1).saturating_sub(LONGEST_HISTORY);
        let kept = row.raw_history.iter().skip(skip).cloned();
        self.with(
            ":h",
            AttributeValue::L(kept.chain([moment.write()]).collect()),
        )
    }

    /// Adds a remark to the history entry of this change.
    #[must_use]
    pub(super) fn annotated(mut self, remark: &str) -> Self {
        if let Some(AttributeValue::L(history)) = self.values.get_mut(":h")
            && let Some(AttributeValue::S(entry)) = history.last_mut()
        {
            let comma = if entry.ends_with('|') { "" } else { ", " };
            let _ = write!(entry, "{comma}{remark}");
        }
        self
    }

    fn effects(mut self, effects: Effects<'_>) -> Self {
        let mut sets = String::new();
        for (index, (name, effect)) in effects.iter().enumerate() {
            let _ = write!(sets, ", fx.#fx{index} = :fx{index}");
            self = self
                .with(&format!(":fx{index}"), effect.write())
                .named(&format!("#fx{index}"), name);
        }
        self.update = self.update.replace("{fx}", &sets);
        self
    }
}

fn cut(text: &str) -> String {
    let mut end = LONGEST_ERROR.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
