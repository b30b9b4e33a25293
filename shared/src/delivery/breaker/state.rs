//! The state of a breaker, and its transitions. This module makes no calls.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::Pass;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};

/// How long a breaker stays open the first time.
const FIRST: Duration = Duration::from_secs(30);

/// The maximum open time. Each consecutive opening lasts twice as long as the previous one.
const LONGEST: Duration = Duration::from_secs(600);

/// The time that is reserved for a probe. It is longer than any call.
const PROBE: Duration = Duration::from_secs(30);

/// If a breaker opens again within this time after it closed, the openings count as consecutive.
const RELAPSE: Duration = Duration::from_secs(120);

/// The maximum period over which the deferred events of a destination are retried.
const SPREAD: Duration = Duration::from_secs(120);

/// How long the item of a breaker is kept after its open time, or after the last write of a closed
/// breaker.
const KEEP: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BreakerState {
    /// The revision of the item. 0 if there is no item.
    rev: u64,
    /// The breaker is open until this time. `None` if it is closed.
    until: Option<UnixMillis>,
    /// The number of consecutive openings.
    opens: u32,
    closed_at: Option<UnixMillis>,
    written_at: UnixMillis,
}

/// The position of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The destination may be called.
    Closed,
    Open {
        until: UnixMillis,
    },
    /// The open time is over. One call may probe the destination.
    Probing,
}

impl BreakerState {
    pub(super) fn position(&self, now: UnixMillis) -> Position {
        match self.until {
            None => Position::Closed,
            Some(until) if until > now => Position::Open { until },
            Some(_) => Position::Probing,
        }
    }

    /// Returns the result for a caller that does not probe.
    pub(super) fn pass(&self, now: UnixMillis) -> Pass {
        match self.until {
            None => Pass::Free,
            Some(until) => Pass::Down {
                until: until.max(now),
                spread: interval(self.opens).min(SPREAD),
            },
        }
    }

    /// Returns the state for the time of a probe. The other processes wait until the reserved time
    /// of the probe is over.
    pub(super) fn probed(&self, now: UnixMillis) -> Self {
        Self {
            until: Some(now + PROBE),
            ..self.written(now)
        }
    }

    pub(super) fn opened(&self, now: UnixMillis, jitter: f64) -> Self {
        let relapse = self.closed_at.is_none_or(|at| now.since(at) < RELAPSE);
        let opens = if relapse { self.opens + 1 } else { 1 };
        let interval = interval(opens).mul_f64(1.0 + 0.2 * jitter.clamp(0.0, 1.0));
        Self {
            until: Some(now + interval),
            opens,
            closed_at: None,
            ..self.written(now)
        }
    }

    pub(super) fn closed(&self, now: UnixMillis) -> Self {
        Self {
            until: None,
            closed_at: Some(now),
            ..self.written(now)
        }
    }

    fn written(&self, now: UnixMillis) -> Self {
        Self {
            rev: self.rev + 1,
            written_at: now,
            ..self.clone()
        }
    }

    pub(super) const UPDATE: &'static str = "SET sv = :sv, rev = :rev, til = :til, n = :n, cl = :cl, wat = :wat, #by = :by, #ttl = :ttl";

    pub(super) fn read(stored: &Item) -> Self {
        Self {
            rev: item::number(stored, "rev").unwrap_or(0),
            until: item::time(stored, "til"),
            opens: item::number(stored, "n").unwrap_or(0),
            closed_at: item::time(stored, "cl"),
            written_at: item::time(stored, "wat").unwrap_or_default(),
        }
    }

    pub(super) fn values(&self, by: &str) -> Item {
        let time = |time: Option<UnixMillis>| time.map_or(AttributeValue::Null(true), item::ms);
        let forgotten = self.until.unwrap_or(self.written_at) + KEEP;
        Item::from([
            (":sv".to_owned(), item::n(SCHEMA)),
            (":rev".to_owned(), item::n(self.rev)),
            (":til".to_owned(), time(self.until)),
            (":n".to_owned(), item::n(self.opens)),
            (":cl".to_owned(), time(self.closed_at)),
            (":wat".to_owned(), item::ms(self.written_at)),
            (":by".to_owned(), item::s(by)),
            (":ttl".to_owned(), item::n(forgotten.secs())),
        ])
    }

    /// Returns the condition of the next write, and the value that the condition needs.
    pub(super) fn condition(&self) -> (&'static str, Option<(String, AttributeValue)>) {
        match self.rev {
            0 => ("attribute_not_exists(pk)", None),
            rev => ("rev = :seen", Some((":seen".to_owned(), item::n(rev)))),
        }
    }
}

/// Returns the duration of the nth consecutive opening.
fn interval(opens: u32) -> Duration {
    FIRST
        .saturating_mul(1 << opens.saturating_sub(1).min(10))
        .min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

    fn at(secs: u64) -> UnixMillis {
        NOW + Duration::from_secs(secs)
    }

    #[test]
    fn each_opening_in_a_row_is_longer_up_to_ten_minutes() {
        let (mut standing, mut now, mut intervals) = (BreakerState::default(), NOW, Vec::new());
        for _ in 0..8 {
            standing = standing.opened(now, 0.0);
            let until = standing.until.unwrap();
            intervals.push(until.since(now).as_secs());
            assert_eq!(standing.position(now), Position::Open { until });
            assert_eq!(standing.position(until), Position::Probing);
            standing = standing.probed(until);
            now = until;
            assert_eq!(
                standing.position(now),
                Position::Open { until: now + PROBE }
            );
        }
        assert_eq!(intervals, [30, 60, 120, 240, 480, 600, 600, 600]);
        let late = standing.opened(NOW, 1.0).until.unwrap();
        assert_eq!(late.since(NOW).as_secs(), 720);
    }

    #[test]
    fn a_relapse_counts_on_and_a_later_fall_from_the_start() {
        let twice = BreakerState::default().opened(NOW, 0.0).opened(NOW, 0.0);
        let closed = twice.closed(at(60));
        assert_eq!(closed.position(at(60)), Position::Closed);
        assert_eq!(closed.pass(at(60)), Pass::Free);
        assert_eq!(closed.opened(at(61), 0.0).opens, 3);
        let fallen = closed.opened(at(60 + 120), 0.0);
        assert_eq!(fallen.opens, 1);
        // While the destination stays down, the time of the last recovery has no effect.
        assert_eq!(fallen.opened(at(60 + 240), 0.0).opens, 2);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let open = BreakerState::default().opened(NOW, 0.5);
        for standing in [open.clone(), open.probed(at(40)), open.closed(at(50))] {
            let stored = standing.values("me");
            let stored = stored
                .into_iter()
                .map(|(name, value)| (name.trim_start_matches(':').to_owned(), value))
                .collect();
            assert_eq!(BreakerState::read(&stored), standing);
            assert!(item::number::<i64>(&stored, "ttl").unwrap() >= at(24 * 3600).secs());
        }
        assert_eq!(BreakerState::read(&Item::new()), BreakerState::default());
    }

    #[test]
    fn who_is_put_off_comes_back_over_a_while() {
        let mut standing = BreakerState::default();
        let mut spreads = Vec::new();
        for _ in 0..4 {
            standing = standing.opened(NOW, 0.0);
            match standing.pass(NOW) {
                Pass::Down { until, spread } => {
                    assert_eq!(until, standing.until.unwrap());
                    spreads.push(spread.as_secs());
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(spreads, [30, 60, 120, 120]);
    }
}
