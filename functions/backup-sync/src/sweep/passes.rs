//! Runs the passes of a sweep over the rows that are due.

use std::collections::VecDeque;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::base::timing::{OLD, SWEEP_LEASE};
use shared::inbox::ledger::Item;
use shared::inbox::ledger::transition::WORK_SHARDS;
use shared::webhook::event::EventKey;
use tokio::time::{Instant, sleep, sleep_until};

use super::Work;
use crate::BackupSync;
use crate::deadline::from_anywhere;

/// The number of rows that one request reads from one part of the index.
const ROWS: i32 = 500;

/// The number of rows that are checked before the time and the capacity are checked again.
const BATCH: usize = 160;

/// The time that a sweep waits for messages to be received before it assumes that the queue has no
/// consumer.
const PAUSE: Duration = Duration::from_secs(10);

/// The two groups of rows, by due time. A row that has long been due belongs to an old event, whose
/// message goes to the backlog queue. While the backlog queue is full, old events must not delay
/// recent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    Recent,
    Old,
}

/// The result of checking one page of rows.
enum Page {
    /// More rows follow, from this key.
    Next(Item),
    Last,
    /// The queue is full or no time is left, so the sweep reads no more rows.
    Full,
}

impl BackupSync {
    /// Runs passes while time is left, rows are left, and the passes make progress.
    pub(super) async fn sweep_all(
        &self,
        fresh: &[(EventKey, UnixMillis)],
        work: &Work,
    ) -> anyhow::Result<()> {
        // The index may not contain these rows yet.
        self.sweep_row_batches(fresh, Stretch::Recent, work).await?;
        loop {
            let before = work.report.borrow().progress();
            // The next pass checks the rows that this pass throttled again.
            work.report.borrow_mut().throttled = 0;
            work.more.set(false);
            self.pass(work).await?;
            let throttled = work.report.borrow().throttled > 0;
            let no_progress = work.report.borrow().progress() == before;
            let pause = work.time.scaled(PAUSE);
            let over = Instant::now() + pause >= work.until;
            if !(throttled || work.more.get()) || no_progress || over {
                work.more.set(throttled || work.more.get());
                return Ok(());
            }
            sleep(pause).await;
            work.ahead.borrow_mut().clear();
            let (live, backlog) = self.depths().await?;
            work.asked.set(Instant::now());
            work.room.borrow_mut().begin(live, backlog, Instant::now());
        }
    }

    /// Checks all rows that are due, recent rows first. The parts of the index alternate, one page
    /// each. The rows that have been due longest therefore come first, and no recent event becomes
    /// old only because its part is the last.
    async fn pass(&self, work: &Work) -> anyhow::Result<()> {
        let now = (self.clock)();
        let shards = from_anywhere((0..WORK_SHARDS).collect())?;
        for stretch in [Stretch::Recent, Stretch::Old] {
            let mut parts: VecDeque<_> = shards.iter().map(|shard| (*shard, None)).collect();
            while let Some((shard, place)) = parts.pop_front() {
                match self.sweep_page(shard, place, stretch, now, work).await? {
                    Page::Last => {}
                    Page::Next(place) => parts.push_back((shard, Some(place))),
                    Page::Full => {
                        work.more.set(true);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks one page of a part of the index. Rows that this code cannot process, because newer
    /// code wrote them or they are damaged, stay at the front of the part. The rows behind them are
    /// still checked.
    async fn sweep_page(
        &self,
        shard: u8,
        place: Option<Item>,
        stretch: Stretch,
        now: UnixMillis,
        work: &Work,
    ) -> anyhow::Result<Page> {
        if work.is_over() {
            return Ok(Page::Full);
        }
        // No row is due before it was received.
        let old = now - OLD;
        let due = match stretch {
            Stretch::Recent => (old, now),
            Stretch::Old => (UnixMillis(0), UnixMillis(old.0 - 1)),
        };
        let ledger = &self.services.inbox.ledger;
        let (rows, next) = ledger.sweep().due_between(shard, due, ROWS, place).await?;
        Ok(match next {
            _ if !self.sweep_row_batches(&rows, stretch, work).await? => Page::Full,
            Some(place) => Page::Next(place),
            None => Page::Last,
        })
    }

    /// Checks rows, as many at once as the queue has capacity for. Returns `false` if no capacity
    /// or no time is left.
    async fn sweep_row_batches(
        &self,
        mut rows: &[(EventKey, UnixMillis)],
        stretch: Stretch,
        work: &Work,
    ) -> anyhow::Result<bool> {
        while !rows.is_empty() {
            if !self.has_room(stretch, work).await? {
                return Ok(false);
            }
            let most = work.room_for(stretch).min(BATCH).min(rows.len());
            let (batch, rest) = rows.split_at(most);
            self.sweep_rows(batch, work).await;
            rows = rest;
        }
        Ok(true)
    }

    /// Returns whether this sweep holds its lease and the queue has capacity. If the queue is full,
    /// reads its depth again for a while, until messages are received.
    async fn has_room(&self, stretch: Stretch, work: &Work) -> anyhow::Result<bool> {
        let patience = Instant::now() + work.time.scaled(PAUSE);
        loop {
            if work.is_over() || !self.still_holds_lease(work).await? {
                return Ok(false);
            }
            if work.room_for(stretch) > 0 {
                return Ok(true);
            }
            let next = work.next_depth_check();
            if next.max(Instant::now()) >= patience.min(work.until) {
                return Ok(false);
            }
            sleep_until(next).await;
            let (live, backlog) = self.depths().await?;
            work.asked.set(Instant::now());
            work.room.borrow_mut().renew(live, backlog, Instant::now());
        }
    }

    /// Returns whether this sweep holds its lease. Renews the lease when a third of it is over.
    async fn still_holds_lease(&self, work: &Work) -> anyhow::Result<bool> {
        let now = (self.clock)();
        if work.leased.get() > now + SWEEP_LEASE * 2 / 3 {
            return Ok(true);
        }
        let leads = self
            .services
            .inbox
            .ledger
            .sweep()
            .sweep_lease(&work.owner, now)
            .await?;
        if leads {
            work.leased.set(now + SWEEP_LEASE);
        }
        Ok(leads)
    }
}
