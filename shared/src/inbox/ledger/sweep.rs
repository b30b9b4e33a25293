//! Open rows whose time to be looked at has come.

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

/// Where it stands which sweep rings now.
const SWEEP_PK: &str = "SYS";
const SWEEP_SK: &str = "SWEEP";

/// The longest pause between two looks at a row that stays open.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// How long after the end of a live lease the sweep looks again.
const AFTER_LEASE: Duration = Duration::from_secs(10);

/// What the sweep does about a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepDecision {
    /// Ring, after a delay if its retry is not due yet; look again at `next`.
    Send {
        delay: Duration,
        next: UnixMillis,
        /// The first ring for a retry: nobody else rings for it, so that it adds no second
        /// message and passes also into a deep queue.
        first: bool,
    },
    /// Somebody is at work; look again then.
    Wait {
        next: UnixMillis,
    },
    Exhaust {
        reason: &'static str,
    },
    /// It is settled, or was moved on since the index saw it.
    Skip,
}

/// What the sweep did about a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepResult {
    /// The row is noted as rung for: ring now, there.
    Send(WorkMessage, Duration, QueueName),
    Exhausted,
    /// Its queue takes no message for it; it stays as it is for the next sweep.
    Throttled(QueueName),
    Skipped,
}

/// What messages the queues still take.
#[derive(Clone, Copy, Debug)]
pub struct QueueCapacity {
    pub live: Capacity,
    pub backlog: Capacity,
}

/// What messages a queue still takes. That of a retry that nobody rang for yet it always takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// For any row.
    Free,
    /// As many messages wait as rows were looked at: most likely one for each of them, and nobody
    /// answers. Only for a row that the sweep has not rung for yet.
    Saturated,
    /// It is deep.
    Full,
}

/// What a row asks for when its message is to be rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityRequest {
    /// The queue where it belongs.
    pub lane: QueueName,
    /// How often the sweep has rung for it.
    pub sends: u32,
    /// The first ring for a retry: no message for it can be waiting.
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
    /// Free, or full, in both.
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
    /// Decides over a row. `seen` is the time to look that the index gave.
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

/// What the sweep reads and writes: due rows, recent events, its lease and its checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct SweepStore<'l>(&'l Ledger);

impl Ledger {
    /// What the sweep reads and writes: due rows, recent events, its lease and its checkpoint.
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
    /// The events of one part of the `work` index whose time to look has come, oldest first, and
    /// that time. At most `limit`.
    pub async fn due(
        self,
        shard: u8,
        now: UnixMillis,
        limit: i32,
    ) -> anyhow::Result<Vec<(EventKey, UnixMillis)>> {
        Ok(self.due_after(shard, now, limit, None).await?.0)
    }

    /// The same behind a place of the index, and the place to go on from, if there is more.
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

    /// The same of those whose time came between these two.
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
            .context("list the events to look at")?;
        let found = answer.items().iter().filter_map(|keys| {
            let key = EventKey::from_pk(item::text(keys, "pk")?)?;
            Some((key, item::time(keys, "gsk")?))
        });
        let found = found.collect();
        Ok((found, answer.last_evaluated_key))
    }

    /// Looks at one of them later, because nothing that it is to be sent to can be reached. `false`
    /// when somebody is at work on it, or it was moved on since the index saw it.
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
        // A destination may be down for longer than bodies are kept.
        if let Ok(row) = Row::read(&item.unwrap_or_default()) {
            self.hold_if_old(&row, now).await;
        }
        Ok(true)
    }

    /// Looks at one of them. The next look is noted before anybody sends, so that two sweeps at
    /// once ring once, and a sweep that dies in between is a little late and not lost.
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

    /// The same, where `admit` says whether the queue takes a message. It is asked once the row is
    /// read and before anything is written, so that a caller who looks at many rows at once can
    /// count each place in the queue when it is given, and not when its message is sent.
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

    /// Takes the right to ring for what is due, or renews it. `false`: another sweep has it. Two that
    /// count the room in a queue by themselves would fill it twice.
    pub async fn sweep_lease(self, owner: &str, now: UnixMillis) -> anyhow::Result<bool> {
        let change = transition::sweep_lease(owner, now, now + SWEEP_LEASE);
        let answer = self.change_item(SWEEP_PK, SWEEP_SK, change).await?;
        Ok(matches!(answer, Write::Applied(_)))
    }

    /// Gives it back.
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
        // Inside the margin for clocks.
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
