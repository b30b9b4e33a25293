//! Evaluates a trial: which events the route lost, accepted more than once, answered slowly, or
//! accepted late. The functions are pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::UnixMillis;
use crate::base::string_enum::string_enum;
use crate::inbox::ledger::{RouteAnswer, RouteOutcome, Row};
use crate::webhook::event::EventKey;

/// An event is late if the route accepts it longer than this after the first request.
pub const LATE: Duration = Duration::from_secs(60);

/// If the route accepts another event within this time after the last request of a lost event, a
/// retry would probably have been accepted.
pub const RECOVERY: Duration = Duration::from_secs(600);

/// The outcome of a lost event without a recorded answer.
const NO_OUTCOME: &str = "unknown";

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
        /// No answer of the route is recorded. Mitt fetched the event from the provider, or the
        /// answer could not be recorded.
        Unknown = "unknown",
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
    /// The number of recorded requests by outcome, such as `200` or `timeout`. At most the first
    /// ten requests of an event count.
    pub outcomes: BTreeMap<String, u64>,
    /// The events of each finding, in the order in which they were added.
    pub found: BTreeMap<&'static str, Vec<EventKey>>,
    /// The number of lost events by the outcome of their last recorded request.
    pub lost_outcomes: BTreeMap<String, u64>,
    /// The number of events that the route has not accepted yet, and that the provider may send
    /// again.
    pub pending: u64,
    /// The longest time from the first request of an event until the route accepted it.
    pub longest_delay: Option<Duration>,
    /// The times in which the route answered, without the requests that it did not answer.
    pub took: Times,
    /// The times in which Mitt alone would have answered.
    pub own: Times,
    /// The times that Mitt added to a request.
    pub hop: Times,
    accepted_at: Vec<UnixMillis>,
    /// The time of the last request of each lost event.
    lost_at: Vec<UnixMillis>,
}

/// Durations, from which percentiles are computed.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl TrialReport {
    /// Adds an event. Returns `false` for an event that was in no trial.
    pub fn add(&mut self, row: &Row, limits: TrialLimits, now: UnixMillis) -> bool {
        if !row.is_trial() && row.trial.requests == 0 {
            return false;
        }
        self.events += 1;
        self.requests += row.trial.requests;
        for answer in &row.trial.answers {
            self.add_answer(answer);
        }
        let found = findings(row, limits, now);
        if found.contains(&Finding::Lost) {
            self.add_lost(row);
        } else if row.is_trial() && row.trial.requests > 0 && row.trial.first_accepted.is_none() {
            self.pending += 1;
        }
        if let Some(at) = row.trial.first_accepted {
            let delay = at.since(begun(row));
            self.longest_delay = self.longest_delay.max(Some(delay));
        }
        for finding in found {
            let found = self.found.entry(finding.as_str()).or_default();
            found.push(row.key.clone());
        }
        true
    }

    fn add_answer(&mut self, answer: &RouteAnswer) {
        let count = self.outcomes.entry(answer.outcome.to_string());
        *count.or_default() += 1;
        if is_response(answer.outcome) {
            self.took.0.push(answer.took);
        }
        if answer.is_accepted() {
            self.accepted_at.push(answer.at);
        }
        self.own.0.extend(answer.own);
        self.hop.0.extend(answer.hop);
    }

    fn add_lost(&mut self, row: &Row) {
        let last = row.trial.answers.last();
        let outcome = last.map_or(NO_OUTCOME.to_owned(), |last| last.outcome.to_string());
        *self.lost_outcomes.entry(outcome).or_default() += 1;
        self.lost_at.push(last_request(row));
    }

    /// Returns the events of a finding.
    pub fn with(&self, finding: Finding) -> &[EventKey] {
        let found = self.found.get(finding.as_str());
        found.map(Vec::as_slice).unwrap_or_default()
    }

    /// Estimates how many of the lost events the route would have accepted in a retry, because it
    /// accepted another event soon after their last request.
    pub fn recoverable(&self) -> usize {
        let mut accepted = self.accepted_at.clone();
        accepted.sort_unstable();
        let meets_healthy_route = |lost: &&UnixMillis| {
            let next = accepted.partition_point(|at| at <= *lost);
            let next = accepted.get(next);
            next.is_some_and(|next| next.since(**lost) <= RECOVERY)
        };
        self.lost_at.iter().filter(meets_healthy_route).count()
    }
}

impl Times {
    /// Returns the shortest time that `percent` of the durations do not exceed. `None` without
    /// durations.
    pub fn within(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent.min(100)).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied()
    }
}

/// Returns whether the route refused an event that Mitt would accept: it answered with a status
/// that means that the request is wrong, and never accepted the event.
pub fn is_refused(row: &Row) -> bool {
    let trial = &row.trial;
    let is_refusal = |answer: &RouteAnswer| match answer.outcome {
        // The route is busy.
        RouteOutcome::Status(408 | 425 | 429) => false,
        outcome => matches!(outcome, RouteOutcome::Status(400..=499)),
    };
    trial.first_accepted.is_none() && trial.answers.iter().any(is_refusal)
}

/// Returns the findings about an event.
pub fn findings(row: &Row, limits: TrialLimits, now: UnixMillis) -> Vec<Finding> {
    let trial = &row.trial;
    let begun = begun(row);
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
                row.is_trial()
                    && trial.requests > 0
                    && trial.first_accepted.is_none()
                    && now.since(last_request(row)) > limits.horizon
            }
            Finding::Doubled => trial.accepted > 1,
            Finding::Slow => is_slow,
            Finding::Late => trial
                .first_accepted
                .is_some_and(|at| at.since(begun) > LATE),
            Finding::Unknown => row.is_trial() && trial.requests == 0,
        })
        .collect()
}

/// Returns the time of the first request.
fn begun(row: &Row) -> UnixMillis {
    let first = row.trial.answers.first();
    first.map_or(row.received_at, |first| first.at - first.took)
}

fn last_request(row: &Row) -> UnixMillis {
    row.trial.last_answer.unwrap_or(row.received_at)
}

fn is_response(outcome: RouteOutcome) -> bool {
    matches!(outcome, RouteOutcome::Status(_))
}
