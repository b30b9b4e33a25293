//! Limits the log lines about anonymous requests, so that a flood of requests does not cause high
//! log costs.
//!
//! Each process has its own state in memory, and correctness does not depend on it. The counts are
//! complete, because each line contains the number of requests that it represents.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shared::base::clock::UnixMillis;

/// The number of requests of one kind and one source in a minute that get a line each.
const EACH: u64 = 10;

/// The number of requests that share one line, after the first ones.
const SHARED: u64 = 100;

const MINUTE: Duration = Duration::from_secs(60);

/// The kinds of requests that the log distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    NotVerified,
    TooLarge,
    /// The request waits for a key that has to be fetched.
    Waits,
    /// The request exceeds a limit for requests of this kind.
    Crowded,
    /// The inbox could not verify the request for a reason that the sender did not cause.
    Undecided,
    /// The secrets or keys could not be read.
    Failed,
    /// A handshake was answered.
    Handshake,
    /// A handshake tried to set a secret, but the source already has one.
    Armed,
    /// The secret that a handshake sets could not be stored.
    NotArmed,
    /// The quarantine has reached its limit for today.
    Full,
    /// The request could not be quarantined.
    NotKept,
    /// A request of a trial, or the answer of its route, could not be recorded.
    NotRecorded,
    /// Mitt would refuse a request of a trial without storing it.
    Refused,
    /// The route of a trial answered a request that is not an event.
    Route,
}

/// The requests that this process has seen.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<HashMap<(Kind, String), Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    since: UnixMillis,
    lines: u64,
    /// The number of requests that no line has counted yet.
    untold: u64,
}

impl LogThrottle {
    /// Counts a request. Returns the number of requests that its line represents, or `None` if the
    /// request gets no line.
    pub(crate) fn permit(&self, kind: Kind, source: &str, now: UnixMillis) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The operator configures the sources, so their number is small.
        let seen = all.entry((kind, source.to_owned())).or_insert(Seen {
            since: now,
            lines: 0,
            untold: 0,
        });
        // If the clock was set back, a new minute begins as well.
        if now < seen.since || now.since(seen.since) >= MINUTE {
            seen.since = now;
            seen.lines = 0;
        }
        seen.untold += 1;
        if seen.lines >= EACH && seen.untold < SHARED {
            return None;
        }
        seen.lines += 1;
        Some(std::mem::take(&mut seen.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_219_195_000);

    /// Returns the numbers in the lines for this many requests at one time.
    fn lines(refusals: &LogThrottle, source: &str, count: usize, now: UnixMillis) -> Vec<u64> {
        let told = (0..count).map(|_| refusals.permit(Kind::NotVerified, source, now));
        told.flatten().collect()
    }

    #[test]
    fn a_few_are_told_one_by_one_and_a_flood_by_the_hundred() {
        let refusals = LogThrottle::default();
        assert_eq!(lines(&refusals, "s", 10, NOW), [1; 10]);
        assert_eq!(lines(&refusals, "s", 250, NOW), [100, 100]);
        assert_eq!(lines(&refusals, "another", 2, NOW), [1, 1]);
        assert_eq!(refusals.permit(Kind::TooLarge, "s", NOW), Some(1));
    }

    #[test]
    fn what_was_not_told_is_in_the_next_minutes_first_line() {
        let refusals = LogThrottle::default();
        assert_eq!(lines(&refusals, "s", 60, NOW), [1; 10]);
        assert_eq!(lines(&refusals, "s", 1, NOW + MINUTE), [51]);
        assert_eq!(lines(&refusals, "s", 1, NOW + MINUTE), [1]);
    }

    #[test]
    fn a_clock_that_goes_backwards_silences_nobody() {
        let refusals = LogThrottle::default();
        assert_eq!(lines(&refusals, "s", 20, NOW), [1; 10]);
        assert_eq!(lines(&refusals, "s", 1, NOW - MINUTE), [11]);
    }
}
