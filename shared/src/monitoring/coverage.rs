//! Counts the events that arrived by webhook and the events that only the sync found, with their
//! delays.
//!
//! A complete run of the sync lists all events in a period, by the provider's clock. The run counts
//! only the events in its [`Window`], which ends some minutes earlier. A newer event may still
//! arrive by webhook, so it does not count as missed yet. The windows of consecutive runs are
//! adjacent. The first run that lists a minute of a day counts its events. A run that lists the
//! minute again adds nothing for it ([`Tally::piece`]). A run that crashes adds nothing.

mod counts;
mod delays;
mod store;

pub(crate) use store::read as read_day;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::base::calendar::Day;
use crate::base::clock::UnixMillis;
pub use counts::{Counts, Gap, MOST_GAPS};
pub use delays::{BOUNDS, Delays};

/// The milliseconds in a minute. Windows begin and end at whole minutes.
const MINUTE: i64 = 60 * 1000;

/// The minimum age of an event that is counted. A younger event may still arrive by webhook. If the
/// overlap of the sync is longer, as usual, the overlap applies instead.
const SETTLING: Duration = Duration::from_secs(300);

/// The maximum time by which the row of an event can be older than the time in the list. If the row
/// is older, an earlier run has counted the event. A list of deliveries contains an event again for
/// each later delivery attempt.
const AGAIN: Duration = Duration::from_secs(60);

/// The period, by the provider's clock, whose events a run counts. The period consists of whole
/// minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: UnixMillis,
    pub to: UnixMillis,
}

impl Window {
    /// Returns the window of a run that began at `started` and listed all events since `from`. The
    /// next run lists events from `started - overlap`. If the overlap is at least `SETTLING`, this
    /// window ends at the same time.
    pub fn closed(from: UnixMillis, started: UnixMillis, overlap: Duration) -> Self {
        Self {
            from: minute(from),
            to: minute(started - overlap.max(SETTLING)),
        }
    }

    pub fn is_empty(self) -> bool {
        self.from >= self.to
    }

    fn days(self) -> impl Iterator<Item = Day> {
        let last = if self.is_empty() {
            Day::of(self.from).before(1)
        } else {
            Day::of(UnixMillis(self.to.0 - 1))
        };
        Day::of(self.from).up_to(last)
    }
}

/// Rounds up to a whole minute.
fn minute(at: UnixMillis) -> UnixMillis {
    UnixMillis(at.0.saturating_add(MINUTE - 1).div_euclid(MINUTE) * MINUTE)
}

/// An event in the provider's list, with the times at which it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The id in the event key, which is unique in the source.
    pub id: String,
    pub kind: String,
    /// When the event happened, by the provider's clock.
    pub happened: UnixMillis,
    /// When the event arrived by webhook, or `None` if it did not.
    pub webhook: Option<UnixMillis>,
    /// When the row of the event was created.
    pub kept: UnixMillis,
}

impl Sighting {
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        if let Some(came) = self.webhook {
            counts.both = 1;
            counts.late = u64::from(came > self.kept);
            counts.by_webhook.add(came.since(self.happened));
        } else {
            counts.sync = 1;
            counts.by_sync.add(self.kept.since(self.happened));
            counts.gaps.push(Gap {
                happened: self.happened,
                found: self.kept,
                kind: self.kind.clone(),
                id: self.id.clone(),
            });
        }
        counts
    }
}

/// The counts of one run, which can need several invocations.
#[derive(Clone, Debug)]
pub struct Tally {
    window: Window,
    /// Whether an earlier invocation of the run has read a part of the list.
    resumed: bool,
    /// The counts of the events in the window, by day.
    sums: BTreeMap<Day, Counts>,
    /// The events in the window that this invocation has read.
    sightings: Vec<Sighting>,
    ids: HashSet<String>,
}

/// The part of a day that a run adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub day: Day,
    pub from: UnixMillis,
    pub to: UnixMillis,
    pub counts: Counts,
}

