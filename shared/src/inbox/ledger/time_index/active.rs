//! Reads which hours of which sources can have events, and reads these hours.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::FIRST;
use super::notes::{Counted, late};
use crate::base::calendar::{self, Day, Hour};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::pages::{Cost, HourPart, Next};
use crate::inbox::ledger::read::{Listed, listed};
use crate::inbox::ledger::recent::SweepCheckpoint;
use crate::inbox::ledger::{Ledger, item};

/// The number of parts of the index that are read in parallel.
const AT_ONCE: usize = 32;

/// The number of events in one page of a partition of an hour whose older events are counted.
const A_PAGE: i32 = 250;

/// The number of events that are enough for a sample.
const SAMPLE: usize = 8;

/// The hours of a source on one day, as bits from 0 to 23: the counted hours, those of them with
/// events, and those of them with events in the partitions of the hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceHours {
    counted: u32,
    events: u32,
    spread: u32,
}

/// The limits of a read of several sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The number of events of each partition.
    pub events: usize,
    /// The number of partitions of counted hours, of all sources together.
    pub parts: usize,
}

/// What a reader has to ask to find all events of a source in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The hour has no events.
    Nothing,
    /// All events are in the partition of the day.
    OfDay,
    /// The partition of the day. If it has many events of the hour, also the partitions of the hour.
    OfDayFirst,
    /// All partitions.
    All,
}

/// The hours that can have events.
#[derive(Clone, Debug, Default)]
pub struct ActiveHours {
    checkpoint: Option<SweepCheckpoint>,
    hours: BTreeMap<(Day, String), SourceHours>,
    late: HashSet<(String, Hour)>,
    pub cost: Cost,
}

/// The events of a source in a time range.
#[derive(Clone, Debug, Default)]
pub struct SourceEntries {
    pub source: String,
    /// The events, in no order.
    pub found: Vec<Listed>,
    /// Whether there are more.
    pub or_more: bool,
    /// Whether a partition of an hour has events.
    pub is_spread: bool,
    /// The hours of which only some partitions were read.
    pub partial: BTreeSet<Hour>,
    pub cost: Cost,
}

/// The read of an hour of a source in the partitions of the hour.
struct OfHour {
    hour: Hour,
    /// The source and day, as an index into the results.
    of: usize,
    parts: Vec<HourPart>,
    /// The number of events that the sweep has counted, and up to which time.
    counted: Option<(u64, UnixMillis)>,
}

impl OfHour {
    /// Returns whether all events of the hour are counted.
    fn is_whole(&self) -> bool {
        let last = UnixMillis(self.hour.ends().0 - 1);
        self.counted.is_some_and(|(_, at)| at >= last)
    }
}

impl SourceHours {
    pub(super) fn read(text: &str) -> Option<Self> {
        let bits = |from: usize| u32::from_str_radix(text.get(from..from + 6)?, 16).ok();
        Some(Self {
            counted: bits(0)?,
            events: bits(6)?,
            spread: bits(12)?,
        })
    }

    pub(super) fn written(self) -> String {
        format!("{:06x}{:06x}{:06x}", self.counted, self.events, self.spread)
    }

    pub(super) fn count(&mut self, one: &Counted) {
        let bit = bit(one.hour);
        let set = |bits: &mut u32, on: bool| *bits = if on { *bits | bit } else { *bits & !bit };
        set(&mut self.counted, true);
        set(&mut self.events, one.has_events);
        set(&mut self.spread, one.is_spread);
    }

    fn reading(self, hour: Hour) -> Option<Reading> {
        let bit = bit(hour);
        if self.counted & bit == 0 {
            return None;
        }
        Some(match (self.events & bit != 0, self.spread & bit != 0) {
            (_, true) => Reading::All,
            (true, false) => Reading::OfDay,
            (false, false) => Reading::Nothing,
        })
    }
}

fn bit(hour: Hour) -> u32 {
    let begins = Hour::of(Day::of(hour.begins()).begins()).begins();
    let hours = (hour.begins().0 - begins.0) / 3_600_000;
    u32::try_from(hours).map_or(0, |hours| 1 << hours)
}

pub(super) fn sk(day: Day) -> String {
    format!("HOURS#{}", day.name())
}

