//! Recent events, which are not in the `work` index.
//!
//! Nearly every event is done within seconds. Adding each event to the `work` index and removing it
//! again would cost two of seven write units per event. This cost would help only the few events
//! whose message is lost, so the catcher does not index new events. Instead, the sweep scans all
//! events by time of receipt, and records its position in a checkpoint. It adds the events that are
//! still open to the index, and then checks them like other indexed events. One hour after the end
//! of each hour, the sweep compares the `time` index with the checksum of the events that it saw.
//! If they differ, the sweep scans that hour again.

mod checkpoint;

use crate::inbox::ledger::SweepStore;
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::pages::{Cost, HourPart, Next, Page, key_of};
use super::read::listed;
use super::{Item, Listed, SourceEntries, State, Write, item, transition};
use crate::base::clock::UnixMillis;
use crate::inbox::table::MOST_AT_ONCE;
use crate::webhook::event::EventKey;
pub use checkpoint::{Checksum, SweepCheckpoint};

/// The clock of another function may be ahead by this much.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// The time before now whose notes are read. The checkpoint of the sweep is usually minutes old.
const HOURS: Duration = Duration::from_secs(24 * 3600);

/// The number of index partitions that are read in parallel.
const AT_ONCE: usize = 16;

/// How the sweep finds an event whose message is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// In the `time` index, by its time of receipt. This works only for events that are stored as
    /// soon as they are received, because the sweep does not scan times before its checkpoint.
    TimeIndex,
    /// In the `work` index. The put of the row adds the event to this index.
    WorkIndex,
}

/// The open recent events.
#[derive(Clone, Debug, Default)]
pub struct RecentEvents {
    /// The keys of the events, in no order.
    pub open: Vec<EventKey>,
    /// Whether there may be more open events.
    pub or_more: bool,
    pub cost: Cost,
}

impl SweepStore<'_> {
    /// Returns the next events of a partition of the `time` index, newest first. The page has as
    /// many events as one response holds.
    pub async fn events_of_part(
        self,
        part: &HourPart,
        start: Option<Next>,
    ) -> anyhow::Result<Page<Listed>> {
        let page = self.of_hour(part, false, None, start).await?;
        Ok(page.read(listed))
    }

    /// Returns the given events that are open and not in the `work` index, each with its time of
    /// receipt. The read is eventually consistent.
    pub async fn unindexed_keys(
        self,
        keys: &[EventKey],
    ) -> anyhow::Result<(Vec<(EventKey, UnixMillis)>, Cost)> {
        let (rows, cost) = self.state_rows(keys, Some("pk, st, gpk, rcv")).await?;
        let open = rows.iter().filter(|row| is_unindexed(row));
        let open = open.filter_map(|row| {
            let received_at = item::time(row, "rcv").unwrap_or(UnixMillis(0));
            Some((key_of(row)?, received_at))
        });
        Ok((open.collect(), cost))
    }

    /// Adds an open event to the `work` index, due now. Returns `false` if the event is already in
    /// the index, or is no longer open.
    pub async fn index_event(self, key: &EventKey, now: UnixMillis) -> anyhow::Result<bool> {
        let pk = key.pk();
        let change = transition::index_event(&pk, now);
        Ok(match self.change(&pk, change).await? {
            Write::Applied(_) => true,
            // An earlier try of this write may have succeeded, but its response was lost. The next
            // sweep then finds the event in the index.
            Write::Refused(_) => false,
        })
    }

    /// Returns the open events of these sources that are not in the `work` index. For each source
    /// and hour, the method reads about `most` of the newest events in each partition of the `time`
    /// index.
    pub async fn recent_events(
        self,
        sources: &[&str],
        now: UnixMillis,
        most: usize,
    ) -> anyhow::Result<RecentEvents> {
        // The hours before are in the checkpoint of the sweep, unless it is late.
        let active = self.active_hours(now - HOURS, now + CLOCKS_APART).await?;
        let (from, to) = recent_span(active.checkpoint(), now);
        let entries = self.entries_of_all(&active, sources, (from, to), most);
        let entries = entries.await?;
        let mut fresh = self.open_of(&entries, from, usize::MAX).await?;
        fresh.cost += active.cost;
        for of_source in &entries {
            fresh.cost += of_source.cost;
        }
        Ok(fresh)
    }

    /// Returns those of these events that were received at `from` or later, are open and not in the
    /// `work` index. Reads at most `most` of them, the newest.
    pub async fn open_of(
        self,
        entries: &[SourceEntries],
        from: UnixMillis,
        most: usize,
    ) -> anyhow::Result<RecentEvents> {
        let mut fresh = RecentEvents::default();
        let mut keys = Vec::new();
        for of_source in entries {
            fresh.or_more |= of_source.or_more;
            let recent = of_source
                .found
                .iter()
                .filter(|event| event.received_at >= from);
            keys.extend(recent.map(|event| (event.received_at, event.key.clone())));
        }
        if keys.len() > most {
            keys.sort_unstable_by(|a, b| b.cmp(a));
            keys.truncate(most);
            fresh.or_more = true;
        }
        let keys: Vec<EventKey> = keys.into_iter().map(|(_, key)| key).collect();
        let read = keys
            .chunks(MOST_AT_ONCE)
            .map(|keys| self.unindexed_keys(keys));
        let read: Vec<_> = stream::iter(read)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        for (open, cost) in read {
            fresh.open.extend(open.into_iter().map(|(key, _)| key));
            fresh.cost += cost;
        }
        Ok(fresh)
    }
}

/// Returns the times of the events that the sweep has not scanned yet, both inclusive.
pub fn recent_span(
    checkpoint: Option<&SweepCheckpoint>,
    now: UnixMillis,
) -> (UnixMillis, UnixMillis) {
    let at = checkpoint.map_or_else(|| SweepCheckpoint::new(now).at, |checkpoint| checkpoint.at);
    (UnixMillis(at.0 + 1), now + CLOCKS_APART)
}

fn is_unindexed(row: &Item) -> bool {
    let state = item::text(row, "st").and_then(State::parse);
    // A state that only newer code knows counts as open.
    let ended = matches!(
        state,
        Some(State::Done | State::DeadLetter | State::Quarantined)
    );
    !ended && !row.contains_key("gpk")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_open_and_in_no_index_is_unwatched() {
        let row = |state: &str, indexed: bool| {
            let mut row = Item::from([("st".to_owned(), item::s(state))]);
            if indexed {
                row.insert("gpk".to_owned(), item::s("W#1"));
            }
            is_unindexed(&row)
        };
        assert!(row("received", false) && row("processing", false));
        assert!(row("a state to come", false));
        assert!(!row("received", true) && !row("failed", true));
        assert!(!row("done", false) && !row("dead_letter", false) && !row("quarantined", false));
    }
}
