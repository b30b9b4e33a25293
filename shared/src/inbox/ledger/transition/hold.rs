//! The changes of an event that waits for an approval.
//!
//! A held row is `received`, has no lease, and is in its own partition of the `work` index. Its
//! version is [`PARKED_SCHEMA`], so that a worker of an older release does not claim it. The event of a
//! queue stays in the queue: after an approval, a worker outside of Lambda can take it.

use aws_sdk_dynamodb::types::AttributeValue;

use super::work::pull_partition;
use super::{Change, Effects, FENCE, Fence, work_partition};
use crate::base::clock::UnixMillis;
use crate::base::timing::FIRST_LOOK;
use crate::inbox::ledger::hold::{Approval, Hold};
use crate::inbox::ledger::{By, Item, Moment, PARKED_SCHEMA, Row, State, item};

/// The reasons of dead letters that a hold ends in.
pub const REJECTED: &str = "rejected";
pub const EXPIRED: &str = "approval_expired";

/// The words of the history.
pub const HELD: &str = "held";
pub const APPROVED: &str = "approved";

/// The hold that was read is still the hold of the row. No worker can claim a held row, so the epoch
/// changes only with the end of the hold.
const SEEN_HELD: &str = "st = :received AND hld.id = :id AND epoch = :seen";

/// Returns the part of the `work` index for the held events of a source.
pub fn held_partition(source: &str) -> String {
    format!("H#{source}")
}

/// Moves an event from `processing` to `received`, and holds it. The claim does not count as an
/// attempt, because the effect was not tried.
pub fn hold(
    fence: Fence<'_>,
    row: &Row,
    effects: Effects<'_>,
    hold: &Hold,
    now: UnixMillis,
) -> Change {
    let note = format!("{} by {}", hold.effect, hold.rule);
    Change::new(
        "hold an event",
        &format!("{FENCE} AND attribute_not_exists(hld)"),
        "SET st = :received, hld = :hld, apv = if_not_exists(apv, :none), gpk = :gpk, gsk = :exp, \
         att = :att, sv = :sv, enq_n = :zero, h = :h{fx} REMOVE own, lu, due",
    )
    .fenced(fence)
    .states(&[State::Received])
    .with(":hld", hold.write())
    .with(":none", AttributeValue::M(Item::new()))
    .with(":gpk", item::s(held_partition(row.key.source())))
    .with(":exp", item::ms(hold.expires))
    .with(":att", item::n(row.attempts.saturating_sub(1)))
    .with(":sv", item::n(PARKED_SCHEMA))
    .with(":zero", item::n(0))
    .history(row, HELD, &note, now)
    .effects(effects)
}

/// Ends a hold: the event is open again, and the effect may run with the plan that was held. DynamoDB
/// refuses an approval after the end of the hold.
pub fn approve(row: &Row, hold: &Hold, approval: &Approval, why: &str, now: UnixMillis) -> Change {
    let by = By {
        who: &approval.who,
        why,
    };
    // A worker outside of Lambda finds the event in the index. The processor gets a message.
    let (part, look) = match row.pull {
        Some(_) => (pull_partition(&row.key), now),
        None => (work_partition(&row.key.pk()), now + FIRST_LOOK),
    };
    Change::new(
        "approve a held event",
        &format!("{SEEN_HELD} AND gsk > :now"),
        "SET apv.#n = :apv, gpk = :gpk, gsk = :look, enq = :now, sv = :sv, h = :h \
         REMOVE hld ADD epoch :one",
    )
    .of_hold(row, hold, (APPROVED, by), now)
    .named("#n", &hold.effect)
    .with(":apv", item::s(approval.to_string()))
    .with(":gpk", item::s(part))
    .with(":look", item::ms(look))
    .with(":now", item::ms(now))
}

/// Ends a hold in a dead letter, as an operator decided.
pub fn reject(row: &Row, hold: &Hold, by: By<'_>, now: UnixMillis) -> Change {
    Change::new("reject a held event", SEEN_HELD, TO_DEAD_LETTER).ended(
        row,
        hold,
        (REJECTED, by),
        now,
    )
}

/// Ends a hold in a dead letter, because no operator decided in time.
pub fn expire(row: &Row, hold: &Hold, now: UnixMillis) -> Change {
    let by = By { who: "", why: "" };
    Change::new(
        "end a hold that expired",
        &format!("{SEEN_HELD} AND gsk <= :now"),
        TO_DEAD_LETTER,
    )
    .ended(row, hold, (EXPIRED, by), now)
}

const TO_DEAD_LETTER: &str = "SET st = :dead_letter, reason = :reason, err = :err, dead_at = :now, \
     gpk = :gpk, gsk = :now, sv = :sv, h = :h REMOVE hld ADD epoch :one";

impl Change {
    /// Sets the values of a change that ends a hold.
    fn of_hold(self, row: &Row, hold: &Hold, (what, by): (&str, By<'_>), now: UnixMillis) -> Self {
        let short = |text: &str| text.chars().take(200).collect::<String>();
        let moment = Moment {
            at: now,
            what: what.to_owned(),
            attempt: row.attempts,
            lease_until: None,
            owner: short(by.who),
            note: short(by.why),
        };
        self.states(&[State::Received])
            .with(":id", item::s(&hold.id))
            .with(":seen", item::n(row.epoch))
            .with(":sv", item::n(hold.version))
            .with(":one", item::n(1))
            .moment(row, &moment)
    }

    fn ended(self, row: &Row, hold: &Hold, why: (&str, By<'_>), now: UnixMillis) -> Self {
        let (reason, by) = why;
        let said = match by.why {
            "" => String::new(),
            why => format!(": {why}"),
        };
        let error = format!("{reason} (rule {} of {}){said}", hold.rule, hold.effect);
        self.dead(row, reason, &error, now)
            .of_hold(row, hold, why, now)
            .leaves_queue(row)
    }
}
