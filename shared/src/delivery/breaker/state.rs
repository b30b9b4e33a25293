//! The state of a breaker, and its transitions. This module makes no calls.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::Pass;
use crate::base::clock::UnixMillis;
use crate::base::timing::AFTER_ACTION;
use crate::inbox::ledger::{Item, SCHEMA, item};

/// How long a breaker stays open the first time.
const FIRST: Duration = Duration::from_secs(30);

/// The maximum open time. Each consecutive opening lasts twice as long as the previous one.
const LONGEST: Duration = Duration::from_secs(600);

/// How long a breaker stays open while the destination refuses every request. A refusal costs the
/// destination little, and a deployment usually ends it.
const REFUSED: Duration = Duration::from_secs(60);

/// The minimum time that is reserved for a probe.
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
    /// The status of the last refusal, if the breaker is open because the destination refuses every
    /// request.
    refused: Option<u16>,
}

/// The position of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The destination may be called.
    Closed,
    Open {
        until: UnixMillis,
        /// The status with which the destination refuses every request, if it does.
        refused: Option<u16>,
    },
    /// The open time is over. One call may probe the destination.
    Probing,
}

impl BreakerState {
    pub(super) fn position(&self, now: UnixMillis) -> Position {
        match self.until {
            None => Position::Closed,
            Some(until) if until > now => Position::Open {
                until,
                refused: self.refused,
            },
            Some(_) => Position::Probing,
        }
    }

    pub(super) fn written_at(&self) -> UnixMillis {
        self.written_at
    }

    /// Returns the result for a caller that does not probe.
    pub(super) fn pass(&self, now: UnixMillis) -> Pass {
        match self.until {
            None => Pass::Free,
            Some(until) => Pass::Down {
                until: until.max(now),
                spread: match self.refused {
                    Some(_) => REFUSED,
                    None => interval(self.opens).min(SPREAD),
                },
                refused: self.refused,
            },
        }
    }

    /// Returns the state for the time of a probe, whose call may take `call`. The other processes
    /// wait until the reserved time of the probe is over. A second probe in this time would discard
    /// the result of the first one.
    pub(super) fn probed(&self, now: UnixMillis, call: Duration) -> Self {
        Self {
            until: Some(now + PROBE.max(call + 2 * AFTER_ACTION)),
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
            refused: None,
            ..self.written(now)
        }
    }

    /// Opened because the destination refuses every request. One call a minute probes it.
    pub(super) fn opened_by_refusals(&self, status: u16, now: UnixMillis, jitter: f64) -> Self {
        Self {
            until: Some(now + REFUSED.mul_f64(1.0 + 0.2 * jitter.clamp(0.0, 1.0))),
            refused: Some(status),
            ..self.opened(now, jitter)
        }
    }

    /// Whether the breaker is open because the destination refuses every request.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        self.rev > other.rev
    }

    pub(super) fn closed(&self, now: UnixMillis) -> Self {
        Self {
            until: None,
            closed_at: Some(now),
            refused: None,
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

    pub(super) const UPDATE: &'static str = "SET sv = :sv, rev = :rev, til = :til, n = :n, cl = :cl, wat = :wat, rfs = :rfs, #by = :by, #ttl = :ttl";

    pub(super) fn read(stored: &Item) -> Self {
        let rev = item::number(stored, "rev").unwrap_or(0);
        Self {
            rev,
            until: item::time(stored, "til"),
            opens: item::number(stored, "n").unwrap_or(0),
            closed_at: item::time(stored, "cl"),
            written_at: item::time(stored, "wat").unwrap_or_default(),
            refused: item::text(stored, "rfs").and_then(|text| refused(text, rev)),
        }
    }

    pub(super) fn values(&self, by: &str) -> Item {
        let time = |time: Option<UnixMillis>| time.map_or(AttributeValue::Null(true), item::ms);
        let refused = self.refused.map_or(AttributeValue::Null(true), |status| {
            item::s(format!("{}|{status}", self.rev))
        });
        let forgotten = self.until.unwrap_or(self.written_at) + KEEP;
        Item::from([
            (":sv".to_owned(), item::n(SCHEMA)),
            (":rev".to_owned(), item::n(self.rev)),
            (":til".to_owned(), time(self.until)),
            (":n".to_owned(), item::n(self.opens)),
            (":cl".to_owned(), time(self.closed_at)),
            (":wat".to_owned(), item::ms(self.written_at)),
            (":rfs".to_owned(), refused),
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

/// Returns the status in `rev|status`. Older code keeps this text when it writes the item with
/// another `rev`. The text is then out of date, and the function returns `None`.
fn refused(text: &str, rev: u64) -> Option<u16> {
    let (written, status) = text.split_once('|')?;
    let is_current = written.parse() == Ok(rev);
    status.parse().ok().filter(|_| is_current)
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
    use crate::base::timing::ACTION_TIMEOUT;

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
            let refused = None;
            assert_eq!(standing.position(now), Position::Open { until, refused });
            assert_eq!(standing.position(until), Position::Probing);
            standing = standing.probed(until, ACTION_TIMEOUT);
            now = until;
            assert_eq!(
                standing.position(now),
                Position::Open {
                    until: now + PROBE,
                    refused
                }
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
        let refused = open.opened_by_refusals(404, NOW, 0.5);
        for standing in [
            open.clone(),
            open.probed(at(40), ACTION_TIMEOUT),
            open.closed(at(50)),
            refused.clone(),
            refused.probed(at(40), ACTION_TIMEOUT),
            refused.closed(at(50)),
        ] {
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
                Pass::Down { until, spread, .. } => {
                    assert_eq!(until, standing.until.unwrap());
                    spreads.push(spread.as_secs());
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(spreads, [30, 60, 120, 120]);
    }

    #[test]
    fn a_destination_that_refuses_everything_is_probed_every_minute() {
        let mut standing = BreakerState::default();
        for round in 0..5 {
            let now = at(100 * round);
            standing = standing.opened_by_refusals(404, now, 0.0);
            let until = now + REFUSED;
            let refused = Some(404);
            assert_eq!(standing.position(now), Position::Open { until, refused });
            let spread = REFUSED;
            let down = Pass::Down {
                until,
                spread,
                refused,
            };
            assert_eq!(standing.pass(now), down);
            standing = standing.probed(until, ACTION_TIMEOUT);
            assert!(standing.is_refused(), "the probe has not ended");
        }
        assert!(!standing.closed(NOW).is_refused());
        assert!(!standing.opened(NOW, 0.0).is_refused());
    }

    #[test]
    fn a_refusal_that_older_code_kept_does_not_hold() {
        let open = BreakerState::default().opened_by_refusals(404, NOW, 0.0);
        let mut stored: Item = open
            .values("me")
            .into_iter()
            .map(|(name, value)| (name.trim_start_matches(':').to_owned(), value))
            .collect();
        assert!(BreakerState::read(&stored).is_refused());
        stored.insert("rev".to_owned(), item::n(2));
        assert!(!BreakerState::read(&stored).is_refused());
        for broken in ["", "|", "1|", "1|404|", "1|99999999", "x|404"] {
            stored.insert("rev".to_owned(), item::n(1));
            stored.insert("rfs".to_owned(), item::s(broken));
            assert!(!BreakerState::read(&stored).is_refused(), "{broken}");
        }
    }
}
