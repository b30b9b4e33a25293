//! Finds recent events that are not in the `work` index yet.
//!
//! The sweep scans the `time` index in the order of receipt, two minutes after receipt, and adds
//! the events that are still open to the `work` index. One hour after the end of each hour, a
//! checksum shows whether the `time` index had late entries. If so, the hour is scanned again. The
//! scan also counts the events, so that commands need not read the current hour of a busy source.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::base::timing::{FIRST_LOOK, LAST_LOOK};
use shared::inbox::ledger::{Checksum, FIRST, HourPart, SweepCheckpoint};
use shared::webhook::event::EventKey;
use tokio::time::Instant;

use crate::{BackupSync, RunTime};

/// The time in one sweep for the scan of recent events. The next sweep continues.
const BUDGET: Duration = Duration::from_secs(60);

/// The span of time that is scanned before the checkpoint moves.
const STEP: Duration = Duration::from_secs(600);

/// The time after which the checkpoint passes an event that could not be read, so that this event
/// does not block the others. Its hour is scanned again.
const PATIENCE: Duration = Duration::from_secs(600);

/// The number of parallel requests.
const AT_ONCE: usize = 16;

/// The number of rows that one request reads.
const A_BATCH: usize = 100;

/// What a scan does with the events that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanMode {
    /// Adds the open events to the `work` index.
    Index,
    /// Only computes the checksum.
    Checksum,
}

/// The result of a scan.
#[derive(Debug, Default)]
struct Scanned {
    sum: Checksum,
    /// The number of events of each source, without quarantined events that conflict with another.
    arrived: BTreeMap<String, u64>,
    /// Events that were open and are now in the `work` index, with their times of receipt.
    open: Vec<(UnixMillis, EventKey)>,
    failed: u64,
    /// Whether no time was left before the end of the scan.
    was_cut: bool,
    /// The number of entries that were read, also of those before the scanned time.
    seen: usize,
}

/// A scan of a part of an hour.
#[derive(Clone, Copy, Debug)]
struct Scan {
    what: ScanMode,
    from: UnixMillis,
    to: UnixMillis,
    now: UnixMillis,
    until: Instant,
    /// Whether the partition of the day shows that the partitions of the hour have no events.
    by_day: bool,
}

impl Scanned {
    fn and(mut self, other: Self) -> Self {
        self.open.extend(other.open);
        for (source, events) in other.arrived {
            *self.arrived.entry(source).or_default() += events;
        }
        Self {
            sum: self.sum.and(other.sum),
            arrived: self.arrived,
            open: self.open,
            failed: self.failed + other.failed,
            was_cut: self.was_cut || other.was_cut,
            seen: self.seen + other.seen,
        }
    }
}

impl BackupSync {
    /// Adds the open events that are not in the `work` index yet. Returns these events, oldest
    /// first, for the sweep to check. Also returns the number of failures, which the next sweep
    /// retries.
    pub(super) async fn sweep_recent(
        &self,
        now: UnixMillis,
        time: RunTime,
    ) -> (Vec<EventKey>, u64) {
        let mut gone = Scanned::default();
        if let Err(error) = self
            .move_checkpoint(now, time.until(BUDGET), &mut gone)
            .await
        {
            say(&error);
            gone.failed += 1;
        }
        gone.open.sort_unstable();
        let open = gone.open.into_iter().map(|(_, key)| key);
        (open.collect(), gone.failed)
    }

    async fn move_checkpoint(
        &self,
        now: UnixMillis,
        until: Instant,
        gone: &mut Scanned,
    ) -> anyhow::Result<()> {
        let ledger = &self.services.inbox.ledger;
        let mut marks = match ledger.sweep().sweep_checkpoint().await? {
            Some(marks) => marks,
            // The checkpoint is stored at once. If this sweep were killed, the next one would
            // otherwise begin at a later time.
            None => ledger.sweep().begin_sweep_checkpoint(now).await?,
        };
        let config = self.services.sources.config();
        let configured = config.sources().map(|one| one.name.as_str());
        let sources = marks.sources(configured, now);
        if marks.begin_by_day(now) {
            ledger.sweep().store_sweep_position(&marks).await?;
        }
        self.scan_new(&mut marks, &sources, now, until, gone)
            .await?;
        self.check_hours(&mut marks, &sources, now, until, gone)
            .await
    }

    /// Scans while time is left. After a failure the scan continues, but the checkpoint does not
    /// move past the failure. The checkpoint is stored after each step, so that a sweep that is
    /// killed loses one step and not all of them.
    async fn scan_new(
        &self,
        marks: &mut SweepCheckpoint,
        sources: &[String],
        now: UnixMillis,
        until: Instant,
        gone: &mut Scanned,
    ) -> anyhow::Result<()> {
        let ledger = &self.services.inbox.ledger;
        let (last, mut at, mut whole) = (now - FIRST_LOOK, marks.at, true);
        while at < last && Instant::now() < until {
            let from = UnixMillis(at.0 + 1);
            let hour = Hour::of(from);
            let to = last.min(at + STEP).min(UnixMillis(hour.ends().0 - 1));
            let scan = Scan {
                what: ScanMode::Index,
                from,
                to,
                now,
                until,
                by_day: marks.by_day_from.is_some_and(|at| at <= hour.begins()),
            };
            let mut step = self.scan_hour(scan, sources).await;
            // Events that are already indexed stay indexed. The next sweep only has to read them
            // again.
            if step.was_cut {
                *gone = std::mem::take(gone).and(step);
                return Ok(());
            }
            if step.failed > 0 {
                step.sum = step.sum.and(Checksum::UNKNOWN);
                whole &= now.since(to) > PATIENCE;
            }
            let (sum, arrived) = (step.sum, std::mem::take(&mut step.arrived));
            let arrived = Some(arrived).filter(|_| step.failed == 0);
            *gone = std::mem::take(gone).and(step);
            if whole {
                marks.add_seen(hour, sum);
                marks.add_arrived(from, arrived.as_ref());
                marks.at = to;
                ledger.sweep().store_sweep_checkpoint(marks).await?;
            }
            at = to;
        }
        Ok(())
    }

