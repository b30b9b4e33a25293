//! Counts the results of the calls of one process to one destination. This module makes no calls.

use std::time::Duration;

use crate::base::clock::UnixMillis;

/// The number of consecutive failures that opens the breaker.
const IN_A_ROW: u32 = 5;

/// A failed call counts once more for each such time that it took, because its process received no
/// messages meanwhile.
pub const LONG: Duration = Duration::from_secs(10);

/// The most that one failed call counts. One call that takes very long must not open the breaker.
const MOST: u32 = 3;

/// The different events that a destination refuses in a row before it counts as down. One event
/// that it refuses each time is one.
const REFUSED_IN_A_ROW: usize = 10;

/// The fewest calls in a minute for which the share of failures can open the breaker.
const ENOUGH: u32 = 20;

/// Below this number of calls in a minute, a destination does not count as strained.
const SOME: u32 = 10;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Health {
    in_a_row: u32,
    minute: UnixMillis,
    calls: u32,
    failures: u32,
    /// The events that were refused since the last other answer, by their hash.
    refused: Vec<u64>,
}

impl Health {
    /// Counts a failed call that took this long. Returns whether the destination counts as down.
    pub(super) fn note_failure(&mut self, took: Duration, now: UnixMillis) -> bool {
        let times = u32::try_from(took.as_secs() / LONG.as_secs()).unwrap_or(MOST);
        let more = times.saturating_add(1).min(MOST) - 1;
        self.in_a_row += more;
        self.note(false, now)
    }

    /// Counts a call. Returns whether the destination counts as down.
    pub(super) fn note(&mut self, well: bool, now: UnixMillis) -> bool {
        if now.since(self.minute) >= MINUTE {
            (self.minute, self.calls, self.failures) = (now, 0, 0);
        }
        self.calls += 1;
        self.refused.clear();
        if well {
            self.in_a_row = 0;
            return false;
        }
        self.in_a_row += 1;
        self.failures += 1;
        self.in_a_row >= IN_A_ROW || (self.calls >= ENOUGH && self.failures * 2 >= self.calls)
    }

    /// Counts a call that the destination refused. Returns whether the destination counts as down.
    /// The destination answered, so the call is not a failure.
    pub(super) fn note_refused(&mut self, event: u64, now: UnixMillis) -> bool {
        let mut refused = std::mem::take(&mut self.refused);
        self.note(true, now);
        if !refused.contains(&event) {
            refused.push(event);
        }
        self.refused = refused;
        self.refused.len() >= REFUSED_IN_A_ROW
    }

    /// Forgets the refusals. Another process changed the breaker after them.
    pub(super) fn forget_refused(&mut self) {
        self.refused.clear();
    }

    /// Returns whether at least a fifth of the calls in the current minute failed. Old events
    /// should then wait.
    pub(super) fn is_strained(&self, now: UnixMillis) -> bool {
        let recent = now.since(self.minute) < MINUTE;
        recent && self.calls >= SOME && self.failures * 5 >= self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

    /// Returns the number of the call that opens the breaker, counted from 1.
    fn trips(calls: impl Iterator<Item = bool>, every: Duration) -> Option<usize> {
        let (mut health, mut now) = (Health::default(), NOW);
        let mut tripped = calls.map(|well| {
            now = now + every;
            health.note(well, now)
        });
        tripped.position(|tripped| tripped).map(|index| index + 1)
    }

    #[test]
    fn five_failures_in_a_row_trip_it_however_rare() {
        let hour = Duration::from_secs(3600);
        assert_eq!(trips([false; 9].into_iter(), hour), Some(5));
        let mended = [false, false, false, false, true, false, false, false, false];
        assert_eq!(trips(mended.into_iter(), hour), None);
    }

    #[test]
    fn calls_that_hang_trip_it_sooner_but_one_never_does() {
        for (seconds, calls) in [(0, 5), (2, 5), (9, 5), (10, 3), (20, 2), (480, 2)] {
            let mut health = Health::default();
            let took = Duration::from_secs(seconds);
            let tripped = (1..=9).find(|_| health.note_failure(took, NOW));
            assert_eq!(tripped, Some(calls), "{seconds} s");
            // A success resets the count.
            let mut health = Health::default();
            let hangs = (0..9).any(|_| health.note_failure(took, NOW) || health.note(true, NOW));
            assert!(!hangs, "{seconds} s");
        }
    }

    #[test]
    fn a_fifth_of_ten_strains_it_for_its_minute() {
        let of = |failures: u32, calls: u32| {
            let mut health = Health::default();
            for call in 0..calls {
                health.note(call >= failures, NOW);
            }
            health
        };
        assert!(of(2, 10).is_strained(NOW));
        assert!(!of(1, 10).is_strained(NOW));
        assert!(!of(4, 9).is_strained(NOW));
        assert!(!of(2, 10).is_strained(NOW + MINUTE));
    }

    #[test]
    fn half_of_twenty_in_a_minute_trip_it() {
        let second = Duration::from_secs(1);
        // Every second call fails.
        let half = (0..60).map(|call| call % 2 == 0);
        assert_eq!(trips(half.clone(), second), Some(20));
        // Twenty calls take longer than a minute.
        assert_eq!(trips(half, Duration::from_secs(4)), None);
        let third = (0..600).map(|call| call % 3 != 0);
        assert_eq!(trips(third, second), None);
    }

    #[test]
    fn ten_different_refused_events_in_a_row_trip_it() {
        let mut health = Health::default();
        // One event, however often.
        assert!((0..100).all(|_| !health.note_refused(1, NOW)));
        assert!((2..10).all(|event| !health.note_refused(event, NOW)));
        assert!(!health.note_refused(1, NOW));
        assert!(health.note_refused(10, NOW));
        // A success or a failure resets the count.
        for well in [true, false] {
            let mut health = Health::default();
            for round in 0..20 {
                assert!(
                    (0..9).all(|event| !health.note_refused(event, NOW)),
                    "{round}"
                );
                assert!(!health.note(well, NOW + MINUTE * 2 * round));
                if !well {
                    health.note(true, NOW + MINUTE * 2 * round);
                }
            }
        }
        // Refusals are no failures.
        let mut health = Health::default();
        assert!((0..40).all(|_| !health.note_refused(1, NOW)));
        assert!(!health.is_strained(NOW));
    }
}
