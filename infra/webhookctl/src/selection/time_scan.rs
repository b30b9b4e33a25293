//! Scans the `time` index in the order of receipt, and reads only as many pages as needed.
//!
//! An hour of a source has several sorted parts. The scan merges them, and reads the next page of a
//! part only after the last event of that part was taken.

use std::collections::VecDeque;

use futures::StreamExt as _;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cost, HourPart, Ledger, Listed, Next};

use super::position::Position;
use crate::output::time::HOUR_MS;

/// The maximum number of hours that the scan reads together. The scan starts with one hour and
/// doubles the number. So it reads only the newest hour of a busy inbox, and does not send a
/// request for each hour of a quiet week.
const MOST_HOURS: usize = 16;

/// The number of parts to read in parallel.
const AT_ONCE: usize = 32;

pub(super) struct Walk<'a> {
    ledger: &'a Ledger,
    sources: Vec<String>,
    forward: bool,
    /// The number of events in one page of a part.
    page: usize,
    /// The hours that the scan has not read yet, in order.
    hours: VecDeque<(UnixMillis, UnixMillis)>,
    step: usize,
    parts: Vec<Part>,
    pub(super) cost: Cost,
}

struct Part {
    of: HourPart,
    ready: VecDeque<Listed>,
    next: Option<Next>,
    has_more: bool,
}

impl<'a> Walk<'a> {
    /// Creates a scan of a time range, both ends inclusive. The order is oldest first if `forward`,
    /// otherwise newest first.
    pub(super) fn new(
        ledger: &'a Ledger,
        sources: Vec<String>,
        (from, to): (i64, i64),
        forward: bool,
        page: usize,
    ) -> Self {
        let mut hours: VecDeque<(UnixMillis, UnixMillis)> = hours(from, to).collect();
        if !forward {
            hours.make_contiguous().reverse();
        }
        Self {
            ledger,
            sources,
            forward,
            page,
            hours,
            step: 1,
            parts: Vec::new(),
            cost: Cost::default(),
        }
    }

    /// Returns the next events in order: at least `count`, or all remaining events of the range.
    pub(super) async fn next(&mut self, count: usize) -> anyhow::Result<Vec<Listed>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            self.refill().await?;
            let heads = self.parts.iter().filter_map(|part| part.ready.front());
            let times = heads.map(|event| event.received_at);
            let Some(at) = (if self.forward {
                times.min()
            } else {
                times.max()
            }) else {
                if !self.open_more() {
                    break;
                }
                continue;
            };
            taken.extend(self.of_one_time(at).await?);
        }
        Ok(taken)
    }

    /// Returns all remaining events of one millisecond, sorted by id, because the index does not
    /// sort them by id.
    async fn of_one_time(&mut self, at: UnixMillis) -> anyhow::Result<Vec<Listed>> {
        let mut taken = Vec::new();
        loop {
            let before = taken.len();
            for part in &mut self.parts {
                while part
                    .ready
                    .front()
                    .is_some_and(|event| event.received_at == at)
                {
                    taken.extend(part.ready.pop_front());
                }
            }
            if taken.len() == before {
                break;
            }
            self.refill().await?;
        }
        taken.sort_by_key(|event| Position::new(event.received_at.0, event.id.as_str()));
        if !self.forward {
            taken.reverse();
        }
        Ok(taken)
    }

    /// Reads the next page of each part that has no buffered events, until each part has events or
    /// has ended.
    async fn refill(&mut self) -> anyhow::Result<()> {
        loop {
            let (ledger, forward, page) = (self.ledger, self.forward, self.page);
            let empty = self.parts.iter_mut();
            let empty = empty.filter(|part| part.ready.is_empty() && part.has_more);
            let asked = empty.map(|part| async move {
                let found = ledger.hour_page(&part.of, forward, page, part.next.take());
                let found = found.await?;
                part.ready.extend(found.found);
                part.has_more = found.next.is_some();
                part.next = found.next;
                anyhow::Ok(found.cost)
            });
            let costs: Vec<_> = futures::stream::iter(asked)
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            if costs.is_empty() {
                break;
            }
            for cost in costs {
                self.cost += cost?;
            }
            self.parts
                .retain(|part| !part.ready.is_empty() || part.has_more);
        }
        Ok(())
    }

    fn open_more(&mut self) -> bool {
        let count = self.step.min(self.hours.len());
        self.step = (self.step * 2).min(MOST_HOURS);
        for (from, to) in self.hours.drain(..count) {
            for source in &self.sources {
                self.parts
                    .extend(HourPart::of(source, from, to).map(|of| Part {
                        of,
                        ready: VecDeque::new(),
                        next: None,
                        has_more: true,
                    }));
            }
        }
        count > 0
    }
}

/// Splits a time range into UTC hours, because the `time` index is partitioned by hour.
pub(super) fn hours(from: i64, to: i64) -> impl Iterator<Item = (UnixMillis, UnixMillis)> {
    let end = move |at: i64| ((at.div_euclid(HOUR_MS) + 1) * HOUR_MS - 1).min(to);
    let starts = std::iter::successors(Some(from), move |at| Some(end(*at) + 1));
    starts
        .take_while(move |at| *at <= to)
        .map(move |at| (UnixMillis(at), UnixMillis(end(at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_cut_at_full_hours() {
        let cut: Vec<_> = hours(HOUR_MS - 5, 2 * HOUR_MS)
            .map(|(a, b)| (a.0, b.0))
            .collect();
        let hour = HOUR_MS;
        assert_eq!(
            cut,
            [
                (hour - 5, hour - 1),
                (hour, 2 * hour - 1),
                (2 * hour, 2 * hour)
            ]
        );
        assert_eq!(hours(5, 4).count(), 0);
    }
}
