//! Which answers to anonymous requests get a line in the log: a flood of them must not become a bill.
//!
//! Of each process by itself, in memory: nothing depends on it. No answer is left out of the
//! count, because a line says for how many it stands.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shared::base::clock::UnixMillis;

/// Refusals of a kind and a source that get a line each, in a minute.
const EACH: u64 = 10;

/// Those that share a line after these.
const SHARED: u64 = 100;

const MINUTE: Duration = Duration::from_secs(60);

/// What was not let in, as far as the log tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    NotVerified,
    TooLarge,
    /// It waits for a key that has to be fetched.
    Waits,
    /// There is a bound for what it is, and it is beyond that.
    Crowded,
    /// Our own fault.
    Undecided,
    /// The secrets or keys could not be read.
    Failed,
    /// A handshake was answered.
    Handshake,
    /// A handshake wanted to set a secret, and the source has one.
    Armed,
    /// The secret of a handshake could not be stored.
    NotArmed,
    /// The quarantine has no room for it today.
    Full,
    /// It could not be quarantined.
    NotKept,
}

/// The refusals that this process has seen.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<HashMap<(Kind, String), Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    since: UnixMillis,
    lines: u64,
    /// Refusals that no line has told of yet.
    untold: u64,
}

impl LogThrottle {
    /// Takes one in, and says for how many its line stands; `None` is for no line.
    pub(crate) fn permit(&self, kind: Kind, source: &str, now: UnixMillis) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Sources are configured, never a sender's choice: they are few.
        let seen = all.entry((kind, source.to_owned())).or_insert(Seen {
            since: now,
            lines: 0,
            untold: 0,
        });
        // A clock that was set back begins anew as well.
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

    /// What the lines of so many refusals at one time stand for.
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
