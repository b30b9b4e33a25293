//! Scans the `time` index in the order of receipt, and reads only as many pages as needed.
//!
//! The events of a source are in several sorted parts: one for each day, and some for each busy hour.
//! The scan merges them, and reads the next page of a part only after the last event of that part was
//! taken. It skips hours that are known to have no events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use shared::base::calendar::{Day, Hour};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{
    ActiveHours, Cost, FIRST, HourPart, Ledger, Listed, Next, Reading, crowded,
};

use super::position::Position;
use crate::output::time::clock;

/// The maximum number of hours that the scan opens together. The scan starts with one hour and
/// doubles the number, so it reads only the newest hour of a busy inbox. It opens an hour alone if it
/// must read the partitions of the hour, because each source can have four of them.
const MOST_HOURS: usize = 16;

/// The number of parts to read in parallel.
const AT_ONCE: usize = 32;

/// The time after which a scan says how far it is, and the interval between two lines.
const SAY_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Walk<'a> {
    ledger: &'a Ledger,
    sources: Vec<String>,
    forward: bool,
    /// The time range, both ends inclusive.
    from: UnixMillis,
    to: UnixMillis,
    /// The number of events in one page of a part.
    page: usize,
    /// Which hours can have events. It is read before the first hour is opened.
    active: Option<ActiveHours>,
    /// The hours that the scan has not opened yet, in order.
    hours: VecDeque<Hour>,
    opened: usize,
    step: usize,
    /// The days whose parts are open.
    days: BTreeSet<Day>,
    /// The last time that belongs to an opened hour. Later events must wait for the parts of their
    /// hours.
    horizon: Option<UnixMillis>,
    parts: Vec<Part>,
    /// The hours whose own partitions may have events, by source.
    crowded: BTreeMap<String, BTreeSet<Hour>>,
    said: Instant,
    pub(super) cost: Cost,
}

struct Part {
    of: HourPart,
    ready: VecDeque<Listed>,
    next: Option<Next>,
    has_more: bool,
    /// The source and the hours of a part of a day, until its first page was read.
    undecided: Option<(String, Vec<(Hour, Reading)>)>,
}

