//! Reads the data of `inbox stats`, within limits.
//!
//! backup-sync has counted the past hours, and the events of the current hour up to its last sweep.
//! This module counts the events since then, and hours without a stored count. The `work` index has open events and dead letters. Processing times come from a
//! sample of the newest events.

mod samples;

use std::collections::{BTreeMap, BTreeSet};

use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{ActiveHours, ReadLimits, SourceEntries, State, Waiting, recent_span};
use shared::monitoring::hours::Arrived;
use shared::monitoring::hours::{Brief, HourCount};
use shared::monitoring::silence::Quiet;
use shared::sources::Source;

use super::chosen::Chosen;
use super::is_finer;
use crate::cli::By;
use crate::output::count::Count;
use crate::selection::{held_keys, with_rules};
use crate::target::Deployment;
pub(super) use samples::Sample;

/// The maximum number of hours of a source that this module counts. It is enough for a day, if the
/// inbox has no stored counts.
const MOST_LIVE: usize = 26;

/// The maximum number of events that are read from each partition to count the events of an hour.
const MOST_ENTRIES: usize = 12_000;

/// The maximum number of partitions of counted hours that are read for the events since the last
/// sweep. It is enough for four sources with many events in the current hour.
pub(in crate::verbs) const PARTS: usize = 16;

/// The maximum number of open events that are read from each of the eight parts of the index.
const OPEN: i32 = 250;

/// The maximum number of events that are looked up because the `work` index may not have them yet.
const NEWEST: usize = 500;

/// The same for each part of the `time` index, if the time range does not end now.
const FRESH: usize = 1000;

/// The maximum number of dead letters that are counted in each part of the index, and the maximum
/// number that are read one by one.
const DEAD: i32 = 1000;
const DEAD_READ: usize = 1000;

/// The received events by source and hour.
pub(in crate::verbs) type Arrivals = BTreeMap<(String, Hour), Arrived>;

pub(super) struct Gathered {
    pub(super) counts: Counts,
    pub(super) open: Waits,
    pub(super) dead: Waits,
    pub(super) samples: Vec<Sample>,
    /// The sources whose next webhook is overdue.
    pub(super) silent: BTreeSet<String>,
    /// Whether one of the counts is only a minimum.
    pub(super) or_more: bool,
}

/// Events that wait for a worker or for an operator.
#[derive(Default)]
pub(in crate::verbs) struct Waits {
    pub(in crate::verbs) by_source: BTreeMap<String, u64>,
    /// The events that were read.
    pub(in crate::verbs) briefs: Vec<Brief>,
    /// Whether more events exist that are in the `work` index, or wait for an operator or a worker.
    pub(in crate::verbs) or_more: bool,
    /// The sources that can have more open events since the last sweep. A failed event is in the `work`
    /// index.
    pub(in crate::verbs) partial: BTreeSet<String>,
}

impl Gathered {
    /// The time of receipt of the oldest open event of each source.
    pub(super) fn oldest(&self) -> BTreeMap<&str, UnixMillis> {
        let mut oldest = BTreeMap::new();
        for brief in &self.open.briefs {
            let since = oldest.entry(brief.key.source());
            let since = since.or_insert(brief.received_at);
            *since = brief.received_at.min(*since);
        }
        oldest
    }
}

pub(super) async fn gather(
    inbox: &Deployment,
    chosen: &Chosen,
    by: By,
    now: UnixMillis,
) -> anyhow::Result<Gathered> {
    let each = is_finer(by) || !chosen.all_kinds();
    let counts = Box::pin(arrivals(inbox, chosen, (by, PARTS), now));
    let (counts, dead) = tokio::join!(counts, Box::pin(dead(inbox, chosen, each)));
    let (counts, dead) = (counts?, dead?);
    let (open, samples) = tokio::join!(
        Box::pin(open(inbox, chosen, Some(&counts.live), now)),
        Box::pin(samples::samples(inbox, chosen, &counts)),
    );
    let (open, samples) = (open?, samples?);
    let mut silent = BTreeSet::new();
    if !is_finer(by) {
        silent = self::silent(inbox, chosen, now).await?;
    }
    let arrived = &counts.arrived;
    let or_more = open.or_more || dead.or_more || arrived.values().any(|arrived| arrived.or_more);
    Ok(Gathered {
        counts,
        open,
        dead,
        samples,
        silent,
        or_more,
    })
}

