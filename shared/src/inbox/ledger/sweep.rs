//! Open rows that are due for a check by the sweep.

mod decision;

use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;

use super::transition::{self, WORK_SHARDS};
use super::{Item, Ledger, Row, Write, item};
use crate::base::clock::UnixMillis;
use crate::base::timing::SWEEP_LEASE;
use crate::inbox::queue::{QueueName, WorkMessage};
use crate::webhook::event::EventKey;
pub use decision::SweepDecision;

/// The key of the sweep's lease.
const SWEEP_PK: &str = "SYS";
const SWEEP_SK: &str = "SWEEP";

/// The result of the sweep's check of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepResult {
    /// The row records the send. The caller must send this message, with this delay, to this queue.
    Send(WorkMessage, Duration, QueueName),
    Exhausted,
    /// The queue has no capacity for the message. The row is unchanged, and the next sweep checks
    /// it.
    Throttled(QueueName),
    Skipped,
}

/// The capacity of both queues.
#[derive(Clone, Copy, Debug)]
pub struct QueueCapacity {
    pub live: Capacity,
    pub backlog: Capacity,
}

/// The capacity of a queue. The sweep always sends the first message for a retry, even to a full
/// queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The queue accepts a message for any row.
    Free,
    /// The queue holds as many messages as the sweep has checked rows. Most likely each row already
    /// has a message, and no worker receives messages. The queue accepts a message for a row only
    /// if the sweep has not sent one for this row yet.
    Saturated,
    /// The queue is long, and accepts no message.
    Full,
}

/// The message that the sweep wants to send for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityRequest {
    /// The queue for this event.
    pub lane: QueueName,
    /// How many messages the sweep has sent for the row.
    pub sends: u32,
    /// Whether this is the first message for a retry. No other message for this retry can be in the
    /// queue.
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
    /// `true` means that both queues are free. `false` means that both queues are full.
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

    /// Like `due`, but starts after `place`. Also returns the place of the next page, if there is
    /// one.
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

    /// Like `due_after`, for check times between `from` and `to`.
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

    /// Postpones the check of an event whose destinations are all failing. Returns `false` if a
    /// worker holds the event, or if the row has changed since the index entry was read.
    pub async fn postpone(
        self,
        key: &EventKey,
        seen: UnixMillis,
        next: UnixMillis,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let change = transition::sweep::skip(seen, next);
        let Write::Applied(item) = self.change(&key.pk(), change).await? else {
            return Ok(false);
        };
        // A destination can be unavailable for longer than bodies are kept.
        if let Ok(row) = Row::read(&item.unwrap_or_default()) {
            self.hold_if_old(&row, now).await;
        }
        Ok(true)
    }

    /// Checks one event. The row records the next check before the caller sends the message, so
    /// that two concurrent sweeps send only one message. If a sweep crashes in between, the message
    /// is delayed but not lost.
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

    /// Like `sweep_one`, but `admit` decides whether the queue accepts the message. This method
    /// calls `admit` after it reads the row and before it writes. So a caller that checks many rows
    /// in parallel counts the capacity before it sends the message.
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
                self.change(&pk, transition::sweep::wait(seen, next))
                    .await?;
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
                (transition::sweep::send(seen, next, now), delay)
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
        let change = transition::sweep::lease(owner, now, now + SWEEP_LEASE);
        let answer = self.change_item(SWEEP_PK, SWEEP_SK, change).await?;
        Ok(matches!(answer, Write::Applied(_)))
    }

    /// Releases the lease of the sweep.
    pub async fn sweep_release(self, owner: &str) -> anyhow::Result<()> {
        let change = transition::sweep::release(owner);
        self.change_item(SWEEP_PK, SWEEP_SK, change).await?;
        Ok(())
    }
}
