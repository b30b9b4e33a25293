//! The schedule for retries of failed attempts.

use std::time::Duration;

/// The waits between attempts, and the number of attempts in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub attempts: u32,
    /// If there are more attempts than waits, the last wait repeats.
    pub waits: Vec<Duration>,
}

/// The maximum wait that a destination can request with `Retry-After`.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(2 * 3600);

/// After this number of attempts without a result, Mitt assumes that the event crashes its worker.
pub const CRASHES: u32 = 3;

impl Default for Backoff {
    /// The nine waits take 10 h 36 min in total. They end within 24 hours, because destinations
    /// such as Stripe store an idempotency key for this time.
    fn default() -> Self {
        Self {
            attempts: 10,
            waits: [10, 60, 300, 1800, 7200].map(Duration::from_secs).into(),
        }
    }
}

impl Backoff {
    /// Returns the wait after the given attempt, counted from 1. `jitter` in 0..=1 adds up to a
    /// fifth of the wait, so that events that failed together are not retried together. The wait is
    /// never shorter than the schedule. It is also never shorter than the `Retry-After` of the
    /// destination, which is limited to [`LONGEST_RETRY_AFTER`].
    pub fn wait(&self, attempt: u32, asked: Option<Duration>, jitter: f64) -> Duration {
        let index = (attempt.max(1) as usize - 1).min(self.waits.len().saturating_sub(1));
        let wait = self.waits.get(index).copied().unwrap_or_default();
        let asked = asked.unwrap_or_default().min(LONGEST_RETRY_AFTER);
        wait.max(asked).mul_f64(1.0 + 0.2 * jitter.clamp(0.0, 1.0))
    }

    /// Returns how many attempts of a run begin at most `span` after the first, without jitter. At
    /// least one.
    pub fn attempts_within(&self, span: Duration) -> u32 {
        let mut since_first = Duration::ZERO;
        for attempt in 1..self.attempts {
            since_first = since_first.saturating_add(self.wait(attempt, None, 0.0));
            if since_first > span {
                return attempt;
            }
        }
        self.attempts
    }
}

/// A random number in 0..1 for [`Backoff::wait`].
pub fn jitter() -> f64 {
    let mut bytes = [0; 2];
    // If no random bytes are available, the wait has no jitter. Without jitter, some retries occur
    // at the same time, but each event still gets its retry.
    if crate::base::random::fill(&mut bytes).is_err() {
        return 0.0;
    }
    f64::from(u16::from_le_bytes(bytes)) / 65536.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_the_schedule_and_are_never_early() {
        let backoff = Backoff::default();
        let plain: Vec<u64> = (1..=7)
            .map(|n| backoff.wait(n, None, 0.0).as_secs())
            .collect();
        assert_eq!(plain, [10, 60, 300, 1800, 7200, 7200, 7200]);
        for attempt in 0..20 {
            for jitter in [0.0, 0.3, 1.0, 7.0, -3.0] {
                let (wait, base) = (
                    backoff.wait(attempt, None, jitter),
                    backoff.wait(attempt, None, 0.0),
                );
                assert!(base <= wait && wait <= base.mul_f64(1.2001));
            }
        }
        let total: u64 = (1..backoff.attempts)
            .map(|n| backoff.wait(n, None, 0.0).as_secs())
            .sum();
        assert_eq!(total, 10 * 3600 + 36 * 60 + 10);
    }

    #[test]
    fn what_the_downstream_asks_for_is_honoured_up_to_two_hours() {
        let backoff = Backoff::default();
        assert_eq!(
            backoff
                .wait(1, Some(Duration::from_secs(120)), 0.0)
                .as_secs(),
            120
        );
        assert_eq!(
            backoff.wait(1, Some(Duration::from_secs(3)), 0.0).as_secs(),
            10
        );
        assert_eq!(backoff.wait(1, Some(Duration::MAX), 0.0).as_secs(), 7200);
    }

    #[test]
    fn attempts_within_a_span_follow_the_schedule() {
        let backoff = Backoff::default();
        let of = |secs| backoff.attempts_within(Duration::from_secs(secs));
        // The attempts begin at 0, 10 s, 70 s, 370 s, 2170 s, 9370 s and then every two hours.
        for (secs, attempts) in [
            (0, 1),
            (9, 1),
            (10, 2),
            (69, 2),
            (70, 3),
            (370, 4),
            (2_170, 5),
            (9_370, 6),
            (3 * 3_600, 6),
            (24 * 3_600, 10),
        ] {
            assert_eq!(of(secs), attempts, "{secs}");
        }
        let one = Backoff {
            attempts: 1,
            waits: Vec::new(),
        };
        assert_eq!(one.attempts_within(Duration::MAX), 1);
    }

    #[test]
    fn what_failed_together_is_spread_over_the_whole_of_the_extra_wait() {
        let drawn: Vec<f64> = (0..1_000).map(|_| jitter()).collect();
        assert!(drawn.iter().all(|jitter| (0.0..1.0).contains(jitter)));
        for tenth in 0..10 {
            let part = f64::from(tenth) / 10.0..f64::from(tenth + 1) / 10.0;
            assert!(drawn.iter().any(|jitter| part.contains(jitter)), "{part:?}");
        }
    }
}