impl Part {
    fn new(of: HourPart) -> Self {
        Self {
            of,
            ready: VecDeque::new(),
            next: None,
            has_more: true,
            undecided: None,
        }
    }
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
        let hours = Hour::of(UnixMillis(from)).up_to(Hour::of(UnixMillis(to)));
        let mut hours: VecDeque<Hour> = hours.filter(|_| from <= to).collect();
        if !forward {
            hours.make_contiguous().reverse();
        }
        Self {
            ledger,
            sources,
            forward,
            from: UnixMillis(from),
            to: UnixMillis(to),
            page,
            active: None,
            hours,
            opened: 0,
            step: 1,
            days: BTreeSet::new(),
            horizon: None,
            parts: Vec::new(),
            crowded: BTreeMap::new(),
            said: Instant::now(),
            cost: Cost::default(),
        }
    }

    /// Returns how far the scan is, if it has taken for long since it was last asked.
    pub(super) fn news(&mut self) -> Option<String> {
        if self.said.elapsed() < SAY_EVERY {
            return None;
        }
        self.said = Instant::now();
        let at = self.horizon?;
        let all = self.opened + self.hours.len();
        Some(format!(
            "searched {} of {all} hours, to {} …",
            self.opened,
            clock(at.0, self.to.0)
        ))
    }

    /// Returns the next events in order: at least `count`, or all remaining events of the range.
    pub(super) async fn next(
        &mut self,
        count: usize,
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Vec<Listed>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            self.refill().await?;
            if let Some(news) = self.news() {
                say(&news);
            }
            let Some(at) = self.head() else {
                if !self.open_more().await? {
                    break;
                }
                continue;
            };
            taken.extend(self.of_one_time(at).await?);
        }
        Ok(taken)
    }

    /// Returns the time of the next event, if all parts that can have it are open.
    fn head(&self) -> Option<UnixMillis> {
        let horizon = self.horizon?;
        let heads = self.parts.iter().filter_map(|part| part.ready.front());
        let times = heads.map(|event| event.received_at);
        if self.forward {
            times.min().filter(|at| *at <= horizon)
        } else {
            times.max().filter(|at| *at >= horizon)
        }
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
            let (from, to) = (self.from, self.to);
            let empty = self.parts.iter_mut();
            let empty = empty.filter(|part| part.ready.is_empty() && part.has_more);
            let asked = empty.map(|part| async move {
                // The first page tells how many events the newest hours have.
                let page = match part.undecided {
                    Some(_) => page.max(FIRST),
                    None => page,
                };
                let found = ledger.hour_page(&part.of, forward, page, part.next.take());
                let found = found.await?;
                part.has_more = found.next.is_some();
                part.next = found.next;
                let decided = part.undecided.take().map(|(source, readings)| {
                    (source, crowded(&found.found, part.has_more, &readings))
                });
                // The part of a day begins at an hour, to count its events.
                let ended = found
                    .found
                    .last()
                    .is_some_and(|last| last.received_at < from);
                part.has_more &= forward || !ended;
                let inside = found.found.into_iter();
                part.ready
                    .extend(inside.filter(|event| (from..=to).contains(&event.received_at)));
                anyhow::Ok((found.cost, decided))
            });
            let read: Vec<_> = futures::stream::iter(asked)
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            if read.is_empty() {
                return Ok(());
            }
            for one in read {
                let (cost, decided) = one?;
                self.cost += cost;
                if let Some((source, hours)) = decided {
                    self.crowded.entry(source).or_default().extend(hours);
                }
            }
            self.parts
                .retain(|part| !part.ready.is_empty() || part.has_more);
        }
    }

    /// Opens the next hours. Returns `false` if there are none.
    async fn open_more(&mut self) -> anyhow::Result<bool> {
        if self.hours.is_empty() {
            return Ok(false);
        }
        let active = if let Some(active) = self.active.take() {
            active
        } else {
            let active = self.ledger.active_hours(self.from, self.to).await?;
            self.cost += active.cost;
            active
        };
        let opened = self.take_hours(&active);
        for hour in &opened {
            self.open_day(&active, Day::of(hour.begins()));
        }
        self.refill().await?;
        let mut last = None;
        for (index, hour) in opened.iter().enumerate() {
            let parts = self.parts_of(&active, *hour);
            let is_alone = !parts.is_empty();
            if index == 0 || !is_alone {
                self.parts.extend(parts);
                last = Some(*hour);
            }
            if is_alone {
                self.put_back(opened.get(index.max(1)..).unwrap_or_default());
                break;
            }
        }
        if let Some(last) = last {
            self.horizon = Some(if self.forward {
                UnixMillis(last.ends().0 - 1)
            } else {
                last.begins()
            });
        }
        self.active = Some(active);
        Ok(true)
    }

    /// Takes the next hours to open. Hours without events cost nothing, so they do not count.
    fn take_hours(&mut self, active: &ActiveHours) -> Vec<Hour> {
        let (mut opened, mut left) = (Vec::new(), self.step);
        self.step = (self.step * 2).min(MOST_HOURS);
        while left > 0 {
            let Some(hour) = self.hours.pop_front() else {
                break;
            };
            let mut sources = self.sources.iter();
            if sources.any(|source| active.reading(source, hour) != Reading::Nothing) {
                left -= 1;
            }
            opened.push(hour);
        }
        self.opened += opened.len();
        opened
    }

    /// Opens the part of a day of each source that can have events on this day.
    fn open_day(&mut self, active: &ActiveHours, day: Day) {
        if !self.days.insert(day) {
            return;
        }
        let first = Hour::of(day.begins().max(self.from));
        let last = Hour::of(UnixMillis(day.ends().0 - 1).min(self.to));
        for source in &self.sources {
            let readings = first.up_to(last).map(|hour| {
                // The order of a forward scan does not tell how many events an hour has before it.
                let reading = match active.reading(source, hour) {
                    Reading::OfDayFirst if self.forward => Reading::All,
                    reading => reading,
                };
                (hour, reading)
            });
            let readings: Vec<(Hour, Reading)> = readings.collect();
            let mut asked = readings
                .iter()
                .filter(|(_, reading)| *reading != Reading::Nothing);
            let Some((first, of_first)) = asked.next() else {
                continue;
            };
            let begin = match of_first {
                Reading::OfDayFirst => first.begins(),
                _ => first.begins().max(self.from),
            };
            let last = asked.next_back().map_or(*first, |(hour, _)| *hour);
            let end = UnixMillis(last.ends().0 - 1).min(self.to);
            let mut part = Part::new(HourPart::of_day(source, begin, end));
            part.undecided = Some((source.clone(), readings));
            self.parts.push(part);
        }
    }

    /// Leaves hours for a later step.
    fn put_back(&mut self, hours: &[Hour]) {
        self.opened -= hours.len();
        for hour in hours.iter().rev() {
            self.hours.push_front(*hour);
        }
    }

    /// Returns the parts of an hour, of each source that needs them.
    fn parts_of(&self, active: &ActiveHours, hour: Hour) -> Vec<Part> {
        let (from, to) = (
            hour.begins().max(self.from),
            UnixMillis(hour.ends().0 - 1).min(self.to),
        );
        let wanted = self.sources.iter().filter(|source| {
            let crowded = self.crowded.get(*source);
            match active.reading(source, hour) {
                Reading::All => true,
                Reading::OfDayFirst => {
                    self.forward || crowded.is_some_and(|hours| hours.contains(&hour))
                }
                Reading::OfDay | Reading::Nothing => false,
            }
        });
        let parts = wanted.flat_map(|source| HourPart::of_hour(source, from, to));
        parts.map(Part::new).collect()
    }
}
