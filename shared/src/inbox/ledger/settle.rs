//! An attempt comes to its end: done, due again, or dead.

use std::time::Duration;

use super::transition::replay::REPLAYED;
use super::transition::{self, Change};
use super::{EffectRow, Lease, Ledger, Row, State, Write};
use crate::base::backoff::Backoff;
use crate::base::clock::UnixMillis;
use crate::base::timing::{FIRST_LOOK, LONGEST_DELAY, MAX_SELF_SENDS_PER_RUN};
use crate::inbox::outcome::Outcome;

/// How far ahead of a due time the sweep takes a row up, so that its message is on time.
pub(super) const SWEEP_AHEAD: Duration = Duration::from_secs(60);

/// What is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    Done,
    Retry {
        error: String,
        due: UnixMillis,
        /// The worker itself rings after this delay; otherwise the sweep does.
        resend_after: Option<Duration>,
    },
    /// Not tried, and not counted as an attempt.
    Deferred {
        why: String,
        due: UnixMillis,
        resend_after: Option<Duration>,
        /// Another event of its entity goes first.
        in_line: bool,
    },
    DeadLetter {
        reason: &'static str,
        error: String,
    },
}

/// What became of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Recorded(Settlement),
    /// A newer claim holds the event. What we know of it is old, and nothing was written.
    Stale,
}

impl Settlement {
    /// What an outcome means for the event, given where it stands.
    pub fn of(
        outcome: Outcome,
        row: &Row,
        backoff: &Backoff,
        now: UnixMillis,
        jitter: f64,
    ) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Permanent { error } => Self::DeadLetter {
                reason: "permanent",
                error,
            },
            Outcome::Unknown { error } => Self::DeadLetter {
                reason: "outcome_unknown",
                error,
            },
            Outcome::Retry { error, .. } if row.attempts >= backoff.attempts => Self::DeadLetter {
                reason: "attempts_exhausted",
                error,
            },
            Outcome::Retry { error, after } => {
                let wait = backoff.wait(row.attempts, after, jitter);
                Self::Retry {
                    error,
                    due: now + wait,
                    resend_after: own_send(row, wait),
                }
            }
            Outcome::Deferred { why, until } => {
                let due = until.max(now);
                Self::Deferred {
                    why,
                    due,
                    resend_after: own_send(row, due.since(now)),
                    in_line: false,
                }
            }
        }
    }

    /// The same, with the sweep to ring for it.
    #[must_use]
    pub fn without_send(self) -> Self {
        match self {
            Self::Retry { error, due, .. } => Self::Retry {
                error,
                due,
                resend_after: None,
            },
            Self::Deferred {
                why, due, in_line, ..
            } => Self::Deferred {
                why,
                due,
                resend_after: None,
                in_line,
            },
            other @ (Self::Done | Self::DeadLetter { .. }) => other,
        }
    }

    /// The same, where another event of its entity goes first. Nothing else is put off so.
    #[must_use]
    pub fn in_line(mut self) -> Self {
        if let Self::Deferred { in_line, .. } = &mut self {
            *in_line = true;
        }
        self
    }

    fn change(
        &self,
        lease: &Lease,
        effects: &[(String, EffectRow)],
        now: UnixMillis,
        keep: Duration,
    ) -> Change {
        let (fence, row) = (lease.fence(), &lease.row);
        match self {
            Self::Done => transition::done(fence, row, effects, now, now + keep),
            Self::Retry {
                error,
                due,
                resend_after,
            } => {
                let look = look_behind(*due, *resend_after);
                transition::retry(fence, row, effects, error, *due, look, now)
            }
            Self::Deferred {
                why,
                due,
                resend_after,
                in_line,
            } => {
                let look = look_behind(*due, *resend_after);
                let attempts = if *in_line {
                    attempts_in_history(row)
                } else {
                    row.attempts.saturating_sub(1)
                };
                transition::defer(fence, row, effects, why, attempts, *due, look)
            }
            Self::DeadLetter { reason, error } => {
                transition::dead_letter(fence, row, effects, reason, error, now)
            }
        }
    }
}

/// The attempts that the history tells of. Those that crashed are not in it: whoever stands in line
/// has begun nothing, and who died with it in their hands died of something else. One that kills
/// comes to the head of its line, and then here only behind an older one that arrives late.
fn attempts_in_history(row: &Row) -> u32 {
    let of_run = row.history.iter().rev();
    let of_run = of_run.take_while(|moment| moment.what != REPLAYED);
    let attempts = of_run.map(|moment| moment.attempt);
    attempts.max().unwrap_or(0)
}

/// The worker rings for itself where the wait is short, and not often: each claim of a run, an
/// attempt or put off, is one more link of a chain that Lambda cuts.
fn own_send(row: &Row, wait: Duration) -> Option<Duration> {
    let claims = row.attempts.saturating_add(row.deferrals);
    (wait <= LONGEST_DELAY && claims <= MAX_SELF_SENDS_PER_RUN).then_some(wait)
}

/// When the sweep looks. Should the worker's own message be lost, it is two minutes behind it.
fn look_behind(due: UnixMillis, resend_after: Option<Duration>) -> UnixMillis {
    if resend_after.is_some() {
        due + FIRST_LOOK
    } else {
        due - SWEEP_AHEAD
    }
}

