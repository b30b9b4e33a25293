//! Shows one event to an operator: as seven lines, with all details, as JSON, or as a row of a
//! list.

mod answer;
mod change;
mod document;
mod lines;
pub(crate) mod next_action;
mod of_row;
mod repeats;
mod request;
mod row;
mod trial;
mod view;

pub(crate) use answer::{Answer, lines as answer_lines};
pub(crate) use change::Change;
pub(crate) use document::{SCHEMA, document};
pub(crate) use lines::{full, later, seven_lines, with_timeline};
pub(crate) use of_row::is_superseded;
pub(crate) use of_row::{view, with_error};
pub(crate) use row::{EventRow, account, columns};
pub(crate) use trial::{TrialSeen, route_section};
#[cfg(test)]
pub(crate) use view::tests;
pub(crate) use view::{
    Account, Body, Effect, EventView, HoldSeen, LastError, Moment, Replay, RequestSeen, as_word,
};
