//! Records how an attempt ended: done, retry, deferred or dead letter.

use std::time::Duration;

use super::transition::replay::REPLAYED;
use super::transition::{self, Change};
use super::{EffectRow, Lease, Ledger, Row, State, Write};
use crate::base::backoff::Backoff;
use crate::base::clock::UnixMillis;
use crate::base::timing::{FIRST_LOOK, LONGEST_DELAY, MAX_SELF_SENDS_PER_RUN};
use crate::inbox::outcome::Outcome;

/// The sweep checks the row of a retry this long before its due time, so that the message arrives
/// on time.
pub(super) const SWEEP_AHEAD: Duration = Duration::from_secs(60);

/// The result of an attempt, as it is recorded in the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    Done,
    Retry {
        error: String,
        due: UnixMillis,
        /// If set, the worker sends the next message with this delay. Otherwise the sweep sends it.
        resend_after: Option<Duration>,
    },
    /// No action ran. The claim does not count as an attempt.
    Deferred {
        why: String,
        due: UnixMillis,
        resend_after: Option<Duration>,
        /// The event waits for another event of the same entity.
        in_line: bool,
    },
    DeadLetter {
        reason: &'static str,
        error: String,
    },
}

/// The result of recording a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Recorded(Settlement),
    /// A newer claim holds the event. Nothing was written.
    Stale,
}

impl Settlement {
    /// Converts an outcome into a settlement, based on the attempts and the backoff of the row.
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

    /// Returns the same settlement, but the sweep sends the next message instead of the worker.
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

    /// Marks a deferral as waiting for another event of the same entity. Does not change other
    /// settlements.
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

/// Returns the number of attempts in the history of this run. The history does not contain crashed
/// attempts. While an event waits for another event, its actions do not run. So the event did not
/// cause a crash in that time. An event that crashes workers is the first event in its line. Only
/// an older event that arrives late can defer this event.
fn attempts_in_history(row: &Row) -> u32 {
    let of_run = row.history.iter().rev();
    let of_run = of_run.take_while(|moment| moment.what != REPLAYED);
    let attempts = of_run.map(|moment| moment.attempt);
    attempts.max().unwrap_or(0)
}

/// Returns the delay of the next message if the worker sends that message itself. The worker sends
/// the message if the wait is short and the run has few claims, because Lambda stops a long loop of
/// these messages. Attempts and deferrals both count as claims.
fn own_send(row: &Row, wait: Duration) -> Option<Duration> {
    let claims = row.attempts.saturating_add(row.deferrals);
    (wait <= LONGEST_DELAY && claims <= MAX_SELF_SENDS_PER_RUN).then_some(wait)
}

/// Returns when the sweep checks the row. If the worker sends the message, the check is two minutes
/// after the due time, in case the message is lost. Otherwise the check is one minute before the
/// due time.
fn look_behind(due: UnixMillis, resend_after: Option<Duration>) -> UnixMillis {
    if resend_after.is_some() {
        due + FIRST_LOOK
    } else {
        due - SWEEP_AHEAD
    }
}

impl Ledger {
    /// Records the end of an attempt and the state of its effects. The method consumes the lease,
    /// because an attempt ends only once.
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
                // The body is released after the write, because a worker with a stale lease must
                // not release it.
                if settlement == Settlement::Done
                    && let Err(error) = self.release_body(&lease.row, now).await
                {
                    // The event is done, even if this request fails. The body is then kept longer
                    // than its retention.
                    tracing::warn!(event.id = %lease.row.id(), error = format!("{error:#}"), "could not set the expiry of the body of a done event, so the body is kept longer");
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

    /// Records that a worker is about to try an effect. Returns `false` if a newer claim holds the
    /// event, or if the effect is already done. The worker must then not try the effect.
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

    /// Returns the body of the leased event.
    pub async fn leased_body(
        &self,
        lease: &Lease,
    ) -> anyhow::Result<Result<super::Body, super::MissingBody>> {
        self.body(&lease.row, &lease.item).await
    }
}

/// Returns whether an earlier try of a refused settlement succeeded and its response was lost. In
/// that case, the epoch is unchanged and the row has the state that the settlement writes.
fn applied(row: &Row, lease: &Lease, settlement: &Settlement, now: UnixMillis) -> bool {
    row.epoch == lease.row.epoch
        && match settlement {
            Settlement::Done => {
                row.state == State::Done && row.done_by.as_deref() == Some(&lease.owner)
            }
            Settlement::Retry { due, .. } | Settlement::Deferred { due, .. } => {
                row.state == State::Failed && row.due == Some(*due)
            }
            // The sweep can also write a dead letter, with a different reason or time.
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