impl ActiveHours {
    /// Returns what to ask for the events of a source in an hour.
    pub fn reading(&self, source: &str, hour: Hour) -> Reading {
        if self.late.contains(&(source.to_owned(), hour)) {
            return Reading::All;
        }
        let day = Day::of(hour.begins());
        let known = self.hours.get(&(day, source.to_owned()));
        if let Some(reading) = known.and_then(|hours| hours.reading(hour)) {
            return reading;
        }
        // An inbox that was never swept is new, so no older release has put events into it.
        let from = match &self.checkpoint {
            Some(checkpoint) => checkpoint.by_day_from,
            None => Some(UnixMillis(0)),
        };
        if from.is_some_and(|from| hour.begins() >= from) {
            Reading::OfDayFirst
        } else {
            Reading::All
        }
    }

    /// Returns how many events of a source the sweep has seen in an hour, and the time of its
    /// checkpoint. Returns `None` if the number is unknown, or if the hour got an event late.
    pub fn arrived(&self, source: &str, hour: Hour) -> Option<(u64, UnixMillis)> {
        if self.late.contains(&(source.to_owned(), hour)) {
            return None;
        }
        let checkpoint = self.checkpoint.as_ref()?;
        Some((checkpoint.arrived(source, hour)?, checkpoint.at))
    }

    /// Forgets how many events the sweep has seen, for a reader that needs all events.
    pub fn ignore_arrived(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.ignore_arrived();
        }
    }

    /// The checkpoint of the sweep, if there was a sweep.
    pub fn checkpoint(&self) -> Option<&SweepCheckpoint> {
        self.checkpoint.as_ref()
    }
}

