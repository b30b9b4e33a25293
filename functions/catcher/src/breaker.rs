//! Whether the ledger is asked at all: one that has just failed several times is left alone for a
//! while, and senders do not wait for it.
//!
//! Of each process by itself, in memory: nothing depends on it. Time is an argument.

use std::time::Duration;

use shared::base::clock::UnixMillis;

/// Failures in a row after which the ledger is left alone.
const FAILURES: u32 = 3;

/// How long it is left alone at first. Each failed try doubles it.
const SHORTEST: Duration = Duration::from_secs(5);

const LONGEST: Duration = Duration::from_secs(60);

/// Which store is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstStore {
    Ledger,
    Spill,
}

/// The failures of the ledger that this process has seen since it last worked.
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
    /// The way of the next event. After each wait one event tries the ledger, and the others
    /// go on as before until it is known how that went.
    pub(crate) fn first_store(&mut self, now: UnixMillis) -> FirstStore {
        let Some(open) = &mut self.open else {
            return FirstStore::Ledger;
        };
        // A clock that was set back must not keep it open.
        let waits = open.since <= now && now.since(open.since) < open.wait;
        if waits {
            return FirstStore::Spill;
        }
        open.since = now;
        FirstStore::Ledger
    }

    /// The ledger answered, whatever it said.
    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    /// The ledger did not answer, or that it cannot.
    pub(crate) fn failed(&mut self, now: UnixMillis) {
        self.failures = self.failures.saturating_add(1);
        let wait = match self.open {
            Some(open) => (open.wait * 2).min(LONGEST),
            None if self.failures >= FAILURES => SHORTEST,
            None => return,
        };
        self.open = Some(Open { since: now, wait });
    }

    /// The spill queue failed: without it, the ledger is all there is.
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
        // Nobody heard of that try: its process may have been frozen in it.
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
