//! Every change of a row that a trial recorded.
//!
//! Such a row has version [`TRIAL_SCHEMA`] and state `done`, and no code claims it. To process the
//! event after all, [`adopt`] or a replay sets the version that every release processes.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Change, work_partition};
use crate::base::clock::UnixMillis;
use crate::base::timing::FIRST_LOOK;
use crate::inbox::ledger::trial::{MOST_ANSWERS, RouteAnswer, TRIAL_SCHEMA};
use crate::inbox::ledger::{SCHEMA, State, item};
use crate::webhook::event::EventKey;

/// The reason of an event that a trial recorded and did not deliver.
pub const TEE: &str = "tee";

/// An answer of the route that was not recorded before. DynamoDB applies an update whose response
/// was lost, and the SDK then sends it again: `tew` names the last answer that was recorded.
const NEW_ANSWER: &str = "sv = :sv AND (attribute_not_exists(tew) OR tew <> :id)";

/// Appends an answer of the route to the row. DynamoDB refuses the change if the row has the
/// maximum number of answers, or if the event is no longer part of a trial.
pub fn append_answer(answer: &RouteAnswer, id: &str) -> Change {
    let change = Change::new(
        "record an answer of the route",
        &format!("{NEW_ANSWER} AND (attribute_not_exists(ten) OR ten < :most)"),
        "SET tew = :id, tat = :at, te = list_append(if_not_exists(te, :none), :te){first} ADD ten :one{accepted}",
    );
    change
        .answered(answer, id)
        .with(":most", item::n(MOST_ANSWERS))
        .with(":none", AttributeValue::L(Vec::new()))
        .with(":te", AttributeValue::L(vec![item::s(answer.to_string())]))
}

/// Only counts an answer of the route, for a row that has the maximum number of answers.
pub fn count_answer(answer: &RouteAnswer, id: &str) -> Change {
    let change = Change::new(
        "count an answer of the route",
        NEW_ANSWER,
        "SET tew = :id, tat = :at{first} ADD ten :one{accepted}",
    );
    change.answered(answer, id)
}

/// Moves an event that the route did not accept to `received`, in a new run. The event arrived
/// again after the trial ended.
///
/// The row gets the version of a usual row, so that a processor of the previous release can also
/// claim it. An erased row has no payload to process.
pub fn adopt(key: &EventKey, now: UnixMillis) -> Change {
    let pk = key.pk();
    Change::new(
        "adopt an event of a trial",
        "sv = :trial AND attribute_not_exists(tok) AND attribute_not_exists(erased_at)",
        "SET sv = :sv, st = :received, gpk = :gpk, gsk = :look, enq = :now \
         REMOVE #ttl, reason, done_at ADD epoch :one, run :one",
    )
    .states(&[State::Received])
    .named("#ttl", "ttl")
    .with(":trial", item::n(TRIAL_SCHEMA))
    .with(":sv", item::n(SCHEMA))
    .with(":gpk", item::s(work_partition(&pk)))
    .with(":look", item::ms(now + FIRST_LOOK))
    .with(":now", item::ms(now))
    .with(":one", item::n(1))
}

impl Change {
    /// Completes a change that counts an answer. An answer with a 2xx status is counted separately,
    /// and the time of the first one is kept.
    fn answered(mut self, answer: &RouteAnswer, id: &str) -> Self {
        let accepted = answer.is_accepted();
        let [first, count] = if accepted {
            [", tok = if_not_exists(tok, :at)", ", teok :one"]
        } else {
            ["", ""]
        };
        let update = self.update.replace("{first}", first);
        self.update = update.replace("{accepted}", count);
        self.with(":sv", item::n(TRIAL_SCHEMA))
            .with(":id", item::s(id))
            .with(":at", item::ms(answer.at))
            .with(":one", item::n(1))
    }
}