impl Ledger {
    /// Reads which hours from `from` to `to` can have events. The read is strongly consistent, so it
    /// has the note of every event that is stored.
    pub async fn active_hours(
        &self,
        from: UnixMillis,
        to: UnixMillis,
    ) -> anyhow::Result<ActiveHours> {
        let one = Cost {
            calls: 1,
            read_units: 1.0,
        };
        let mut active = ActiveHours {
            checkpoint: self.sweep().sweep_checkpoint().await?,
            cost: one,
            ..ActiveHours::default()
        };
        let (first, last) = (Day::of(from.max(UnixMillis(0))), Day::of(to));
        let mut start = None;
        loop {
            let query = self.table.query();
            let query = query
                .key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":pk", item::s("SYS"))
                .expression_attribute_values(":from", item::s(sk(first)))
                .expression_attribute_values(":to", item::s(sk(last)))
                .consistent_read(true);
            let page = self.page(query, start).await;
            let page = page.context("read which hours have events")?;
            active.cost += page.cost;
            for stored in &page.found {
                active.add(stored);
            }
            start = page.next;
            if start.is_none() {
                return Ok(active);
            }
        }
    }

    /// Reads the events of a source from `from` to `to`, both inclusive and on one UTC day. Reads the
    /// newest first, at most about `most` from each partition. Skips hours without events.
    pub async fn entries(
        &self,
        active: &ActiveHours,
        source: &str,
        span: (UnixMillis, UnixMillis),
        most: usize,
    ) -> anyhow::Result<SourceEntries> {
        let (mut entries, crowded) = self.of_day(active, source, span, most).await?;
        for hour in crowded {
            let (from, to) = within(hour, span);
            let parts = HourPart::of_hour(source, from, to);
            let parts =
                stream::iter(parts).map(|part| async move { self.part(&part, most, None).await });
            let read: Vec<SourceEntries> = parts.buffer_unordered(4).try_collect().await?;
            for part in read {
                entries.add(part);
            }
        }
        Ok(entries)
    }

    /// Reads the partition of a day. Also returns the hours whose partitions must be read.
    async fn of_day(
        &self,
        active: &ActiveHours,
        source: &str,
        (from, to): (UnixMillis, UnixMillis),
        most: usize,
    ) -> anyhow::Result<(SourceEntries, BTreeSet<Hour>)> {
        let mut entries = SourceEntries {
            source: source.to_owned(),
            ..SourceEntries::default()
        };
        let readings = Hour::of(from).up_to(Hour::of(to));
        let readings: Vec<(Hour, Reading)> = readings
            .map(|hour| (hour, active.reading(source, hour)))
            .collect();
        let mut asked = readings
            .iter()
            .filter(|(_, reading)| *reading != Reading::Nothing);
        let Some((first, of_first)) = asked.next() else {
            return Ok((entries, BTreeSet::new()));
        };
        // The number of events of an hour is known only if the hour is read from its beginning.
        let begin = match of_first {
            Reading::OfDayFirst => first.begins(),
            _ => first.begins().max(from),
        };
        let part = HourPart::of_day(source, begin, to);
        let of_day = self.part(&part, most.max(FIRST), None).await?;
        entries.cost += of_day.cost;
        let crowded = crowded(&of_day.found, of_day.or_more, &readings);
        entries.or_more |= of_day.or_more;
        let inside = of_day.found.into_iter();
        let inside = inside.filter(|event| (from..=to).contains(&event.received_at));
        entries.found.extend(inside);
        Ok((entries, crowded))
    }

    /// Reads up to `most` of the newest events of an hour of a source, as a sample. If the partitions
    /// of the hour have events, the method reads one of them, which has about a quarter of the events.
    /// It reads all of them only if it finds fewer than [`SAMPLE`].
    pub async fn sample(
        &self,
        active: &ActiveHours,
        source: &str,
        (from, to): (UnixMillis, UnixMillis),
        most: usize,
    ) -> anyhow::Result<SourceEntries> {
        let is_spread = active.reading(source, Hour::of(from)) == Reading::All;
        let part = HourPart::of_hour(source, from, to).next();
        let mut cost = Cost::default();
        if let Some(part) = part.filter(|_| is_spread) {
            let read = self.part(&part, most, None).await?;
            if read.found.len() >= SAMPLE {
                return Ok(SourceEntries {
                    source: source.to_owned(),
                    ..read
                });
            }
            cost = read.cost;
        }
        let mut entries = self.entries(active, source, (from, to), most).await?;
        entries.cost += cost;
        Ok(entries)
    }

    /// Reads the events of several sources in a time range, as [`entries`](Self::entries) does.
    pub async fn entries_of_all(
        &self,
        active: &ActiveHours,
        sources: &[&str],
        (from, to): (UnixMillis, UnixMillis),
        most: usize,
    ) -> anyhow::Result<Vec<SourceEntries>> {
        let asked = stream::iter(of_each(sources, from, to))
            .map(|(source, span)| async move { self.entries(active, source, span, most).await });
        asked.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Reads the events of several sources in a time range as [`entries_of_all`](Self::entries_of_all)
    /// does, but from the partitions of a counted hour only the newest page, and the events after the
    /// checkpoint of the sweep. The number of these partitions is limited. If they are too many, the
    /// method reads one of the four for each hour, or none, and marks the hour as partial.
    pub async fn uncounted_entries(
        &self,
        active: &ActiveHours,
        sources: &[&str],
        (from, to): (UnixMillis, UnixMillis),
        limits: ReadLimits,
    ) -> anyhow::Result<Vec<SourceEntries>> {
        let most = limits.events;
        let asked = of_each(sources, from, to);
        let asked = stream::iter(asked).map(|(source, span)| async move {
            let (entries, crowded) = self.of_day(active, source, span, most).await?;
            anyhow::Ok((entries, crowded, span))
        });
        // In order of the sources, so that each run reads the same partitions.
        let read: Vec<_> = asked.buffered(AT_ONCE).try_collect().await?;
        let (mut all, mut hours): (Vec<SourceEntries>, _) = (Vec::new(), Vec::new());
        for (of, (entries, crowded, span)) in read.into_iter().enumerate() {
            hours.extend(crowded.into_iter().map(|hour| {
                let counted = active.arrived(&entries.source, hour);
                // The newest event is read also if it is counted.
                let from = counted.map_or(span.0, |_| hour.begins());
                let (from, to) = within(hour, (from, span.1));
                let parts = HourPart::of_hour(&entries.source, from, to).collect();
                OfHour {
                    hour,
                    of,
                    parts,
                    counted,
                }
            }));
            all.push(entries);
        }
        for (of, hour) in limit_parts(&mut hours, limits.parts) {
            if let Some(entries) = all.get_mut(of) {
                entries.partial.insert(hour);
            }
        }
        let parts = hours.into_iter().flat_map(|hour| {
            let (of, until) = (hour.of, hour.counted.map(|(_, at)| at));
            hour.parts.into_iter().map(move |part| (of, until, part))
        });
        let read = stream::iter(parts).map(|(of, until, part)| async move {
            anyhow::Ok((of, self.part(&part, most, until).await?))
        });
        let read: Vec<_> = read.buffer_unordered(AT_ONCE).try_collect().await?;
        for (of, part) in read {
            if let Some(entries) = all.get_mut(of) {
                entries.add(part);
            }
        }
        Ok(all)
    }

    /// Reads a partition, newest first, until `most` events are read. If the events up to a time are
    /// counted, stops after the page that reaches this time.
    async fn part(
        &self,
        part: &HourPart,
        most: usize,
        counted: Option<UnixMillis>,
    ) -> anyhow::Result<SourceEntries> {
        let (mut entries, mut start): (_, Option<Next>) = (SourceEntries::default(), None);
        // A large read takes as many entries as one response holds.
        let limit = i32::try_from(most).ok().filter(|limit| *limit <= 1000);
        let limit = counted.map_or(limit, |_| Some(A_PAGE));
        loop {
            let page = self.of_hour(part, false, limit, start).await?;
            entries.cost += page.cost;
            entries.found.extend(page.found.iter().filter_map(listed));
            start = page.next;
            let oldest = entries.found.last().map(|event| event.received_at);
            if start.is_none() || counted.is_some_and(|at| oldest.is_some_and(|of| of <= at)) {
                return Ok(entries);
            }
            if entries.found.len() >= most {
                entries.or_more = true;
                return Ok(entries);
            }
        }
    }
}

