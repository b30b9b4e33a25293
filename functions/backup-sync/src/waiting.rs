//! The health checks for events that make no progress: their destination is down, or they wait too
//! long. A deferral uses no attempt, so such an event does not become a dead letter, which an
//! operator would see.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::delivery::breaker::{Breakers, Position};
use shared::inbox::ledger::transition::WORK_SHARDS;
use shared::webhook::event::EventKey;

use crate::BackupSync;

/// The interval between two probes of a failing destination is shorter than this, while events wait
/// for it. A destination without a probe for this long has no waiting events.
const PROBED: Duration = Duration::from_secs(900);

/// The number of index entries in one read, and of reads for each part of the index.
const PAGE: i32 = 500;
const PAGES: usize = 4;

/// The number of rows that are read for each part of the index.
const ROWS: usize = 25;

/// How far ahead the sweep schedules a check. The longest wait of a source is a day.
const FAR: Duration = Duration::from_secs(7 * 24 * 3600);

impl BackupSync {
    /// Returns the configured destinations whose circuit breaker is open.
    pub(crate) async fn failing_destinations(
        &self,
        now: UnixMillis,
    ) -> anyhow::Result<BTreeSet<String>> {
        let positions = Breakers::positions(&self.services.inbox.ledger, now).await?;
        let config = self.services.sources.config();
        let actions = config.sources().flat_map(|source| &source.actions);
        let named = actions.filter_map(|action| Some(action.destination.as_ref()?.name.as_str()));
        let is_down = |name: &&str| match positions.get(*name) {
            Some((Position::Open { .. }, _)) => true,
            Some((Position::Probing, written)) => now.since(*written) < PROBED,
            Some((Position::Closed, _)) | None => false,
        };
        Ok(named.filter(is_down).map(str::to_owned).collect())
    }

    /// Returns whether an event of a source that is not paused has been open for longer than
    /// `limit`. An inbox with many open events is sampled.
    pub(crate) async fn has_waiting_events(
        &self,
        limit: Duration,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        let since = now - limit;
        let mut paused = BTreeMap::new();
        for shard in 0..WORK_SHARDS {
            let mut open = Vec::new();
            let mut place = None;
            for _ in 0..PAGES {
                let all = (UnixMillis(0), now + FAR);
                let sweep = self.services.inbox.ledger.sweep();
                let (page, next) = sweep.due_between(shard, all, PAGE, place).await?;
                for (key, look) in page {
                    if self.is_paused(&key, &mut paused, now).await? {
                        continue;
                    }
                    // No check of an event is scheduled before the event is received.
                    if look < since {
                        return Ok(true);
                    }
                    open.push(key);
                }
                place = next;
                if place.is_none() {
                    break;
                }
            }
            // The interval between two checks of an event grows, so the last ones have waited longest.
            let last = &open[open.len().saturating_sub(ROWS)..];
            if self.has_waited(last, since).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the queues in which an event of a source that is not paused has been available to
    /// workers for longer than `limit`.
    pub(crate) async fn waiting_queues(
        &self,
        limit: Duration,
        now: UnixMillis,
    ) -> anyhow::Result<BTreeSet<String>> {
        let mut waiting = BTreeSet::new();
        let config = self.services.sources.config();
        for source in config.pulled() {
            let Some((_, pull)) = source.pull() else {
                continue;
            };
            if waiting.contains(&pull.queue) || self.pauses.is_paused(&source.name, now).await? {
                continue;
            }
            let ledger = &self.services.inbox.ledger;
            let found = ledger.work_available(&source.name, now - limit, 1).await?;
            if !found.is_empty() {
                waiting.insert(pull.queue.clone());
            }
        }
        Ok(waiting)
    }

    /// Returns whether one of these events was received before `since` and is still open. A replayed
    /// event was received long ago, so only the time of its next check shows that it waits.
    async fn has_waited(&self, keys: &[EventKey], since: UnixMillis) -> anyhow::Result<bool> {
        if keys.is_empty() {
            return Ok(false);
        }
        let (rows, _) = self.services.inbox.ledger.rows(keys).await?;
        let mut rows = rows.iter().map(|stored| &stored.row);
        Ok(rows.any(|row| row.is_open() && row.run == 0 && row.received_at < since))
    }

    async fn is_paused(
        &self,
        key: &EventKey,
        known: &mut BTreeMap<String, bool>,
        now: UnixMillis,
    ) -> anyhow::Result<bool> {
        if let Some(paused) = known.get(key.source()) {
            return Ok(*paused);
        }
        let paused = self.pauses.is_paused(key.source(), now).await?;
        known.insert(key.source().to_owned(), paused);
        Ok(paused)
    }
}
