//! Records how an attempt ended: done, retry, deferred or dead letter.

use std::time::Duration;

use super::transition::replay::REPLAYED;
use super::transition::{self, Change};
use super::{EffectRow, Hold, Lease, Ledger, Row, State, Write};
use crate::base::backoff::Backoff;
use crate::base::clock::UnixMillis;
use crate::base::timing::{FIRST_LOOK, LONGEST_DELAY, MAX_SELF_SENDS_PER_RUN};
use crate::inbox::outcome::Outcome;

/// The sweep checks the row of a retry this long before its due time, so that the message arrives
/// on time.
pub(super) const SWEEP_AHEAD: Duration = Duration::from_secs(60);

/// The reason of a dead letter whose destination refused every attempt.
pub const REFUSED: &str = "refused";

/// The reason of a dead letter whose effect was held too often, each time for another plan.
const PLAN_UNSTABLE: &str = "plan_unstable";

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
        /// The time of the first attempt of the run, if a destination asked for the deferral. The
        /// row keeps it, because such deferrals end some time after it.
        first: Option<UnixMillis>,
    },
    /// The event waits for an approval. The claim does not count as an attempt.
    Held(Box<Hold>),
    DeadLetter {
        reason: &'static str,
        error: String,
    },
    /// All actions of the processor are done, and the event now waits for a worker of this queue.
    Parked {
        queue: String,
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
            Outcome::Unsendable { reason, error } => Self::DeadLetter { reason, error },
            Outcome::Unknown { error } => Self::DeadLetter {
                reason: "outcome_unknown",
                error,
            },
            Outcome::Retry { error, .. } if row.attempts >= backoff.attempts => Self::DeadLetter {
                reason: "attempts_exhausted",
                error,
            },
            Outcome::Retry { error, after } => {
                Self::retry(error, backoff.wait(row.attempts, after, jitter), row, now)
            }
            Outcome::Refused {
                error,
                after,
                within,
            } => {
                let limit = backoff.attempts_within(within);
                let error = numbered(&error, row.attempts, limit);
                if row.attempts >= limit {
                    let reason = REFUSED;
                    return Self::DeadLetter { reason, error };
                }
                Self::retry(error, backoff.wait(row.attempts, after, jitter), row, now)
            }
            Outcome::Held(request) => match Hold::of(&request, row, now) {
                Some(hold) => Self::Held(Box::new(hold)),
                None => Self::DeadLetter {
                    reason: PLAN_UNSTABLE,
                    error: format!(
                        "{}: rule {} held it twice, and what would be sent changed again after the approval",
                        request.effect, request.rule
                    ),
                },
            },
            Outcome::Deferred { why, until, asked } => {
                let due = until.max(now);
                Self::Deferred {
                    why,
                    due,
                    resend_after: own_send(row, due.since(now)),
                    in_line: false,
                    first: asked.then(|| row.first_attempt().unwrap_or(now)),
                }
            }
        }
    }

    /// Returns the error of an attempt that did not succeed.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Retry { error, .. } | Self::DeadLetter { error, .. } => Some(error),
            Self::Done | Self::Deferred { .. } | Self::Parked { .. } | Self::Held(_) => None,
        }
    }

    /// Adds the text of the destination's answer to the error. Only the row may contain this text.
    /// A log may not contain it.
    #[must_use]
    pub fn quoting(mut self, text: &str) -> Self {
        if let Self::Retry { error, .. } | Self::DeadLetter { error, .. } = &mut self {
            error.push_str(": ");
            error.push_str(text);
        }
        self
    }

    fn retry(error: String, wait: Duration, row: &Row, now: UnixMillis) -> Self {
        Self::Retry {
            error,
            due: now + wait,
            resend_after: own_send(row, wait),
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
                why,
                due,
                in_line,
                first,
                ..
            } => Self::Deferred {
                why,
                due,
                resend_after: None,
                in_line,
                first,
            },
            other
            @ (Self::Done | Self::Held(_) | Self::DeadLetter { .. } | Self::Parked { .. }) => other,
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
                let look = look_behind(row, *due, *resend_after);
                transition::retry(fence, row, effects, error, *due, look, now)
            }
            Self::Deferred {
                why,
                due,
                resend_after,
                in_line,
                first,
            } => {
                let look = look_behind(row, *due, *resend_after);
                let attempts = if *in_line {
                    attempts_in_history(row)
                } else {
                    row.attempts.saturating_sub(1)
                };
                let change = transition::defer(fence, row, effects, why, attempts, *due, look);
                match first {
                    Some(first) => change.first_attempt(row, *first),
                    None => change,
                }
            }
            Self::Held(hold) => transition::hold::hold(fence, row, effects, hold, now),
            Self::DeadLetter { reason, error } => {
                transition::dead_letter(fence, row, effects, reason, error, now)
            }
            Self::Parked { queue } => transition::work::park(fence, row, queue, effects, now),
        }
    }
}

/// Adds the number of the attempt, and the largest number of attempts that a refused event has.
fn numbered(error: &str, attempt: u32, limit: u32) -> String {
    if attempt <= limit {
        format!("{error} (attempt {attempt} of {limit})")
    } else {
        // Another action of the event had more attempts.
        format!("{error} (attempt {attempt})")
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
/// these messages. Attempts and deferrals both count as claims. An event that workers take needs no
/// message.
fn own_send(row: &Row, wait: Duration) -> Option<Duration> {
    if row.pull.is_some() {
        return None;
    }
    let claims = row.attempts.saturating_add(row.deferrals);
    (wait <= LONGEST_DELAY && claims <= MAX_SELF_SENDS_PER_RUN).then_some(wait)
}

/// Returns when the sweep checks the row. If the worker sends the message, the check is two minutes
/// after the due time, in case the message is lost. Otherwise the check is one minute before the
/// due time. A worker can take an event of its queue when the event is due.
fn look_behind(row: &Row, due: UnixMillis, resend_after: Option<Duration>) -> UnixMillis {
    if row.pull.is_some() {
        due
    } else if resend_after.is_some() {
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
                match &settlement {
                    Settlement::Done => self.release_body_of_done(&lease.row, now).await,
                    Settlement::Held(hold) => self.hold_until(&lease.row, hold.expires).await,
                    Settlement::Retry { .. }
                    | Settlement::Deferred { .. }
                    | Settlement::Parked { .. }
                    | Settlement::DeadLetter { .. } => {}
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

    /// Restores the expiry of the body of an event that is now done. The event is done, even if this
    /// request fails.
    pub(super) async fn release_body_of_done(&self, row: &Row, now: UnixMillis) {
        if let Err(error) = self.release_body(row, now).await {
            tracing::warn!(event.id = %row.id(), error = format!("{error:#}"), "could not set the expiry of the body of a done event, so the body is kept longer");
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
            Settlement::Held(hold) => {
                let held = row.hold.as_ref();
                held.is_some_and(|held| held.id == hold.id)
            }
            // The sweep can also write a dead letter, with a different reason or time.
            Settlement::DeadLetter { reason, .. } => {
                row.state == State::DeadLetter
                    && row.dead_at == Some(now)
                    && row.reason.as_deref() == Some(reason)
            }
            Settlement::Parked { queue } => {
                row.waits_for_worker() && row.pull.as_ref() == Some(queue)
            }
        }
}

#[cfg(test)]
mod tests;
