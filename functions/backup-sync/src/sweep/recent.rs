//! Finds recent events that are not in the `work` index yet.
//!
//! The sweep scans the `time` index in the order of receipt, two minutes after receipt, and adds
//! the events that are still open to the `work` index. One hour after the end of each hour, a
//! checksum shows whether the `time` index had late entries. If so, the hour is scanned again.

use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use shared::base::calendar::{self, Hour};
use shared::base::clock::UnixMillis;
use shared::base::timing::{FIRST_LOOK, LAST_LOOK};
use shared::inbox::ledger::{Checksum, HourPart, SweepCheckpoint};
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
    /// Events that were open and are now in the `work` index, with their times of receipt.
    open: Vec<(UnixMillis, EventKey)>,
    failed: u64,
    /// Whether no time was left before the end of the scan.
    was_cut: bool,
}

impl Scanned {
    fn and(mut self, other: Self) -> Self {
        self.open.extend(other.open);
        Self {
            sum: self.sum.and(other.sum),
            open: self.open,
            failed: self.failed + other.failed,
            was_cut: self.was_cut || other.was_cut,
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
            let mut step = self
                .scan_hours(ScanMode::Index, (from, to), sources, now, until)
                .await;
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
            let sum = step.sum;
            *gone = std::mem::take(gone).and(step);
            if whole {
                marks.add_seen(hour, sum);
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
            let shown = self
                .scan_hours(ScanMode::Checksum, (from, to), sources, now, until)
                .await;
            if shown.was_cut {
                return Ok(());
            }
            let mut failed = shown.failed;
            let was_all = marks.take_if_complete(hour, shown.sum);
            if failed == 0 && !was_all {
                let again = self
                    .scan_hours(ScanMode::Index, (from, to), sources, now, until)
                    .await;
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
        }
        Ok(())
    }

    async fn scan_hours(
        &self,
        what: ScanMode,
        (from, to): (UnixMillis, UnixMillis),
        sources: &[String],
        now: UnixMillis,
        until: Instant,
    ) -> Scanned {
        let parts = sources.iter().flat_map(|source| {
            let hours = calendar::cut(from, to).into_iter();
            hours.flat_map(move |(from, to)| HourPart::of(source, from, to))
        });
        let gone: Vec<Scanned> = stream::iter(parts)
            .map(|part| self.scan_part(what, part, now, until))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        gone.into_iter().fold(Scanned::default(), Scanned::and)
    }

    async fn scan_part(
        &self,
        what: ScanMode,
        part: HourPart,
        now: UnixMillis,
        until: Instant,
    ) -> Scanned {
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
                .keys_of_hour(&part, start)
                .await;
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    say(&error);
                    gone.failed += 1;
                    return gone;
                }
            };
            gone.sum = gone.sum.and(Checksum::of(&page.found));
            if what == ScanMode::Index {
                for keys in page.found.chunks(A_BATCH) {
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
