//! Limits the rate at which one process stores the requests of each source. For requests that wait
//! for a document, the limit applies to each source and sender. The process checks the limit before
//! any call. This module makes no calls.

use std::collections::HashMap;
use std::time::Duration;

use crate::base::clock::UnixMillis;

/// The number of requests of a source that a process stores in one burst.
const BURST: f64 = 50.0;

/// The number of further requests in each second.
const PER_SECOND: f64 = 5.0;

/// How long the process makes no call after a failed call. So a flood of requests does not load a
/// failing table.
const PAUSE: Duration = Duration::from_secs(30);

/// The maximum number of buckets in memory. If more senders appear, all buckets are cleared. Too
/// many requests are then allowed for a short time, but the quotas in the table still limit them.
const MOST_BUCKETS: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct RateLimiter(HashMap<String, Bucket>);

#[derive(Debug)]
struct Bucket {
    allowance: f64,
    filled_at: UnixMillis,
    paused_at: Option<UnixMillis>,
    /// The day or the hour whose quota is used up.
    full_on: Option<String>,
}

impl RateLimiter {
    /// Returns whether one more call to the table is allowed for this source or sender. `span` is
    /// the day or the hour of the quota.
    pub(super) fn permit(&mut self, name: &str, span: &str, now: UnixMillis) -> bool {
        let bucket = self.bucket(name, now);
        let earned = now.since(bucket.filled_at).as_secs_f64() * PER_SECOND;
        bucket.allowance = (bucket.allowance + earned).min(BURST);
        bucket.filled_at = now;
        let paused = bucket.paused_at.is_some_and(|at| now.since(at) < PAUSE);
        let full = bucket.full_on.as_deref() == Some(span);
        if paused || full || bucket.allowance < 1.0 {
            return false;
        }
        bucket.allowance -= 1.0;
        true
    }

    pub(super) fn is_full(&mut self, name: &str, span: &str, now: UnixMillis) {
        self.bucket(name, now).full_on = Some(span.to_owned());
    }

    pub(super) fn failed(&mut self, name: &str, now: UnixMillis) {
        self.bucket(name, now).paused_at = Some(now);
    }

    fn bucket(&mut self, name: &str, now: UnixMillis) -> &mut Bucket {
        if self.0.len() >= MOST_BUCKETS && !self.0.contains_key(name) {
            self.0.clear();
        }
        self.0.entry(name.to_owned()).or_insert(Bucket {
            allowance: BURST,
            filled_at: now,
            paused_at: None,
            full_on: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortly before midnight.
    const NOW: UnixMillis = UnixMillis(1_795_219_195_000);

    const TODAY: &str = "20261120";

    fn let_in(gate: &mut RateLimiter, tries: u32, now: UnixMillis) -> usize {
        let tries = (0..tries).filter(|_| gate.permit("s", TODAY, now));
        tries.count()
    }

    #[test]
    fn a_burst_passes_and_then_five_in_a_second() {
        let mut gate = RateLimiter::default();
        assert_eq!(let_in(&mut gate, 1_000, NOW), 50);
        assert_eq!(let_in(&mut gate, 1_000, NOW + Duration::from_secs(1)), 5);
        // A clock that goes backwards adds nothing.
        assert_eq!(let_in(&mut gate, 1_000, NOW), 0);
        assert!(gate.permit("another source", TODAY, NOW));
        let days = Duration::from_secs(1_000_000);
        assert_eq!(let_in(&mut gate, 1_000, NOW + days), 50);
    }

    #[test]
    fn a_spent_budget_is_asked_for_again_on_the_next_day_only() {
        let mut gate = RateLimiter::default();
        gate.is_full("s", TODAY, NOW);
        assert_eq!(let_in(&mut gate, 10, NOW), 0);
        assert!(gate.permit("another source", TODAY, NOW));
        assert!(gate.permit("s", "20261121", NOW + Duration::from_secs(10)));
    }

    #[test]
    fn the_doors_that_are_remembered_are_bounded() {
        let mut gate = RateLimiter::default();
        for name in 0..10_000 {
            assert!(gate.permit(&name.to_string(), TODAY, NOW));
        }
        assert!(gate.0.len() <= MOST_BUCKETS);
    }

    #[test]
    fn a_table_that_failed_is_left_alone_for_a_while() {
        let mut gate = RateLimiter::default();
        gate.failed("s", NOW);
        assert_eq!(let_in(&mut gate, 10, NOW + Duration::from_secs(29)), 0);
        assert!(gate.permit("s", TODAY, NOW + Duration::from_secs(30)));
    }
}
