//! Events that came a moment ago, and stand in no part of the `work` index.
//!
//! Nearly every event is done within seconds. To put each into the index and to take it out again
//! would be two of seven write units, for the sake of the few whose message is lost. So the
//! catcher leaves it out, and the sweep goes over all that came in the order of time, behind a mark
//! that says how far it is: what it finds open gets its place in the index, from which it is swept
//! like every other. When an hour is long over, it looks whether what the `time` index shows of it is
//! what it saw; if not, it goes over that hour again.

mod checkpoint;

use crate::inbox::ledger::SweepStore;
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::pages::{Cost, HourPart, MOST_AT_ONCE, Next, Page, key_of};
use super::{Item, State, Write, item, transition};
use crate::base::calendar;
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;
pub use checkpoint::{Checksum, SweepCheckpoint};

/// Another clock may be ahead of ours.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// Parts of the index that are read at the same time.
const AT_ONCE: usize = 16;

/// Who sees to an event whose message is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// The sweep finds it by the time at which it was received. Only for what is put as soon as it
    /// is received: behind its mark the sweep does not look.
    TimeIndex,
    /// It gets its place in the `work` index with its row.
    WorkIndex,
}

/// What is open of what came a moment ago.
#[derive(Clone, Debug, Default)]
pub struct RecentEvents {
    /// In no order.
    pub open: Vec<EventKey>,
    /// Whether there may be more.
    pub or_more: bool,
    pub cost: Cost,
}

impl SweepStore<'_> {
    /// The next events of a part of the `time` index, newest first, as many as one answer holds.
    pub async fn keys_of_hour(
        self,
        part: &HourPart,
        start: Option<Next>,
    ) -> anyhow::Result<Page<EventKey>> {
        let page = self.of_hour(part, false, None, start).await?;
        Ok(page.read(key_of))
    }

    /// Those of these events that are open and stand in no part of the `work` index, as of a moment
    /// ago, and when each was received.
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

    /// Gives an open event its place in the `work` index, to be looked at now. `false`: it has one,
    /// or is open no more.
    pub async fn index_event(self, key: &EventKey, now: UnixMillis) -> anyhow::Result<bool> {
        let pk = key.pk();
        let change = transition::index_event(&pk, now);
        Ok(match self.change(&pk, change).await? {
            Write::Applied(_) => true,
            // Our own write, its answer lost, is for the next sweep, which sees it in the index.
            Write::Refused(_) => false,
        })
    }

    /// The open events of these sources that stand in no part of the `work` index: of what came for
    /// each of them within an hour, the newest of a part of the `time` index, and about `most`.
    pub async fn recent_events(
        self,
        sources: &[&str],
        now: UnixMillis,
        most: usize,
    ) -> anyhow::Result<RecentEvents> {
        let marks = self
            .sweep_checkpoint()
            .await?
            .unwrap_or_else(|| SweepCheckpoint::new(now));
        let spans = calendar::cut(UnixMillis(marks.at.0 + 1), now + CLOCKS_APART);
        let parts = sources.iter().flat_map(|source| {
            let spans = spans.iter();
            spans.flat_map(move |(from, to)| HourPart::of(source, *from, *to))
        });
        let found: Vec<RecentEvents> = stream::iter(parts)
            .map(|part| self.recent_events_of(part, most))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let mut fresh = RecentEvents {
            cost: Cost {
                calls: 1,
                read_units: 1.0,
            },
            ..RecentEvents::default()
        };
        for part in found {
            fresh.open.extend(part.open);
            fresh.or_more |= part.or_more;
            fresh.cost += part.cost;
        }
        Ok(fresh)
    }

    async fn recent_events_of(self, part: HourPart, most: usize) -> anyhow::Result<RecentEvents> {
        let (mut fresh, mut seen, mut start) = (RecentEvents::default(), 0, None);
        loop {
            let page = self.keys_of_hour(&part, start).await?;
            fresh.cost += page.cost;
            for keys in page.found.chunks(MOST_AT_ONCE) {
                if seen >= most {
                    fresh.or_more = true;
                    return Ok(fresh);
                }
                seen += keys.len();
                let (open, cost) = self.unindexed_keys(keys).await?;
                fresh.open.extend(open.into_iter().map(|(key, _)| key));
                fresh.cost += cost;
            }
            start = page.next;
            if start.is_none() {
                return Ok(fresh);
            }
        }
    }
}

fn is_unindexed(row: &Item) -> bool {
    let state = item::text(row, "st").and_then(State::parse);
    // What newer code calls open by another name is open.
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
