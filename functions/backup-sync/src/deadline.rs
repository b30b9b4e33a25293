//! The time of one run, and until when each of its parts may go on.
//!
//! Lambda kills the function at its timeout: whatever is then at work loses its lease, its heartbeat
//! and its line about the health of the inbox. So each part ends by itself, and before that.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use shared::base::clock::{Clock, UnixMillis};
use shared::base::timing::{BACKUP_SYNC, TURN};
use tokio::time::{Instant, timeout_at};

/// 2020 began then. A deadline before it is that of a runtime without clock, as `cargo lambda` has.
const YEAR_2020: i64 = 1_577_836_800_000;

/// One run, from its beginning until Lambda ends it.
#[derive(Clone, Copy, Debug)]
pub struct RunTime {
    began: Instant,
    /// The part of [`BACKUP_SYNC`] that this run has.
    scale: f64,
}

impl RunTime {
    /// A run that begins now and that Lambda ends after `left`. More than [`BACKUP_SYNC`] is not used:
    /// the next run of a schedule would meet this one.
    pub fn of(left: Duration) -> Self {
        Self {
            began: Instant::now(),
            scale: (left.as_secs_f64() / BACKUP_SYNC.as_secs_f64()).min(1.0),
        }
    }

    /// The same by the deadline of a Lambda context, in milliseconds since 1970.
    pub fn before(deadline: u64, now: UnixMillis) -> Self {
        Self::of(match i64::try_from(deadline) {
            Ok(deadline) if deadline >= YEAR_2020 => UnixMillis(deadline).since(now),
            _ => BACKUP_SYNC,
        })
    }

    /// When a part ends that in a whole run ends so long after its beginning.
    pub(crate) fn until(self, part: Duration) -> Instant {
        self.began + self.scaled(part)
    }

    /// A time of a whole run, as long as it is in this one.
    pub(crate) fn scaled(self, time: Duration) -> Duration {
        time.mul_f64(self.scale)
    }

    /// When the next turn ends, where so many others wait behind it and all of them have until `ends`:
    /// each gets the same share, but no less than [`TURN`]. `None`: there is no time for a turn.
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

/// A moment of this process as its clock shows it.
pub(crate) fn on(clock: Clock, at: Instant) -> UnixMillis {
    clock() + at.saturating_duration_since(Instant::now())
}

/// Cuts off what is still at work then. It is only for what does not end by itself.
pub(crate) fn cut<'w, T: 'w>(
    ends: Instant,
    what: &'w str,
    work: impl Future<Output = anyhow::Result<T>> + 'w,
) -> LocalBoxFuture<'w, anyhow::Result<T>> {
    let done = timeout_at(ends, work);
    let done = done.map(move |done| {
        done.unwrap_or_else(|_| Err(anyhow::anyhow!("no time is left in this run for {what}")))
    });
    done.boxed_local()
}

/// The same things, from one of them that chance names on: none is always the one for which no time
/// is left.
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
            // As in 1970.
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
        assert_eq!(
            error.to_string(),
            "no time is left in this run for the sync"
        );
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