/// The received events by source and hour, and how they were counted.
pub(in crate::verbs) struct Counts {
    pub(in crate::verbs) arrived: Arrivals,
    /// The hours without a count.
    pub(in crate::verbs) uncounted: BTreeSet<Hour>,
    /// The hours whose events were read.
    read: BTreeSet<Hour>,
    pub(in crate::verbs) live: Live,
}

/// The events of the hours without a stored count.
#[derive(Default)]
pub(in crate::verbs) struct Live {
    pub(in crate::verbs) active: ActiveHours,
    pub(in crate::verbs) entries: Vec<SourceEntries>,
    /// From this time until now, `entries` has every event, except those of partial hours.
    since: Option<UnixMillis>,
}

/// Counts the received events. backup-sync has counted the past hours; this function reads the events
/// of the other hours. For the newest hours, it uses the number of events that the sweep has seen, if
/// the time range has all of them. This number is not known by type. `parts` limits the number of
/// partitions that are read for the events since the last sweep.
pub(in crate::verbs) async fn arrivals(
    inbox: &Deployment,
    chosen: &Chosen,
    (by, parts): (By, usize),
    now: UnixMillis,
) -> anyhow::Result<Counts> {
    let (first, last) = (Hour::of(chosen.from), Hour::of(chosen.to));
    let statistics = inbox.ledger.statistics();
    let (counted, active) = tokio::join!(
        statistics.hour_counts(first, last),
        inbox.ledger.active_hours(chosen.from, chosen.to),
    );
    let (counted, mut active) = (counted?.0, active?);
    let counted: BTreeMap<Hour, HourCount> = counted.into_iter().map(|c| (c.hour, c)).collect();
    let mut arrived = Arrivals::new();
    let (mut read, mut uncounted) = (BTreeSet::new(), BTreeSet::new());
    for hour in first.up_to(last).rev() {
        let span = within(chosen, hour);
        let whole = span == (hour.begins(), UnixMillis(hour.ends().0 - 1));
        match counted.get(&hour).filter(|_| whole) {
            None if read.len() < MOST_LIVE => {
                read.insert(hour);
            }
            None => {
                uncounted.insert(hour);
            }
            Some(count) => arrived.extend(
                chosen
                    .sources
                    .iter()
                    .filter_map(|source| Some((source, count.sources.get(source)?)))
                    .map(|(source, came)| ((source.clone(), hour), came.clone())),
            ),
        }
    }
    let is_whole = chosen.from <= Hour::of(now).before(1).begins() && chosen.to >= now;
    if !is_whole || by == By::Type || !chosen.all_kinds() {
        active.ignore_arrived();
    }
    let live = Live::read(inbox, chosen, (active, parts), &read, now).await?;
    live.count(chosen, &read, &mut arrived);
    for came in arrived.values_mut().filter(|_| !chosen.all_kinds()) {
        came.kinds.retain(|kind, _| chosen.has_kind(kind));
        came.events = came.kinds.values().sum();
        // The counts for each minute include all types, so they are wrong for a selection of types.
        came.minutes.clear();
    }
    // An hour without events has no row.
    arrived.retain(|_, came| came.events > 0);
    Ok(Counts {
        arrived,
        uncounted,
        read,
        live,
    })
}