impl ActiveHours {
    fn add(&mut self, stored: &crate::inbox::ledger::Item) {
        let day = item::text(stored, "sk").and_then(|sk| Day::parse(sk.strip_prefix("HOURS#")?));
        let Some(day) = day else { return };
        for (name, value) in stored {
            let hours = value.as_s().ok().and_then(|text| SourceHours::read(text));
            if let (Some(source), Some(hours)) = (name.strip_prefix("s#"), hours) {
                self.hours.insert((day, source.to_owned()), hours);
            }
        }
        self.late.extend(late(stored, day));
    }
}

impl SourceEntries {
    /// Adds the events of a partition of an hour.
    fn add(&mut self, part: Self) {
        self.is_spread |= !part.found.is_empty();
        self.or_more |= part.or_more;
        self.cost += part.cost;
        self.found.extend(part.found);
    }
}

/// Limits the partitions of counted hours, first those of the newest hours and of the busiest sources.
/// Returns the hours whose uncounted events are not all in the remaining partitions.
fn limit_parts(hours: &mut [OfHour], most: usize) -> Vec<(usize, Hour)> {
    hours.sort_by_key(|of| Reverse((of.hour, of.counted)));
    let mut counted: Vec<&mut OfHour> =
        hours.iter_mut().filter(|of| of.counted.is_some()).collect();
    // One partition has the newest event, or one that is not much older.
    for of in counted.iter_mut().filter(|of| of.is_whole()) {
        of.parts.truncate(1);
    }
    let parts: usize = counted.iter().map(|of| of.parts.len()).sum();
    if parts <= most {
        return Vec::new();
    }
    for (index, of) in counted.iter_mut().enumerate() {
        of.parts.truncate(usize::from(index < most));
    }
    let partial = counted.iter().filter(|of| !of.is_whole());
    partial.map(|of| (of.of, of.hour)).collect()
}

/// Returns the part of an hour that is inside a time range.
fn within(hour: Hour, (from, to): (UnixMillis, UnixMillis)) -> (UnixMillis, UnixMillis) {
    let last = UnixMillis(hour.ends().0 - 1);
    (hour.begins().max(from), last.min(to))
}

