//! Keeps the answers of destinations to attempts that did not succeed.
//!
//! The text of an answer can contain parts of the event. It goes into the row and into the item of
//! the answer, and never into a log.

use std::time::Duration;

use shared::aws::outbound::{Answer, SendError};
use shared::base::clock::UnixMillis;
use shared::delivery::answers::{Excerpt, KeptAnswer, excerpt};
use shared::inbox::ledger::{Lease, Settlement};
use shared::inbox::outcome::Outcome;
use shared::sources::Action;

use crate::Processor;

/// What a destination answered to the last call of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastAnswer {
    status: Option<u16>,
    request_id: Option<String>,
    content_type: Option<String>,
    said: Option<Excerpt>,
}

/// The error of an action, and what its destination said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    error: String,
    text: String,
}

impl LastAnswer {
    /// Takes what is kept of a response. `keep_text` is the setting of the action.
    pub(crate) fn of(answer: &Result<Answer, SendError>, keep_text: bool) -> Self {
        let Ok(answer) = answer else {
            return Self {
                status: None,
                request_id: None,
                content_type: None,
                said: None,
            };
        };
        let body = answer.body.as_deref().filter(|_| keep_text);
        Self {
            status: Some(answer.status),
            request_id: answer.request_id.clone(),
            content_type: answer.content_type.clone(),
            said: body.and_then(|body| excerpt(answer.content_type.as_deref(), body)),
        }
    }
}

impl Processor {
    /// Keeps the answer to an attempt that did not succeed, while the worker holds the lease.
    /// Returns what the destination said, for the error of the event.
    pub(crate) async fn keep_answer(
        &self,
        action: &Action,
        lease: &Lease,
        last: LastAnswer,
        took: Duration,
        outcome: &Outcome,
    ) -> Option<Quote> {
        let at = (self.clock)();
        let quote = quote(outcome, last.said.as_ref());
        if lease.holds(at) {
            let kept = kept(action, lease, last, took, at);
            if let Err(error) = self.answers.keep(&lease.row, &kept).await {
                let id = lease.row.id();
                tracing::warn!(event.id = %id, action = action.name, error = format!("{error:#}"), "could not keep the answer of a destination for {id}");
            }
        }
        quote
    }
}

fn kept(
    action: &Action,
    lease: &Lease,
    last: LastAnswer,
    took: Duration,
    at: UnixMillis,
) -> KeptAnswer {
    KeptAnswer {
        effect: action.name.clone(),
        run: lease.row.run,
        attempt: lease.row.attempts,
        at,
        took,
        status: last.status,
        request_id: last.request_id,
        content_type: last.content_type,
        text: last.said.map(|said| said.text),
    }
}

fn quote(outcome: &Outcome, said: Option<&Excerpt>) -> Option<Quote> {
    let error = match outcome {
        Outcome::Retry { error, .. }
        | Outcome::Refused { error, .. }
        | Outcome::Permanent { error }
        | Outcome::Unknown { error } => error.clone(),
        Outcome::Done
        | Outcome::Deferred { .. }
        | Outcome::Held(_)
        | Outcome::Unsendable { .. } => return None,
    };
    let text = said?.in_error.clone()?;
    Some(Quote { error, text })
}

/// Adds to the error of a settlement what the destination said.
pub(crate) fn quoting(settlement: &Settlement, quotes: &[Quote]) -> Settlement {
    let error = settlement.error().unwrap_or_default();
    let mut quotes = quotes.iter();
    match quotes.find(|quote| error.starts_with(&quote.error)) {
        Some(quote) => settlement.clone().quoting(&quote.text),
        None => settlement.clone(),
    }
}
