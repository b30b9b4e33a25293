//! The answers of the route to the requests of an event that a trial recorded.

use std::fmt::Write as _;

use serde::Serialize;
use shared::inbox::ledger::{RouteAnswer, RouteOutcome, Row};

use crate::output::table::aligned;
use crate::output::time::{as_rfc3339, clock, rfc3339};

/// What a trial recorded about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrialSeen {
    /// Whether the event is done only because of the trial. No action has run.
    pub is_done_by_trial: bool,
    pub requests: u64,
    pub accepted: u64,
    pub first_accepted_at: Option<i64>,
    /// The first answers.
    pub answers: Vec<RouteSeen>,
}

/// One answer of the route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RouteSeen {
    #[serde(serialize_with = "as_rfc3339")]
    pub at: i64,
    /// `status`, `timeout` or `unreachable`.
    pub outcome: String,
    /// It is missing if the route did not answer.
    pub status: Option<u16>,
    pub took_ms: u64,
    pub mitt_alone_ms: Option<u64>,
    /// The first digits of the hash of the answer's body.
    pub answer_sha256: Option<String>,
    /// What Mitt would have done.
    pub verdict: String,
}

#[derive(Serialize)]
pub(super) struct TrialDocument<'v> {
    done_by_trial: bool,
    requests: u64,
    accepted: u64,
    first_accepted_at: Option<String>,
    answers: &'v [RouteSeen],
}

impl TrialSeen {
    /// Returns `None` for an event that was in no trial.
    pub(super) fn of(row: &Row) -> Option<Self> {
        let trial = &row.trial;
        if !row.is_trial() && trial.requests == 0 {
            return None;
        }
        Some(Self {
            is_done_by_trial: row.is_trial(),
            requests: trial.requests,
            accepted: trial.accepted,
            first_accepted_at: trial.first_accepted.map(|at| at.0),
            answers: trial.answers.iter().map(RouteSeen::of).collect(),
        })
    }
}

impl RouteSeen {
    fn of(answer: &RouteAnswer) -> Self {
        let millis =
            |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (outcome, status) = match answer.outcome {
            RouteOutcome::Status(status) => ("status".to_owned(), Some(status)),
            other => (other.to_string(), None),
        };
        Self {
            at: answer.at.0,
            outcome,
            status,
            took_ms: millis(answer.took),
            mitt_alone_ms: answer.own.map(millis),
            answer_sha256: Some(answer.hash.clone()).filter(|hash| !hash.is_empty()),
            verdict: answer.verdict.clone(),
        }
    }
}

pub(super) fn document(seen: &TrialSeen) -> TrialDocument<'_> {
    TrialDocument {
        done_by_trial: seen.is_done_by_trial,
        requests: seen.requests,
        accepted: seen.accepted,
        first_accepted_at: seen.first_accepted_at.map(rfc3339),
        answers: &seen.answers,
    }
}

/// Returns a section with a line for each answer. Returns an empty text for an event that was in no
/// trial.
pub(crate) fn route_section(seen: Option<&TrialSeen>, now_millis: i64) -> String {
    let Some(seen) = seen else {
        return String::new();
    };
    let row = |answer: &RouteSeen| {
        let outcome = answer.status.map(|status| status.to_string());
        vec![
            format!("  {}", clock(answer.at, now_millis)),
            outcome.unwrap_or_else(|| answer.outcome.clone()),
            format!("{} ms", answer.took_ms),
            answer.verdict.clone(),
        ]
    };
    let mut text = aligned(&seen.answers.iter().map(row).collect::<Vec<_>>());
    if seen.answers.is_empty() {
        text.push_str("  none recorded\n");
    }
    let more = seen.requests.saturating_sub(seen.answers.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    format!("\nAnswers of the route\n{text}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shared::base::clock::UnixMillis;

    use super::super::view::tests::{NOW, example};
    use super::*;

    fn seen() -> TrialSeen {
        let answer = |at, outcome, body: Option<&[u8]>| {
            let took = Duration::from_millis(212);
            let answer = RouteAnswer::new(UnixMillis(at), outcome, took, body, "new");
            RouteSeen::of(&answer.with_own(Duration::from_millis(9)))
        };
        TrialSeen {
            is_done_by_trial: true,
            requests: 3,
            accepted: 1,
            first_accepted_at: Some(NOW),
            answers: vec![
                answer(NOW - 60_000, RouteOutcome::Timeout, None),
                answer(NOW, RouteOutcome::Status(200), Some(b"ok")),
            ],
        }
    }

    #[test]
    fn the_answers_of_the_route_are_shown() {
        let text = route_section(Some(&seen()), NOW);
        assert_eq!(
            text,
            "\nAnswers of the route\n  \
             10:13:41.000  timeout  212 ms  new\n  \
             10:14:41.000  200      212 ms  new\n  \
             and 1 more\n"
        );
        assert_eq!(route_section(None, NOW), "");
    }

    #[test]
    fn an_event_of_a_trial_is_done_by_the_trial() {
        let mut view = example();
        view.status = shared::inbox::ledger::State::Done;
        view.trial = Some(seen());
        let text = crate::inspect::seven_lines(&view, NOW);
        assert!(text.contains("status         done (tee)\n"), "{text}");
        let json = serde_json::to_value(crate::inspect::document(&view, NOW)).unwrap();
        assert_eq!(json["status"], "done");
        let trial = &json["trial"];
        assert_eq!(trial["done_by_trial"], true);
        assert_eq!(trial["answers"][0]["outcome"], "timeout");
        assert_eq!(trial["answers"][1]["status"], 200);
        assert_eq!(trial["answers"][1]["mitt_alone_ms"], 9);
    }
}
