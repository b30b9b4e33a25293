//! What came a moment ago stands in no index of open events: it is gone over in the order of time,
//! when its message should have been heard. An hour that is long over is held against what was seen
//! of it.

use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use shared::base::calendar::{self, Hour};
use shared::base::clock::UnixMillis;
use shared::base::timing::{FIRST_LOOK, LAST_LOOK};
use shared::inbox::ledger::{Checksum, HourPart, SweepCheckpoint};
use shared::webhook::event::EventKey;
use tokio::time::Instant;

use crate::{BackupSync, RunTime};

/// For how long one sweep goes over what came. The next one goes on.
const BUDGET: Duration = Duration::from_secs(60);

/// How much of the time is gone over before the mark is moved.
const STEP: Duration = Duration::from_secs(600);

/// So long after an event the mark passes it although it could not be looked at: one that never can
/// must not keep the others from being looked at. Its hour is gone over again.
const PATIENCE: Duration = Duration::from_secs(600);

/// Requests at the same time.
const AT_ONCE: usize = 16;

/// Rows that one request reads.
const A_BATCH: usize = 100;

/// What is done with what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanMode {
    /// What is open gets its place in the index.
    Index,
    /// It is counted, and nothing more.
    Checksum,
}

/// What going over some time came to.
#[derive(Debug, Default)]
struct Scanned {
    sum: Checksum,
    /// What was open, and has its place in the index now; and when it was received.
    open: Vec<(UnixMillis, EventKey)>,
    failed: u64,
    /// There was no time for all of it.
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
    /// Gives what is open and in no index its place there, and returns it, to be looked at, oldest
    /// first. What fails is tried again by the next sweep; how often it failed comes along.
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
        let ledger = &self.parts.inbox.ledger;
        let mut marks = match ledger.sweep_checkpoint().await? {
            Some(marks) => marks,
            // Stored at once: the next sweep would otherwise begin later, if this one is killed.
            None => ledger.begin_sweep_checkpoint(now).await?,
        };
        let configured = self.parts.config.sources().map(|one| one.name.as_str());
        let sources = marks.sources(configured, now);
        self.scan_new(&mut marks, &sources, now, until, gone).await;
        self.check_hours(&mut marks, &sources, now, until, gone)
            .await;
        ledger.store_sweep_checkpoint(&marks).await
    }

    /// Goes as far as there is time. Behind what failed it goes on too, but the mark stays there.
    async fn scan_new(
        &self,
        marks: &mut SweepCheckpoint,
        sources: &[String],
        now: UnixMillis,
        until: Instant,
        gone: &mut Scanned,
    ) {
        let (last, mut at, mut whole) = (now - FIRST_LOOK, marks.at, true);
        while at < last && Instant::now() < until {
            let from = UnixMillis(at.0 + 1);
            let hour = Hour::of(from);
            let to = last.min(at + STEP).min(UnixMillis(hour.ends().0 - 1));
            let mut step = self
                .scan_hours(ScanMode::Index, (from, to), sources, now, until)
                .await;
            // What is in the index by now stays there, and costs the next sweep a read.
            if step.was_cut {
                *gone = std::mem::take(gone).and(step);
                return;
            }
            if step.failed > 0 {
                step.sum = step.sum.and(Checksum::UNKNOWN);
                whole &= now.since(to) > PATIENCE;
            }
            if whole {
                marks.add_seen(hour, step.sum);
                marks.at = to;
            }
            *gone = std::mem::take(gone).and(step);
            at = to;
        }
    }

    /// Holds what is shown of the hours that are long over against what was seen of them.
    async fn check_hours(
        &self,
        marks: &mut SweepCheckpoint,
        sources: &[String],
        now: UnixMillis,
        until: Instant,
        gone: &mut Scanned,
    ) {
        while Instant::now() < until {
            let hour = marks.hour;
            let (from, to) = (hour.begins(), UnixMillis(hour.ends().0 - 1));
            if to + LAST_LOOK >= now || to > marks.at {
                return;
            }
            let shown = self
                .scan_hours(ScanMode::Checksum, (from, to), sources, now, until)
                .await;
            if shown.was_cut {
                return;
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
                    return;
                }
            }
            if failed > 0 {
                // It is gone over in the next sweep.
                marks.add_seen(hour, Checksum::UNKNOWN);
                gone.failed += shown.failed;
                return;
            }
            marks.hour = hour.next();
        }
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
            let page = self.parts.inbox.ledger.keys_of_hour(&part, start).await;
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
        let ledger = &self.parts.inbox.ledger;
        let open = match ledger.unindexed_keys(keys).await {
            Ok((open, _)) => open,
            Err(error) => {
                say(&error);
                gone.failed += 1;
                return;
            }
        };
        let watched: Vec<_> = stream::iter(open)
            .map(async |(key, received_at)| {
                let watched = ledger.index_event(&key, now).await;
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

/// One row's trouble must not keep the others asleep.
fn say(error: &anyhow::Error) {
    tracing::warn!(
        error = format!("{error:#}"),
        "could not look at some of what came a moment ago"
    );
}