impl Piece {
    /// Returns the number of whole minutes.
    pub fn minutes(&self) -> u64 {
        self.to.since(self.from).as_secs() / 60
    }
}

impl Tally {
    pub fn new(window: Window) -> Self {
        Self {
            window,
            resumed: false,
            sums: BTreeMap::new(),
            sightings: Vec::new(),
            ids: HashSet::new(),
        }
    }

    /// Continues with the counts of an earlier invocation of the same run.
    pub fn resumed(window: Window, carried: BTreeMap<Day, Counts>) -> Self {
        Self {
            resumed: true,
            sums: carried,
            ..Self::new(window)
        }
    }

    /// Counts an event of the list once, even if the list contains it several times.
    pub fn saw(&mut self, sighting: Sighting) {
        let again = sighting.happened.since(sighting.kept) > AGAIN;
        let first = self.ids.insert(sighting.id.clone());
        let judged = self.window.from <= sighting.happened && sighting.happened < self.window.to;
        if !first || !judged || again {
            return;
        }
        let day = self.sums.entry(Day::of(sighting.happened)).or_default();
        day.merge(sighting.counts());
        self.sightings.push(sighting);
    }

    /// Returns whether the list contains this id. The result is valid only if
    /// [`is_whole`](Self::is_whole) returns `true`.
    pub fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Returns whether this invocation has read the whole list.
    pub fn is_whole(&self) -> bool {
        !self.resumed
    }

    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns the days of the window.
    pub fn days(&self) -> impl Iterator<Item = Day> {
        self.window.days()
    }

    /// Returns the counts so far, for the invocation that continues the run.
    pub fn carried(&self) -> &BTreeMap<Day, Counts> {
        &self.sums
    }

    /// Returns the part that the run adds to a day whose events are already counted up to
    /// `counted`. Returns `None` if there is nothing to add, or if the part cannot be separated
    /// from the earlier counts.
    pub fn piece(&self, day: Day, counted: Option<UnixMillis>) -> Option<Piece> {
        let begins = day.begins().max(self.window.from);
        let from = counted.map_or(begins, |counted| counted.max(begins));
        let to = day.ends().min(self.window.to);
        if from >= to {
            return None;
        }
        let counts = if from == begins {
            self.sums.get(&day).cloned().unwrap_or_default()
        } else {
            self.since(day, from)?
        };
        Some(Piece {
            day,
            from,
            to,
            counts,
        })
    }

    /// Returns the counts of a day since a time. Returns `None` for a resumed run, because the sums
    /// of an earlier invocation cannot be split.
    fn since(&self, day: Day, from: UnixMillis) -> Option<Counts> {
        let mut counts = Counts::default();
        for sighting in &self.sightings {
            if Day::of(sighting.happened) == day && from <= sighting.happened {
                counts.merge(sighting.counts());
            }
        }
        self.is_whole().then_some(counts)
    }
}

/// The counts of one day of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayCount {
    pub day: Day,
    /// The time up to which the events of the day are counted.
    pub counted: Option<UnixMillis>,
    /// The number of minutes of the day that a complete list covers. There is no data for the other
    /// minutes.
    pub minutes: u64,
    /// The number of these minutes whose webhooks were compared with the list.
    pub compared: u64,
    pub counts: Counts,
}

/// Whether a run also compared the webhooks of a [`Piece`] with the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Whether the events that arrived by webhook were compared with the list.
    pub done: bool,
}

impl DayCount {
    pub(crate) fn empty(day: Day) -> Self {
        Self {
            day,
            counted: None,
            minutes: 0,
            compared: 0,
            counts: Counts::default(),
        }
    }

    pub(crate) fn with(&self, piece: &Piece, comparison: Comparison) -> Self {
        let mut sum = self.clone();
        sum.counted = Some(piece.to);
        sum.minutes += piece.minutes();
        sum.compared += if comparison.done { piece.minutes() } else { 0 };
        sum.counts.merge(piece.counts.clone());
        sum
    }
}

#[cfg(test)]
mod tests;