impl Live {
    /// Reads the events of these hours. If the time range ends now, the read also has the events that
    /// the sweep has not scanned yet.
    async fn read(
        inbox: &Deployment,
        chosen: &Chosen,
        (active, parts): (ActiveHours, usize),
        hours: &BTreeSet<Hour>,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let mut spans: Vec<(UnixMillis, UnixMillis)> = Vec::new();
        for hour in hours {
            let (from, to) = within(chosen, *hour);
            match spans.last_mut() {
                Some(last) if last.1.0 + 1 == from.0 => last.1 = to,
                _ => spans.push((from, to)),
            }
        }
        let (recent, end) = recent_span(active.checkpoint(), now);
        let mut since = None;
        if let Some(last) = spans.last_mut().filter(|last| last.1 >= now) {
            *last = (last.0.min(recent), end);
            since = Some(last.0);
        }
        let sources: Vec<&str> = chosen.sources.iter().map(String::as_str).collect();
        let mut entries = Vec::new();
        let ledger = &inbox.ledger;
        let events = MOST_ENTRIES;
        let limits = ReadLimits { events, parts };
        for span in spans {
            let read = ledger.uncounted_entries(&active, &sources, span, limits);
            entries.extend(read.await?);
        }
        Ok(Self {
            active,
            entries,
            since,
        })
    }

    /// Adds the events of the time range to the counts. Hours with a stored count are complete. If the
    /// sweep has counted an hour, not all events before its checkpoint were read. But if all were, they
    /// can be more than the sweep has seen, for example if it does not know a new source yet.
    fn count(&self, chosen: &Chosen, hours: &BTreeSet<Hour>, arrived: &mut Arrivals) {
        let mut counted = Arrivals::new();
        let mut fresh: BTreeMap<(String, Hour), u64> = BTreeMap::new();
        for of_source in &self.entries {
            for event in &of_source.found {
                let inside = (chosen.from..=chosen.to).contains(&event.received_at);
                let hour = Hour::of(event.received_at);
                let at = (of_source.source.clone(), hour);
                // Quarantined events have the key of another event, and do not count.
                if !inside || event.key.is_conflicting() || arrived.contains_key(&at) {
                    continue;
                }
                let seen = self.active.arrived(&of_source.source, hour);
                if seen.is_some_and(|(_, until)| event.received_at > until) {
                    *fresh.entry(at.clone()).or_default() += 1;
                }
                let came = counted.entry(at).or_default();
                came.add(event.received_at, &event.kind);
                came.or_more |= of_source.or_more;
            }
            for hour in &of_source.partial {
                if let Some(came) = counted.get_mut(&(of_source.source.clone(), *hour)) {
                    came.or_more = true;
                }
            }
        }
        for source in &chosen.sources {
            for hour in hours {
                if let Some((events, _)) = self.active.arrived(source, *hour) {
                    let at = (source.clone(), *hour);
                    let fresh = fresh.get(&at).copied().unwrap_or(0);
                    let came = counted.entry(at).or_default();
                    came.events = came.events.max(events + fresh);
                }
            }
        }
        arrived.extend(counted);
    }
}

/// Returns the part of an hour that is inside the time range.
fn within(chosen: &Chosen, hour: Hour) -> (UnixMillis, UnixMillis) {
    let end = UnixMillis(hour.ends().0 - 1);
    (hour.begins().max(chosen.from), end.min(chosen.to))
}