    /// Compares the current entries of the `time` index for past hours with the entries that the
    /// scans read. The checkpoint is stored after each hour. After a failure, the stored checkpoint
    /// still has the checksum of the hour, so the next sweep makes the same comparison.
    async fn check_hours(
        &self,
        marks: &mut SweepCheckpoint,
        sources: &[String],
        now: UnixMillis,
        until: Instant,
        gone: &mut Scanned,
    ) -> anyhow::Result<()> {
        while Instant::now() < until {
            let hour = marks.hour;
            let (from, to) = (hour.begins(), UnixMillis(hour.ends().0 - 1));
            if to + LAST_LOOK >= now || to > marks.at {
                return Ok(());
            }
            // The check reads all partitions of the hour.
            let scan = Scan {
                what: ScanMode::Checksum,
                from,
                to,
                now,
                until,
                by_day: false,
            };
            let shown = self.scan_hour(scan, sources).await;
            if shown.was_cut {
                return Ok(());
            }
            let mut failed = shown.failed;
            let was_all = marks.take_if_complete(hour, shown.sum);
            if failed == 0 && !was_all {
                let what = ScanMode::Index;
                let again = self.scan_hour(Scan { what, ..scan }, sources).await;
                let was_cut = again.was_cut;
                failed = again.failed;
                *gone = std::mem::take(gone).and(again);
                if was_cut {
                    return Ok(());
                }
            }
            if failed > 0 {
                gone.failed += shown.failed;
                return Ok(());
            }
            marks.hour = hour.next();
            let ledger = &self.services.inbox.ledger;
            ledger.sweep().store_sweep_checkpoint(marks).await?;
            ledger.sweep().store_sweep_position(marks).await?;
        }
        Ok(())
    }

    async fn scan_hour(&self, scan: Scan, sources: &[String]) -> Scanned {
        let gone: Vec<Scanned> = stream::iter(sources)
            .map(|source| self.scan_source(scan, source))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        gone.into_iter().fold(Scanned::default(), Scanned::and)
    }

    /// Scans the events of a source. If the partition of the day has few events of the hour, the
    /// partitions of the hour have none.
    async fn scan_source(&self, scan: Scan, source: &str) -> Scanned {
        let begins = if scan.by_day {
            Hour::of(scan.from).begins()
        } else {
            scan.from
        };
        let of_day = HourPart::of_day(source, begins, scan.to);
        let gone = self.scan_part(scan, source, of_day).await;
        if gone.was_cut || scan.by_day && gone.failed == 0 && gone.seen < FIRST {
            return gone;
        }
        let parts = HourPart::of_hour(source, scan.from, scan.to);
        let parts: Vec<Scanned> = stream::iter(parts)
            .map(|part| self.scan_part(scan, source, part))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        parts.into_iter().fold(gone, Scanned::and)
    }

    async fn scan_part(&self, scan: Scan, source: &str, part: HourPart) -> Scanned {
        let Scan {
            what, now, until, ..
        } = scan;
        let (mut gone, mut start) = (Scanned::default(), None);
        loop {
            if Instant::now() >= until {
                gone.was_cut = true;
                return gone;
            }
            let page = self
                .services
                .inbox
                .ledger
                .sweep()
                .events_of_part(&part, start)
                .await;
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    say(&error);
                    gone.failed += 1;
                    return gone;
                }
            };
            gone.seen += page.found.len();
            let events = page.found.into_iter();
            let events = events.filter(|event| event.received_at >= scan.from);
            let keys: Vec<EventKey> = events.map(|event| event.key).collect();
            gone.sum = gone.sum.and(Checksum::of(&keys));
            let arrived = keys.iter().filter(|key| !key.is_conflicting());
            *gone.arrived.entry(source.to_owned()).or_default() += arrived.count() as u64;
            if what == ScanMode::Index {
                for keys in keys.chunks(A_BATCH) {
                    if Instant::now() >= until {
                        gone.was_cut = true;
                        return gone;
                    }
                    self.index_open(keys, now, &mut gone).await;
                }
            }
            start = page.next;
            if start.is_none() {
                return gone;
            }
        }
    }

    async fn index_open(&self, keys: &[EventKey], now: UnixMillis, gone: &mut Scanned) {
        let ledger = &self.services.inbox.ledger;
        let open = match ledger.sweep().unindexed_keys(keys).await {
            Ok((open, _)) => open,
            Err(error) => {
                say(&error);
                gone.failed += 1;
                return;
            }
        };
        let watched: Vec<_> = stream::iter(open)
            .map(async |(key, received_at)| {
                let watched = ledger.sweep().index_event(&key, now).await;
                ((received_at, key), watched)
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (event, watched) in watched {
            match watched {
                Ok(true) => gone.open.push(event),
                Ok(false) => {}
                Err(error) => {
                    say(&error);
                    gone.failed += 1;
                }
            }
        }
    }
}

/// Logs a failure, which must not stop the other rows.
fn say(error: &anyhow::Error) {
    tracing::warn!(
        error = format!("{error:#}"),
        "could not scan some recent events"
    );
}
