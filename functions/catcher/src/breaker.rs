//! The circuit breaker of the ledger: after several failures, events go directly to the spill queue
//! for some time, so that senders do not wait for the ledger.
//!
//! Each process has its own state in memory, and correctness does not depend on it. The current
//! time is an argument.

use std::time::Duration;

use shared::base::clock::UnixMillis;

/// Consecutive failures that open the breaker.
const FAILURES: u32 = 3;

/// The time for which the breaker is open at first. Each failed try doubles the time, up to
/// [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(5);

const LONGEST: Duration = Duration::from_secs(60);

/// The store that the catcher tries first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstStore {
    Ledger,
    Spill,
}

/// The failures of the ledger that this process has seen since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaker {
    failures: u32,
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    since: UnixMillis,
    wait: Duration,
}

impl Breaker {
    /// Returns the first store for the next event. After each wait, the catcher tries the ledger
    /// with one event. The other events go to the spill queue until the result of this try is known.
    pub(crate) fn first_store(&mut self, now: UnixMillis) -> FirstStore {
        let Some(open) = &mut self.open else {
            return FirstStore::Ledger;
        };
        // If the clock was set back, the breaker must not stay open.
        let waits = open.since <= now && now.since(open.since) < open.wait;
        if waits {
            return FirstStore::Spill;
        }
        open.since = now;
        FirstStore::Ledger
    }

    /// Records that the ledger answered, with any result.
    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Records that the ledger did not answer, or is unavailable.
    pub(crate) fn failed(&mut self, now: UnixMillis) {
        self.failures = self.failures.saturating_add(1);
        let wait = match self.open {
            Some(open) => (open.wait * 2).min(LONGEST),
            None if self.failures >= FAILURES => SHORTEST,
            None => return,
        };
        self.open = Some(Open { since: now, wait });
    }

    /// Closes the breaker, because the spill queue failed and the ledger is the only store left.
    pub(crate) fn force_closed(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(secs: u64) -> UnixMillis {
        UnixMillis(1_795_000_000_000) + Duration::from_secs(secs)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES {
            assert_eq!(breaker.first_store(after(0)), FirstStore::Ledger);
            breaker.failed(after(0));
        }
        breaker
    }

    #[test]
    fn a_few_failures_in_a_row_open_it_and_an_answer_in_between_does_not() {
        assert_eq!(opened().first_store(after(1)), FirstStore::Spill);
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.failed(after(0));
            breaker.failed(after(0));
            breaker.answered();
        }
        assert_eq!(breaker.first_store(after(0)), FirstStore::Ledger);
    }

    #[test]
    fn after_the_wait_one_event_tries_and_the_others_do_not() {
        let mut breaker = opened();
        assert_eq!(breaker.first_store(after(4)), FirstStore::Spill);
        assert_eq!(breaker.first_store(after(5)), FirstStore::Ledger);
        assert_eq!(breaker.first_store(after(5)), FirstStore::Spill);
        assert_eq!(breaker.first_store(after(9)), FirstStore::Spill);
        // The result of the first try is unknown, because its process may have been frozen.
        assert_eq!(breaker.first_store(after(10)), FirstStore::Ledger);
    }

    #[test]
    fn each_failed_try_doubles_the_wait_up_to_a_minute() {
        let (mut breaker, mut at) = (opened(), 0);
        for wait in [5, 10, 20, 40, 60, 60] {
            assert_eq!(
                breaker.first_store(after(at + wait - 1)),
                FirstStore::Spill,
                "{wait}"
            );
            at += wait;
            assert_eq!(breaker.first_store(after(at)), FirstStore::Ledger, "{wait}");
            breaker.failed(after(at));
        }
    }

    #[test]
    fn one_answer_closes_it() {
        let mut breaker = opened();
        assert_eq!(breaker.first_store(after(5)), FirstStore::Ledger);
        breaker.answered();
        assert_eq!(breaker, Breaker::default());
        breaker.failed(after(6));
        assert_eq!(breaker.first_store(after(6)), FirstStore::Ledger);
    }

    #[test]
    fn it_is_not_open_without_the_spill_queue() {
        let mut breaker = opened();
        breaker.force_closed();
        assert_eq!(breaker.first_store(after(0)), FirstStore::Ledger);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_keep_it_open() {
        let mut breaker = opened();
        assert_eq!(breaker.first_store(UnixMillis(0)), FirstStore::Ledger);
    }
}
