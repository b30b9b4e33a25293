//! Decides what the sweep does with a row.

use std::time::Duration;

use crate::base::backoff::CRASHES;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::settle::SWEEP_AHEAD;
use crate::inbox::ledger::{NEWEST_SCHEMA, Row, State};

/// The sweep's decision about a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepDecision {
    /// The sweep sends a message, with a delay if the retry is not due yet. The next check is at
    /// `next`.
    Send {
        delay: Duration,
        next: UnixMillis,
        /// Whether this is the first message for a retry. No other message for this retry is in the
        /// queue, so the sweep sends it even if the queue is full.
        first: bool,
    },
    /// A worker holds a valid lease. The next check is at `next`.
    Wait {
        next: UnixMillis,
    },
    Exhaust {
        reason: &'static str,
    },
    /// The row is settled, has changed since the index entry was read, or has an unknown version.
    Skip,
}

impl SweepDecision {
    /// Decides what the sweep does with a row. `seen` is the check time from the index entry.
    pub fn at(row: &Row, seen: UnixMillis, attempts: u32, now: UnixMillis) -> Self {
        if row.next_look != Some(seen) || !row.is_open() || row.schema > NEWEST_SCHEMA {
            return Self::Skip;
        }
        if row.state == State::Processing && !row.lease_is_over(now) {
            let until = row.lease_until.unwrap_or(now);
            return Self::Wait {
                next: until.max(now) + AFTER_LEASE,
            };
        }
        if row.crashed() >= CRASHES {
            return Self::Exhaust {
                reason: "crash_loop",
            };
        }
        if row.attempts >= attempts {
            return Self::Exhaust {
                reason: "attempts_exhausted",
            };
        }
        let due = row
            .due
            .filter(|_| row.state == State::Failed)
            .unwrap_or(now)
            .max(now);
        let pause = Duration::from_secs(60 << row.sends.min(6)).min(LONGEST_PAUSE);
        let first =
            row.state == State::Failed && row.sent_at < row.due.map(|due| due - SWEEP_AHEAD);
        Self::Send {
            delay: due.since(now),
            next: due + pause,
            first,
        }
    }
}

/// The longest pause between two checks of a row that stays open.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// How long after the end of a valid lease the sweep checks the row again.
const AFTER_LEASE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use crate::inbox::ledger::{Item, item};

    fn row(state: &str, more: &[(&str, i64)]) -> Row {
        let mut row = Item::from([
            ("pk".into(), item::s("E#s#1")),
            ("sv".into(), item::n(1)),
            ("st".into(), item::s(state)),
            ("epoch".into(), item::n(1)),
            ("run".into(), item::n(0)),
            ("att".into(), item::n(1)),
            ("cr".into(), item::n(0)),
            ("rcv".into(), item::n(0)),
            ("bref".into(), item::s("i")),
            ("fx".into(), AttributeValue::M(Item::new())),
            ("lu".into(), item::n(9_000)),
            ("due".into(), item::n(10)),
            ("gsk".into(), item::n(5)),
        ]);
        row.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), item::n(value))),
        );
        Row::read(&row).unwrap()
    }

    fn at(row: &Row) -> SweepDecision {
        SweepDecision::at(row, UnixMillis(5), 10, UnixMillis(100_000))
    }

    #[test]
    fn an_open_row_is_rung_for_ever_more_rarely() {
        let pause = |sends| match at(&row("received", &[("enq_n", sends)])) {
            SweepDecision::Send {
                delay: Duration::ZERO,
                next,
                first: false,
            } => next.since(UnixMillis(100_000)).as_secs(),
            other => panic!("{other:?}"),
        };
        let pauses: Vec<u64> = [0, 1, 2, 5, 6, 60].into_iter().map(pause).collect();
        assert_eq!(pauses, [60, 120, 240, 1920, 3600, 3600]);
    }

    #[test]
    fn a_retry_is_rung_for_on_its_time() {
        let look = at(&row("failed", &[("due", 130_000)]));
        assert_eq!(
            look,
            SweepDecision::Send {
                delay: Duration::from_secs(30),
                next: UnixMillis(190_000),
                first: true
            }
        );
        let look = at(&row("failed", &[("due", 10), ("enq", 10)]));
        assert_eq!(
            look,
            SweepDecision::Send {
                delay: Duration::ZERO,
                next: UnixMillis(160_000),
                first: false
            }
        );
        let look = at(&row("failed", &[("due", 95_000), ("enq", 94_000)]));
        assert!(
            matches!(look, SweepDecision::Send { first: false, .. }),
            "{look:?}"
        );
    }

    #[test]
    fn a_live_lease_is_left_and_one_that_is_over_is_not() {
        let look = at(&row("processing", &[("lu", 120_000)]));
        assert_eq!(
            look,
            SweepDecision::Wait {
                next: UnixMillis(130_000)
            }
        );
        // The lease has ended, but the clock margin has not.
        assert_eq!(
            at(&row("processing", &[("lu", 96_000)])),
            SweepDecision::Wait {
                next: UnixMillis(110_000)
            }
        );
        assert!(matches!(
            at(&row("processing", &[("lu", 94_000)])),
            SweepDecision::Send { .. }
        ));
    }

    #[test]
    fn what_is_used_up_is_exhausted_and_what_is_settled_left() {
        assert_eq!(
            at(&row("failed", &[("att", 10)])),
            SweepDecision::Exhaust {
                reason: "attempts_exhausted"
            }
        );
        assert_eq!(
            at(&row("processing", &[("lu", 1), ("cr", 3)])),
            SweepDecision::Exhaust {
                reason: "crash_loop"
            }
        );
        for state in ["done", "dead_letter", "quarantined"] {
            assert_eq!(at(&row(state, &[])), SweepDecision::Skip, "{state}");
        }
        assert_eq!(at(&row("received", &[("gsk", 6)])), SweepDecision::Skip);
    }

    #[test]
    fn a_row_of_the_next_version_is_rung_for_and_one_of_a_later_is_left() {
        let newest = i64::from(NEWEST_SCHEMA);
        let look = at(&row("received", &[("sv", newest)]));
        assert!(matches!(look, SweepDecision::Send { .. }), "{look:?}");
        let later = row("received", &[("sv", newest + 1)]);
        assert_eq!(at(&later), SweepDecision::Skip);
    }
}
