//! Which events came by webhook, which only the sync found, and how late.
//!
//! A complete run of the sync has listed all that happened in a span of the provider's time. What
//! of it is old enough to be judged is a [`Window`]: an event of the last minutes may still arrive,
//! and is not called missed. Windows of one run after the other touch each other, and each minute
//! of a day is counted once, by whichever run comes first ([`Tally::piece`]); a run that lists it
//! again, crashes, or runs at the same time as another one adds nothing.

mod counts;
mod delays;
mod store;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::base::calendar::Day;
use crate::base::clock::UnixMillis;
pub use counts::{Counts, Gap, MOST_GAPS};
pub use delays::{BOUNDS, Delays};

/// Milliseconds of a minute, at which windows begin and end.
const MINUTE: i64 = 60 * 1000;

/// What happened less than this ago may still arrive by itself. The overlap of the sync is longer
/// as a rule, and then that counts.
const SETTLING: Duration = Duration::from_secs(300);

/// An event that we had for longer than this when it is said to have happened was counted then:
/// a list of deliveries names it once more for each later attempt.
const AGAIN: Duration = Duration::from_secs(60);

/// The span of provider time that a run may judge; whole minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: UnixMillis,
    pub to: UnixMillis,
}

impl Window {
    /// What a run that asked for everything since `from`, and began at `started`, may judge. The
    /// next one asks from `started - overlap`, which is where this window ends.
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

/// The minute that begins then, or next.
fn minute(at: UnixMillis) -> UnixMillis {
    UnixMillis(at.0.saturating_add(MINUTE - 1).div_euclid(MINUTE) * MINUTE)
}

/// An event that the provider lists, and how we have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Our id of it, within the source.
    pub id: String,
    pub kind: String,
    /// When it happened, by the provider's clock.
    pub happened: UnixMillis,
    /// When it came by webhook, if it did.
    pub webhook: Option<UnixMillis>,
    /// When its row was made.
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

/// What one run has seen, perhaps over several invocations.
#[derive(Clone, Debug)]
pub struct Tally {
    window: Window,
    /// Whether an earlier invocation of the run has seen a part of the list.
    resumed: bool,
    /// All that is judged, by day.
    sums: BTreeMap<Day, Counts>,
    /// The same one by one, of this invocation.
    sightings: Vec<Sighting>,
    ids: HashSet<String>,
}

/// What a run adds to a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub day: Day,
    pub from: UnixMillis,
    pub to: UnixMillis,
    pub counts: Counts,
}

impl Piece {
    /// The whole minutes of it.
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

    /// Goes on from what an earlier invocation of the same run had counted.
    pub fn resumed(window: Window, carried: BTreeMap<Day, Counts>) -> Self {
        Self {
            resumed: true,
            sums: carried,
            ..Self::new(window)
        }
    }

    /// Counts an event of the list once, however often the list names it.
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

    /// Whether the list named it. Only of use where [`is_whole`](Self::is_whole).
    pub fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Whether this invocation has seen the whole list.
    pub fn is_whole(&self) -> bool {
        !self.resumed
    }

    pub fn window(&self) -> Window {
        self.window
    }

    /// The days that there may be something to add to.
    pub fn days(&self) -> impl Iterator<Item = Day> {
        self.window.days()
    }

    /// What has been counted so far, for an invocation that goes on with the run.
    pub fn carried(&self) -> &BTreeMap<Day, Counts> {
        &self.sums
    }

    /// What the run adds to a day that is counted up to `counted`; `None` when that is nothing, or
    /// nothing that can be told from what was counted before.
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

    /// The figures of a day from a time on. Sums of an earlier invocation cannot be cut there.
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

/// The figures of one day of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayCount {
    pub day: Day,
    /// Up to when events of this day were counted.
    pub counted: Option<UnixMillis>,
    /// Minutes of it that a complete list was seen of. The rest of the day is no data.
    pub minutes: u64,
    /// Of these, the ones in which what came by webhook was looked for in the list.
    pub compared: u64,
    pub counts: Counts,
}

/// What a run adds to the figures of a day beside its [`Piece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Whether what came by webhook was looked for in the list.
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
