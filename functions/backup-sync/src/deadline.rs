//! The time of one run, and the deadlines of its parts.
//!
//! Lambda stops the function at its timeout. A task that still runs then cannot release its lease,
//! write its heartbeat or report the health of the inbox. Each part therefore ends before the
//! timeout.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use shared::base::clock::{Clock, UnixMillis};
use shared::base::timing::{BACKUP_SYNC, TURN};
use tokio::time::{Instant, timeout_at};

/// The start of 2020. A runtime without a clock, such as `cargo lambda`, passes an earlier
/// deadline.
const YEAR_2020: i64 = 1_577_836_800_000;

/// One run, from its start until Lambda ends it.
#[derive(Clone, Copy, Debug)]
pub struct RunTime {
    began: Instant,
    /// The time of this run as a fraction of [`BACKUP_SYNC`].
    scale: f64,
}

impl RunTime {
    /// Returns a run that starts now and that Lambda ends after `left`. The run uses at most
    /// [`BACKUP_SYNC`], so that it does not overlap the next run of the schedule.
    pub fn of(left: Duration) -> Self {
        Self {
            began: Instant::now(),
            scale: (left.as_secs_f64() / BACKUP_SYNC.as_secs_f64()).min(1.0),
        }
    }

    /// Returns a run with the deadline of a Lambda context, in milliseconds since 1970.
    pub fn before(deadline: u64, now: UnixMillis) -> Self {
        Self::of(match i64::try_from(deadline) {
            Ok(deadline) if deadline >= YEAR_2020 => UnixMillis(deadline).since(now),
            _ => BACKUP_SYNC,
        })
    }

    /// Returns the end of a part. In a full run, the part ends `part` after the start of the run.
    pub(crate) fn until(self, part: Duration) -> Instant {
        self.began + self.scaled(part)
    }

    /// Scales a duration of a full run to this run.
    pub(crate) fn scaled(self, time: Duration) -> Duration {
        time.mul_f64(self.scale)
    }

    /// Returns the end of the next turn, if `waiting` further turns have to end before `ends`. Each
    /// turn gets the same share of the time, but at least [`TURN`]. Returns `None` if the remaining
    /// time is too short for a turn.
    pub(crate) fn turn(self, ends: Instant, waiting: usize) -> Option<Instant> {
        let now = Instant::now();
        let (left, least) = (ends.saturating_duration_since(now), self.scaled(TURN));
        if left < least || left.is_zero() {
            return None;
        }
        let turns = u32::try_from(waiting.saturating_add(1)).unwrap_or(u32::MAX);
        Some(now + (left / turns).max(least))
    }
}

/// Converts an instant of this process to a time of its clock.
pub(crate) fn on(clock: Clock, at: Instant) -> UnixMillis {
    clock() + at.saturating_duration_since(Instant::now())
}

/// Cancels `work` at `ends`. This is the last resort for work that does not end by itself.
pub(crate) fn cut<'w, T: 'w>(
    ends: Instant,
    what: &'w str,
    work: impl Future<Output = anyhow::Result<T>> + 'w,
) -> LocalBoxFuture<'w, anyhow::Result<T>> {
    let done = timeout_at(ends, work);
    let done = done.map(move |done| {
        done.unwrap_or_else(|_| Err(anyhow::anyhow!("{what} timed out in this run")))
    });
    done.boxed_local()
}

/// Rotates a list to a random start, so that a lack of time does not always affect the same items.
pub(crate) fn from_anywhere<T>(mut things: Vec<T>) -> anyhow::Result<Vec<T>> {
    let mut chance = [0; 4];
    shared::base::random::fill(&mut chance)?;
    let first = u32::from_le_bytes(chance) as usize % things.len().max(1);
    things.rotate_left(first);
    Ok(things)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_219_195_000);

    fn seconds(time: RunTime) -> f64 {
        time.scaled(BACKUP_SYNC).as_secs_f64()
    }

    #[tokio::test]
    async fn a_run_has_the_time_that_lambda_gives_and_no_more() {
        for (deadline, whole) in [
            (NOW.0 + 300_000, 300.0),
            (NOW.0 + 900_000, 300.0),
            (NOW.0 + 3_000, 3.0),
            (NOW.0 - 1, 0.0),
            // A time in 1970.
            (600_000, 300.0),
            (0, 300.0),
        ] {
            let time = RunTime::before(u64::try_from(deadline).unwrap(), NOW);
            assert!((seconds(time) - whole).abs() < 0.001, "{deadline}");
        }
        assert!((seconds(RunTime::before(u64::MAX, NOW)) - 300.0).abs() < 0.001);
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_equal_shares_and_never_too_short() {
        let time = RunTime::of(BACKUP_SYNC);
        let ends = Instant::now() + Duration::from_secs(240);
        let turn = |waiting| {
            let turn = time.turn(ends, waiting);
            turn.map(|ends| (ends - Instant::now()).as_secs())
        };
        assert_eq!(turn(0), Some(240));
        assert_eq!(turn(3), Some(60));
        assert_eq!(turn(99), Some(20), "some are left for the next run");
        tokio::time::advance(Duration::from_secs(221)).await;
        assert_eq!(turn(0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_end_is_cut_off() {
        let ends = Instant::now() + Duration::from_secs(9);
        let never = std::future::pending::<anyhow::Result<()>>();
        let error = cut(ends, "the sync", never).await.unwrap_err();
        assert_eq!(error.to_string(), "the sync timed out in this run");
        assert_eq!(Instant::now(), ends);
        assert_eq!(cut(ends, "it", async { Ok(1) }).await.unwrap(), 1);
    }

    #[test]
    fn chance_says_where_to_begin_and_nothing_is_left_out() {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut things = from_anywhere(vec![1, 2, 3]).unwrap();
            seen.insert(things[0]);
            things.sort_unstable();
            assert_eq!(things, [1, 2, 3]);
        }
        assert_eq!(seen.len(), 3);
        assert!(from_anywhere(Vec::<u8>::new()).unwrap().is_empty());
    }
}
