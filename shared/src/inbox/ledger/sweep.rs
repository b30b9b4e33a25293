//! Open rows that are due for a check by the sweep.

use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;

use super::settle::SWEEP_AHEAD;
use super::transition::{self, WORK_SHARDS};
use super::{Item, Ledger, NEWEST_SCHEMA, Row, State, Write, item};
use crate::base::backoff::CRASHES;
use crate::base::clock::UnixMillis;
use crate::base::timing::SWEEP_LEASE;
use crate::inbox::queue::{QueueName, WorkMessage};
use crate::webhook::event::EventKey;

/// The key of the sweep's lease.
const SWEEP_PK: &str = "SYS";
const SWEEP_SK: &str = "SWEEP";

/// The longest pause between two checks of a row that stays open.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// How long after the end of a valid lease the sweep checks the row again.
const AFTER_LEASE: Duration = Duration::from_secs(10);

/// What the sweep does with a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepDecision {
    /// Send a message, delayed if the retry is not due yet. Check again at `next`.
    Send {
        delay: Duration,
        next: UnixMillis,
        /// The first message for a retry. No other message for it is in the queue, so the sweep
        /// sends this one even if the queue is full.
        first: bool,
    },
    /// A worker holds a live lease. Check again at `next`.
    Wait {
        next: UnixMillis,
    },
    Exhaust {
        reason: &'static str,
    },
    /// The row is settled, has changed since the index entry, or has an unknown schema version.
    Skip,
}

/// What the sweep did with a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepResult {
    /// The row records the send. The caller must send this message, with this delay, to this queue.
    Send(WorkMessage, Duration, QueueName),
    Exhausted,
    /// The queue has no capacity for the message. The row is unchanged; the next sweep checks it.
    Throttled(QueueName),
    Skipped,
}

/// The capacity of both queues.
#[derive(Clone, Copy, Debug)]
pub struct QueueCapacity {
    pub live: Capacity,
    pub backlog: Capacity,
}

/// The capacity of a queue. The first message for a retry is always sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Takes a message for any row.
    Free,
    /// The queue holds as many messages as the sweep has checked rows: most likely one for each
    /// row, and no worker processes them. Accepts only rows that the sweep has not sent a message
    /// for yet.
    Saturated,
    /// The queue is long. Takes no message.
    Full,
}

/// The message that the sweep wants to send for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityRequest {
    /// The queue for this event.
    pub lane: QueueName,
    /// How many messages the sweep has sent for the row.
    pub sends: u32,
    /// The first message for a retry: no other message for it can be in the queue.
    pub first: bool,
    pub delay: Duration,
}

impl Capacity {
    pub fn takes(self, sends: u32) -> bool {
        match self {
            Self::Free => true,
            Self::Saturated => sends == 0,
            Self::Full => false,
        }
    }
}

impl From<bool> for QueueCapacity {
    /// `true` means free and `false` means full, for both queues.
    fn from(room: bool) -> Self {
        let space = if room { Capacity::Free } else { Capacity::Full };
        Self {
            live: space,
            backlog: space,
        }
    }
}

impl QueueCapacity {
    fn takes(self, lane: QueueName, sends: u32) -> bool {
        match lane {
            QueueName::Main => self.live,
            QueueName::Backlog => self.backlog,
        }
        .takes(sends)
    }
}

impl SweepDecision {
    /// Decides what to do with a row. `seen` is the check time from the index entry.
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

/// The rows and items of the sweep: due rows, recent events, its lease and its checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct SweepStore<'l>(&'l Ledger);

impl Ledger {
    /// The rows and items of the sweep: due rows, recent events, its lease and its checkpoint.
    pub fn sweep(&self) -> SweepStore<'_> {
        SweepStore(self)
    }
}

impl Deref for SweepStore<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.0
    }
}