impl Ledger {
    /// Records the end of an attempt, and with it what became of the effects. It takes the
    /// lease: an attempt ends once.
    pub async fn settle(
        &self,
        lease: Lease,
        settlement: Settlement,
        effects: &[(String, EffectRow)],
        now: UnixMillis,
    ) -> anyhow::Result<Settled> {
        let keep = self.retention(lease.row.key.source()).rows;
        let mut change = settlement.change(&lease, effects, now, keep);
        if let Some(remark) = lease.annotation {
            change = change.annotated(remark);
        }
        match self.change(&lease.row.key.pk(), change).await? {
            Write::Applied(_) => {
                // Only now: who was overtaken has no say in what becomes of the body.
                if settlement == Settlement::Done
                    && let Err(error) = self.release_body(&lease.row, now).await
                {
                    // It is kept for longer than was said; the work is done all the same.
                    tracing::warn!(event.id = %lease.row.id(), error = format!("{error:#}"), "could not let a body expire");
                }
                Ok(Settled::Recorded(settlement))
            }
            Write::Refused(old) => {
                let row = old.map(|old| Row::read(&old)).transpose()?;
                let ours = row.is_some_and(|row| applied(&row, &lease, &settlement, now));
                Ok(if ours {
                    Settled::Recorded(settlement)
                } else {
                    Settled::Stale
                })
            }
        }
    }

    /// Records that an effect is about to be tried. `false` when a newer claim holds the event:
    /// then it must not be.
    pub async fn intend(
        &self,
        lease: &Lease,
        name: &str,
        effect: &EffectRow,
    ) -> anyhow::Result<bool> {
        let change = transition::intent(lease.fence(), name, effect);
        match self.change(&lease.row.key.pk(), change).await? {
            Write::Applied(_) => Ok(true),
            Write::Refused(_) => Ok(false),
        }
    }

    /// The body that the lease is about.
    pub async fn leased_body(
        &self,
        lease: &Lease,
    ) -> anyhow::Result<Result<super::Body, super::MissingBody>> {
        self.body(&lease.row, &lease.item).await
    }
}

/// Whether the row that refused a settlement shows that it had been applied before, its answer
/// lost: nobody has claimed the event since, and it stands where we put it.
fn applied(row: &Row, lease: &Lease, settlement: &Settlement, now: UnixMillis) -> bool {
    row.epoch == lease.row.epoch
        && match settlement {
            Settlement::Done => {
                row.state == State::Done && row.done_by.as_deref() == Some(&lease.owner)
            }
            Settlement::Retry { due, .. } | Settlement::Deferred { due, .. } => {
                row.state == State::Failed && row.due == Some(*due)
            }
            // The sweep may have given it up as well, for a reason of its own.
            Settlement::DeadLetter { reason, .. } => {
                row.state == State::DeadLetter
                    && row.dead_at == Some(now)
                    && row.reason.as_deref() == Some(reason)
            }
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_dynamodb::types::AttributeValue;

    use crate::inbox::ledger::{Item, item};

    fn row(attempts: u32) -> Row {
        let row = Item::from([
            ("pk".into(), item::s("E#s#1")),
            ("sv".into(), item::n(1)),
            ("st".into(), item::s("processing")),
            ("epoch".into(), item::n(7)),
            ("run".into(), item::n(0)),
            ("att".into(), item::n(attempts)),
            ("cr".into(), item::n(0)),
            ("rcv".into(), item::n(0)),
            ("bref".into(), item::s("i")),
            ("fx".into(), AttributeValue::M(Item::new())),
            ("lu".into(), item::n(9_000)),
            ("due".into(), item::n(10)),
        ]);
        Row::read(&row).unwrap()
    }

    fn of(outcome: Outcome, attempts: u32) -> Settlement {
        Settlement::of(
            outcome,
            &row(attempts),
            &Backoff::default(),
            UnixMillis(1_000),
            0.0,
        )
    }

    #[test]
    fn an_outcome_and_the_attempts_decide() {
        assert_eq!(of(Outcome::Done, 10), Settlement::Done);
        let reason = |settlement| match settlement {
            Settlement::DeadLetter { reason, .. } => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(of(Outcome::permanent("x"), 1)), "permanent");
        assert_eq!(reason(of(Outcome::unknown("x"), 1)), "outcome_unknown");
        assert_eq!(reason(of(Outcome::retry("x"), 10)), "attempts_exhausted");
        let retry = |secs: u64, ring: bool| Settlement::Retry {
            error: "x".into(),
            due: UnixMillis(1_000) + Duration::from_secs(secs),
            resend_after: ring.then_some(Duration::from_secs(secs)),
        };
        assert_eq!(of(Outcome::retry("x"), 1), retry(10, true));
        assert_eq!(of(Outcome::retry("x"), 3), retry(300, true));
        assert_eq!(of(Outcome::retry("x"), 4), retry(1800, false));
        assert_eq!(of(Outcome::retry("x"), 9), retry(7200, false));
    }

    #[test]
    fn a_worker_rings_for_itself_at_most_three_times_a_run() {
        let quick = Backoff {
            attempts: 50,
            waits: vec![Duration::from_secs(1)],
        };
        let rings = (1..50)
            .filter(|attempt| {
                let settlement = Settlement::of(
                    Outcome::retry("x"),
                    &row(*attempt),
                    &quick,
                    UnixMillis(0),
                    0.5,
                );
                matches!(
                    settlement,
                    Settlement::Retry {
                        resend_after: Some(_),
                        ..
                    }
                )
            })
            .count();
        assert_eq!(rings, 3);
        let rings = (0..50).filter(|put_offs| {
            let row = Row {
                deferrals: *put_offs,
                ..row(1)
            };
            let outcome = Outcome::deferred("full", UnixMillis(9));
            let settlement = Settlement::of(outcome, &row, &quick, UnixMillis(0), 0.5);
            matches!(
                settlement,
                Settlement::Deferred {
                    resend_after: Some(_),
                    ..
                }
            )
        });
        assert_eq!(rings.count(), 3);
    }
}
