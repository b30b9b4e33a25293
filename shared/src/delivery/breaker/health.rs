//! Counts the results of the calls of one process to one destination. This module makes no calls.

use std::time::Duration;

use crate::base::clock::UnixMillis;

/// The number of consecutive failures that opens the breaker.
const IN_A_ROW: u32 = 5;

/// Below this number of calls in a minute, the share of failures does not open the breaker.
const ENOUGH: u32 = 20;

/// Below this number of calls in a minute, a destination does not count as strained.
const SOME: u32 = 10;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Health {
    in_a_row: u32,
    minute: UnixMillis,
    calls: u32,
    failures: u32,
}

impl Health {
    /// Counts a call. Returns whether the destination counts as down.
    pub(super) fn note(&mut self, well: bool, now: UnixMillis) -> bool {
        if now.since(self.minute) >= MINUTE {
            (self.minute, self.calls, self.failures) = (now, 0, 0);
        }
        self.calls += 1;
        if well {
            self.in_a_row = 0;
            return false;
        }
        self.in_a_row += 1;
        self.failures += 1;
        self.in_a_row >= IN_A_ROW || (self.calls >= ENOUGH && self.failures * 2 >= self.calls)
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
}
