//! Evaluates a trial: which events the route lost, accepted more than once, answered slowly, or
//! accepted late. The functions are pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;
use crate::inbox::ledger::{RouteOutcome, Row};
use crate::webhook::event::EventKey;

/// An event is late if the route accepts it longer than this after the first request.
pub const LATE: Duration = Duration::from_secs(60);

string_enum! {
    /// What the trial found about an event. One event can have several findings.
    Finding {
        /// The route never answered 2xx, and the provider does not send the event again.
        Lost = "lost",
        /// The route answered 2xx more than once. It did the work again, unless it ignores events
        /// that it knows.
        Doubled = "doubled",
        /// The route needed longer than the limit to answer a request.
        Slow = "slow",
        /// The route first answered 2xx long after the first request.
        Late = "late",
    }
}

/// The limits of the findings.
#[derive(Clone, Copy, Debug)]
pub struct TrialLimits {
    /// How long the provider retries an event after a failed request.
    pub horizon: Duration,
    /// An answer that took longer is slow.
    pub slow: Duration,
}

/// The result of a trial, over the events that were added.
#[derive(Clone, Debug, Default)]
pub struct TrialReport {
    pub events: u64,
    /// The number of requests whose outcome is recorded.
    pub requests: u64,
    /// The number of events without a recorded outcome. The function ended before the answer, or
    /// the outcome could not be stored.
    pub unknown: u64,
    /// The number of recorded requests by outcome, such as `200` or `timeout`. At most the first
    /// ten requests of an event count.
    pub outcomes: BTreeMap<String, u64>,
    /// The events of each finding, in the order in which they were added.
    pub found: BTreeMap<&'static str, Vec<EventKey>>,
    took: Vec<Duration>,
}

impl TrialReport {
    /// Adds an event. Returns `false` for an event that was in no trial.
    pub fn add(&mut self, row: &Row, limits: TrialLimits, now: UnixMillis) -> bool {
        if !row.is_trial() && row.trial.requests == 0 {
            return false;
        }
        self.events += 1;
        self.requests += row.trial.requests;
        self.unknown += u64::from(row.trial.requests == 0);
        for answer in &row.trial.answers {
            let count = self.outcomes.entry(answer.outcome.to_string());
            *count.or_default() += 1;
            if is_response(answer.outcome) {
                self.took.push(answer.took);
            }
        }
        for finding in findings(row, limits, now) {
            let found = self.found.entry(finding.as_str()).or_default();
            found.push(row.key.clone());
        }
        true
    }

    /// Returns the events of a finding.
    pub fn with(&self, finding: Finding) -> &[EventKey] {
        let found = self.found.get(finding.as_str());
        found.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the time within which the route answered `percent` of the requests, without the
    /// requests that it did not answer. `None` if it answered no request.
    pub fn answered_within(&self, percent: usize) -> Option<Duration> {
        let mut took = self.took.clone();
        took.sort_unstable();
        let rank = (took.len() * percent.min(100)).div_ceil(100);
        took.get(rank.saturating_sub(1)).copied()
    }
}

/// Returns the findings about an event.
pub fn findings(row: &Row, limits: TrialLimits, now: UnixMillis) -> Vec<Finding> {
    let trial = &row.trial;
    let first = trial.answers.first();
    let begun = first.map_or(row.received_at, |first| first.at - first.took);
    let last = trial.last_answer.unwrap_or(row.received_at);
    let is_slow = trial
        .answers
        .iter()
        .any(|answer| is_response(answer.outcome) && answer.took > limits.slow);
    Finding::ALL
        .iter()
        .copied()
        .filter(|finding| match finding {
            // An event that was adopted or replayed is not lost.
            Finding::Lost => {
                row.is_trial() && trial.first_accepted.is_none() && now.since(last) > limits.horizon
            }
            Finding::Doubled => trial.accepted > 1,
            Finding::Slow => is_slow,
            Finding::Late => trial
                .first_accepted
                .is_some_and(|at| at.since(begun) > LATE),
        })
        .collect()
}

fn is_response(outcome: RouteOutcome) -> bool {
    matches!(outcome, RouteOutcome::Status(_))
}