/// Returns the hours whose own partitions must be read too: those with events there, and those that
/// have many events in the partition of the day, or an unknown number.
pub fn crowded(found: &[Listed], or_more: bool, readings: &[(Hour, Reading)]) -> BTreeSet<Hour> {
    let oldest = found.iter().map(|event| event.received_at).min();
    let crowded = readings.iter().filter(|(hour, reading)| match reading {
        Reading::All => true,
        Reading::OfDay | Reading::Nothing => false,
        Reading::OfDayFirst => {
            // The read stopped at its oldest event, so it may not have all events of that hour.
            let cut = or_more && oldest.is_none_or(|oldest| Hour::of(oldest) >= *hour);
            let of_hour = found.iter();
            let of_hour = of_hour.filter(|event| Hour::of(event.received_at) == *hour);
            cut || of_hour.count() >= FIRST
        }
    });
    crowded.map(|(hour, _)| *hour).collect()
}

/// Returns each source with each part of the time range, which is split at the ends of days.
fn of_each<'s>(
    sources: &[&'s str],
    from: UnixMillis,
    to: UnixMillis,
) -> Vec<(&'s str, (UnixMillis, UnixMillis))> {
    let mut days: BTreeMap<Day, (UnixMillis, UnixMillis)> = BTreeMap::new();
    for (from, to) in calendar::cut(from, to) {
        let day = days.entry(Day::of(from)).or_insert((from, to));
        day.1 = to;
    }
    let of_each = sources.iter();
    let of_each = of_each.flat_map(|source| days.values().map(move |span| (*source, *span)));
    of_each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

    #[test]
    fn hours_are_read_as_they_were_written() {
        let mut hours = SourceHours::default();
        let hour = Hour::of(NOW);
        for (hour, has_events, is_spread) in [
            (hour, true, false),
            (hour.before(1), false, false),
            (hour.before(2), true, true),
        ] {
            hours.count(&Counted {
                hour,
                has_events,
                is_spread,
            });
        }
        assert_eq!(SourceHours::read(&hours.written()), Some(hours));
        let readings = (0..4).map(|back| hours.reading(hour.before(back)));
        assert_eq!(
            readings.collect::<Vec<_>>(),
            [
                Some(Reading::OfDay),
                Some(Reading::Nothing),
                Some(Reading::All),
                None
            ]
        );
        for text in ["", "0", "00000000000000000g"] {
            assert_eq!(SourceHours::read(text), None, "{text}");
        }
    }

    #[test]
    fn an_hour_that_got_an_event_late_is_read_whole() {
        let hour = Hour::of(NOW);
        let mut checkpoint = SweepCheckpoint::new(NOW);
        checkpoint.by_day_from = None;
        let mut active = ActiveHours {
            checkpoint: Some(checkpoint),
            ..ActiveHours::default()
        };
        assert_eq!(active.reading("a", hour), Reading::All, "an older release");
        let new = ActiveHours::default();
        assert_eq!(new.reading("a", hour), Reading::OfDayFirst);
        let mut hours = SourceHours::default();
        hours.count(&Counted {
            hour,
            has_events: false,
            is_spread: false,
        });
        active.hours.insert((Day::of(NOW), "a".to_owned()), hours);
        assert_eq!(active.reading("a", hour), Reading::Nothing);
        active.late.insert(("a".to_owned(), hour));
        assert_eq!(active.reading("a", hour), Reading::All);
        assert_eq!(active.reading("b", hour), Reading::All);
    }

    #[test]
    fn an_hour_is_crowded_if_it_has_many_events_or_was_not_read_to_its_beginning() {
        let hour = Hour::of(NOW);
        let event = |at: UnixMillis| {
            let key = crate::webhook::event::EventKey::new("a", "b");
            Listed {
                id: crate::webhook::event::EventId::new(at, &key),
                key,
                received_at: at,
                kind: String::new(),
            }
        };
        let few = vec![event(NOW); FIRST - 1];
        let many = vec![event(NOW); FIRST];
        let dynamic = [
            (hour.before(1), Reading::OfDayFirst),
            (hour, Reading::OfDayFirst),
        ];
        let of = |found: &[Listed], or_more| crowded(found, or_more, &dynamic).len();
        assert_eq!(of(&few, false), 0);
        assert_eq!(of(&many, false), 1);
        assert_eq!(of(&few, true), 2, "the hour before was not read at all");
        assert_eq!(of(&[], true), 2);
        let known = [(hour, Reading::OfDay), (hour.before(1), Reading::All)];
        assert_eq!(
            crowded(&many, true, &known),
            BTreeSet::from([hour.before(1)])
        );
    }
}