/// Returns the open events of the chosen sources.
pub(in crate::verbs) async fn open(
    inbox: &Deployment,
    chosen: &Chosen,
    live: Option<&Live>,
    now: UnixMillis,
) -> anyhow::Result<Waits> {
    let ledger = &inbox.ledger;
    let sources: Vec<&str> = chosen.sources.iter().map(String::as_str).collect();
    let read = async {
        let recent = live.map(|live| recent_span(live.active.checkpoint(), now).0);
        match (live, recent) {
            (Some(live), Some(from)) if live.since.is_some_and(|since| since <= from) => {
                ledger.sweep().open_of(&live.entries, from, NEWEST).await
            }
            _ => ledger.sweep().recent_events(&sources, now, FRESH).await,
        }
    };
    let ruled = with_rules(&inbox.config, |source| chosen.has_source(source));
    let in_queues = inbox.pulled_sources();
    let (waiting, fresh, held, pulled) = tokio::join!(
        ledger.statistics().all_waiting(Waiting::Open, OPEN),
        Box::pin(read),
        held_keys(ledger, &ruled, OPEN),
        Box::pin(ledger.pulled(&in_queues, UnixMillis(0), OPEN)),
    );
    let ((mut keys, more, _), fresh) = (waiting?, fresh?);
    let ((held, held_more), (pulled, more_pulled, _)) = (held?, pulled?);
    let more = more || held_more || more_pulled;
    keys.extend(held);
    keys.extend(fresh.open);
    keys.extend(pulled);
    keys.retain(|key| chosen.has_source(key.source()));
    // The `work` index can get an event between the two reads, so both reads can return it.
    keys.sort_unstable();
    keys.dedup();
    let (mut briefs, _) = ledger.statistics().briefs(&keys).await?;
    // An event that was settled after the index was read is not open.
    let open = [State::Received, State::Processing, State::Failed];
    briefs.retain(|brief| open.contains(&brief.state) && chosen.has_kind(&brief.kind));
    let entries = live.into_iter().flat_map(|live| &live.entries);
    let partial = entries.filter(|of_source| !of_source.partial.is_empty());
    let mut waits = Waits::new(briefs, more);
    waits.partial = if fresh.or_more {
        chosen.sources.iter().cloned().collect()
    } else {
        partial.map(|of_source| of_source.source.clone()).collect()
    };
    Ok(waits)
}

async fn dead(inbox: &Deployment, chosen: &Chosen, each: bool) -> anyhow::Result<Waits> {
    let ledger = &inbox.ledger;
    let waiting = ledger.statistics().all_waiting(Waiting::Dead, DEAD).await?;
    let (mut keys, more, _) = waiting;
    keys.retain(|key| chosen.has_source(key.source()));
    if !each {
        let mut waits = Waits::new(Vec::new(), more);
        for key in keys {
            *waits.by_source.entry(key.source().to_owned()).or_default() += 1;
        }
        return Ok(waits);
    }
    let cut = keys.len() > DEAD_READ;
    keys.truncate(DEAD_READ);
    let (mut briefs, _) = ledger.statistics().briefs(&keys).await?;
    briefs.retain(|brief| brief.state == State::DeadLetter && chosen.has_kind(&brief.kind));
    Ok(Waits::new(briefs, more || cut))
}

impl Waits {
    fn new(briefs: Vec<Brief>, more: bool) -> Self {
        let mut by_source = BTreeMap::new();
        for brief in &briefs {
            *by_source.entry(brief.key.source().to_owned()).or_default() += 1;
        }
        Self {
            by_source,
            briefs,
            or_more: more,
            partial: BTreeSet::new(),
        }
    }

    /// Returns the number of waiting events of a source.
    pub(in crate::verbs) fn of(&self, source: &str) -> Count {
        Count {
            count: self.by_source.get(source).copied().unwrap_or(0),
            or_more: self.or_more || self.partial.contains(source),
        }
    }
}

async fn silent(
    inbox: &Deployment,
    chosen: &Chosen,
    now: UnixMillis,
) -> anyhow::Result<BTreeSet<String>> {
    let sources = inbox.config.sources();
    let sources: Vec<&Source> = sources.filter(|one| chosen.has_source(&one.name)).collect();
    let statistics = inbox.ledger.statistics();
    let (records, _) = statistics.source_records(&sources, now).await?;
    let silent = sources.iter().filter(|source| {
        let gaps = records.get(&source.name).map(|record| &record.gaps);
        gaps.is_some_and(|gaps| {
            let looked = gaps.looked.unwrap_or(now).min(now);
            matches!(gaps.judge(source.quiet_after, looked), Quiet::Silent { .. })
        })
    });
    Ok(silent.map(|source| source.name.clone()).collect())
}