impl SweepStore<'_> {
    /// Returns up to `limit` events of one part of the `work` index that are due for a check,
    /// earliest first, with their check times.
    pub async fn due(
        self,
        shard: u8,
        now: UnixMillis,
        limit: i32,
    ) -> anyhow::Result<Vec<(EventKey, UnixMillis)>> {
        Ok(self.due_after(shard, now, limit, None).await?.0)
    }

    /// The same, starting after `place`. Also returns the next place, if there are more.
    pub async fn due_after(
        self,
        shard: u8,
        now: UnixMillis,
        limit: i32,
        place: Option<Item>,
    ) -> anyhow::Result<(Vec<(EventKey, UnixMillis)>, Option<Item>)> {
        self.due_between(shard, (UnixMillis(0), now), limit, place)
            .await
    }

    /// The same, for check times between `from` and `to`.
    pub async fn due_between(
        self,
        shard: u8,
        (from, to): (UnixMillis, UnixMillis),
        limit: i32,
        place: Option<Item>,
    ) -> anyhow::Result<(Vec<(EventKey, UnixMillis)>, Option<Item>)> {
        let answer = self
            .table
            .query()
            .index_name("work")
            .key_condition_expression("gpk = :shard AND gsk BETWEEN :from AND :to")
            .expression_attribute_values(":shard", item::s(format!("W#{}", shard % WORK_SHARDS)))
            .expression_attribute_values(":from", item::ms(from))
            .expression_attribute_values(":to", item::ms(to))
            .limit(limit)
            .set_exclusive_start_key(place)
            .send()
            .await
            .context("list events due for a check")?;
        let found = answer.items().iter().filter_map(|keys| {
            let key = EventKey::from_pk(item::text(keys, "pk")?)?;
            Some((key, item::time(keys, "gsk")?))
        });
        let found = found.collect();
        Ok((found, answer.last_evaluated_key))
    }

    /// Postpones the check of an event whose destinations are all down. Returns `false` if a worker
    /// holds the event, or if the row has changed since the index entry.
    pub async fn postpone(
        self,
        key: &EventKey,
        seen: UnixMillis,
        next: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::sweep_skip(seen, next);
        let Write::Applied(item) = self.change(&key.pk(), change).await? else {
            return Ok(false);
        };
        // A destination can be down for longer than bodies are kept.
        if let Ok(row) = Row::read(&item.unwrap_or_default()) {
            self.hold_if_old(&row, now).await;
        }
        Ok(true)
    }

    /// Checks one event. The next check is recorded before the message is sent, so that two
    /// concurrent sweeps send one message. If a sweep dies in between, the message is late, not
    /// lost.
    pub async fn sweep_one(
        self,
        key: &EventKey,
        seen: UnixMillis,
        attempts: u32,
        room: impl Into<QueueCapacity>,
        now: UnixMillis,
    ) -> anyhow::Result<SweepResult> {
        let room = room.into();
        let admit = |wanted: CapacityRequest| wanted.first || room.takes(wanted.lane, wanted.sends);
        self.sweep_one_if(key, seen, attempts, now, admit).await
    }

    /// The same, where `admit` decides whether the queue takes the message. It is called after the
    /// row is read and before any write, so that a caller that checks many rows in parallel counts
    /// the capacity when it is granted, not when the message is sent.
    pub async fn sweep_one_if(
        self,
        key: &EventKey,
        seen: UnixMillis,
        attempts: u32,
        now: UnixMillis,
        admit: impl FnOnce(CapacityRequest) -> bool,
    ) -> anyhow::Result<SweepResult> {
        let pk = key.pk();
        let Some(old) = self.get(&pk, "M").await? else {
            return Ok(SweepResult::Skipped);
        };
        let row = Row::read(&old)?;
        self.hold_if_old(&row, now).await;
        let lane = QueueName::of(row.received_at, now);
        let change = match SweepDecision::at(&row, seen, attempts, now) {
            SweepDecision::Skip => return Ok(SweepResult::Skipped),
            SweepDecision::Wait { next } => {
                self.change(&pk, transition::sweep_wait(seen, next)).await?;
                return Ok(SweepResult::Skipped);
            }
            SweepDecision::Exhaust { reason } => {
                let change = transition::exhaust(row.epoch, &row, attempts, reason, now);
                let answer = self.change(&pk, change).await?;
                return Ok(if matches!(answer, Write::Applied(_)) {
                    SweepResult::Exhausted
                } else {
                    SweepResult::Skipped
                });
            }
            SweepDecision::Send { delay, next, first } => {
                let wanted = CapacityRequest {
                    lane,
                    sends: row.sends,
                    first,
                    delay,
                };
                if !admit(wanted) {
                    return Ok(SweepResult::Throttled(lane));
                }
                (transition::sweep_send(seen, next, now), delay)
            }
        };
        match self.change(&pk, change.0).await? {
            Write::Applied(_) => Ok(SweepResult::Send(
                WorkMessage {
                    key: key.clone(),
                    run: row.run,
                },
                change.1,
                lane,
            )),
            Write::Refused(_) => Ok(SweepResult::Skipped),
        }
    }

    /// Takes or renews the lease of the sweep. Returns `false` if another sweep holds it. Two
    /// sweeps that count queue capacity separately would fill the queue twice.
    pub async fn sweep_lease(self, owner: &str, now: UnixMillis) -> anyhow::Result<bool> {
        let change = transition::sweep_lease(owner, now, now + SWEEP_LEASE);
        let answer = self.change_item(SWEEP_PK, SWEEP_SK, change).await?;
        Ok(matches!(answer, Write::Applied(_)))
    }

    /// Releases the lease of the sweep.
    pub async fn sweep_release(self, owner: &str) -> anyhow::Result<()> {
        let change = transition::sweep_release(owner);
        self.change_item(SWEEP_PK, SWEEP_SK, change).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_dynamodb::types::AttributeValue;

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
        // Within the clock margin.
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
