//! What the response of an HTTP destination means for the effect, and for the health of the
//! destination.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use shared::aws::outbound::{Answer, SendError};
use shared::base::backoff::LONGEST_RETRY_AFTER;
use shared::base::clock::UnixMillis;
use shared::delivery::breaker::CallResult;
use shared::delivery::effects::Effect;
use shared::inbox::outcome::Outcome;
use shared::sources::AnswerRules;
use shared::webhook::event::EventKey;

/// The shortest wait that a destination can ask for, so that its events do not come back in a loop.
const SHORTEST_RETRY_AFTER: Duration = Duration::from_secs(10);

/// How long after the first attempt an event is deferred because the destination asks for it.
/// Destinations remember an idempotency key for about a day.
const ASKED_FOR_AT_MOST: Duration = Duration::from_secs(24 * 3600);

/// What the meaning of a response depends on besides the response.
pub(super) struct Call<'c> {
    pub(super) rules: &'c AnswerRules,
    pub(super) now: UnixMillis,
    /// The first attempt of this run, if this is a later one.
    pub(super) first: Option<UnixMillis>,
    /// In 0..=1: spreads events that the destination deferred together.
    pub(super) jitter: f64,
}

/// Converts a response to an effect. Retries are safe if the receiver supports idempotency keys, so
/// only responses that a retry cannot change are permanent.
pub(super) fn effect(answer: Result<Answer, SendError>, call: &Call<'_>) -> Effect {
    let answer = match answer {
        Ok(answer) => answer,
        Err(SendError::NotSent(error)) => return Effect::NotApplied(Outcome::retry(error)),
        Err(SendError::OutcomeUnknown(error)) => return Effect::Unknown { error },
    };
    let (status, replayed, after) = (answer.status, answer.replayed, answer.retry_after);
    let error = error(status);
    if call.rules.is_success(status) {
        let note = status.to_string();
        return Effect::Done { note };
    }
    if call.rules.is_permanent(status) {
        return Effect::NotApplied(Outcome::permanent(error));
    }
    Effect::NotApplied(match status {
        // The receiver stored a response under the key. It would return the same response to a
        // retry.
        503 if replayed => return failed(error, replayed, None),
        300..=499 if replayed && !is_not_applied(status) => Outcome::permanent(error),
        429 | 503 if !replayed && after.is_some() => asked(error, after, call),
        // The receiver did not process the request. Retry later, or when the first request with
        // this key has ended.
        _ if is_not_applied(status) => Outcome::Retry { error, after },
        300..=499 if after.is_some() => asked(error, after, call),
        300..=499 => Outcome::Refused {
            error,
            after,
            within: call.rules.refused_for,
        },
        _ => return failed(error, replayed, after),
    })
}

/// Whether a response with this status says that the receiver did not process the request.
fn is_not_applied(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 503)
}

fn error(status: u16) -> String {
    match status {
        300..=399 => format!("the destination answered {status}; redirects are not followed"),
        _ => format!("the destination answered {status}"),
    }
}

fn failed(error: String, replayed: bool, after: Option<Duration>) -> Effect {
    Effect::Failed {
        error,
        replayed,
        after,
    }
}

/// Defers the event for the time that the destination asked for. A destination cannot do so
/// without end.
fn asked(error: String, after: Option<Duration>, call: &Call<'_>) -> Outcome {
    let wait = after
        .unwrap_or_default()
        .clamp(SHORTEST_RETRY_AFTER, LONGEST_RETRY_AFTER);
    let until = call.now + wait.mul_f64(1.0 + 0.2 * call.jitter.clamp(0.0, 1.0));
    let first = call.first.unwrap_or(call.now);
    if until.since(first) > ASKED_FOR_AT_MOST {
        return Outcome::Refused {
            error,
            after: Some(wait),
            within: call.rules.refused_for,
        };
    }
    Outcome::Deferred {
        why: format!("{error} and asked to wait {} s", wait.as_secs()),
        until,
        asked: true,
    }
}

/// Returns the health of the destination after a response. A destination that rejects one event is
/// still healthy.
pub(super) fn heard(
    answer: &Result<Answer, SendError>,
    rules: &AnswerRules,
    event: &EventKey,
) -> CallResult {
    let Ok(answer) = answer else {
        return CallResult::Failure;
    };
    match answer.status {
        status if rules.is_success(status) || rules.is_permanent(status) => CallResult::Success,
        408 | 429 | 500..=599 => CallResult::Failure,
        status @ (300..=399 | 400 | 401 | 403 | 404 | 405) if !answer.replayed => {
            CallResult::Refused {
                status,
                event: number(event),
            }
        }
        _ => CallResult::Success,
    }
}

/// A number that differs for different events.
fn number(event: &EventKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    event.pk().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
