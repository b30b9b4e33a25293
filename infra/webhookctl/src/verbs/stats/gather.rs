//! Reads the data of `inbox stats`, within limits.
//!
//! backup-sync has counted the past hours. This module counts the current hour, and hours without a
//! stored count. The `work` index has open events and dead letters. Processing times come from a
//! sample of the newest events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cost, State, Waiting};
use shared::monitoring::hours::Arrived;
use shared::monitoring::hours::{Brief, HourCount};
use shared::monitoring::silence::Quiet;

use super::chosen::Chosen;
use super::is_finer;
use crate::cli::By;
use crate::target::Deployment;

/// The maximum number of hours of a source that this module counts. It is enough for a day, if the
/// inbox has no stored counts.
const MOST_LIVE: usize = 26;

/// The number of reads for each of the four parts of a counted hour. One read covers about six
/// thousand events.
const PAGES: usize = 2;

/// The maximum number of open events that are read from each of the eight parts of the index.
const OPEN: i32 = 250;

/// The maximum number of events that are read because the `work` index may not have them yet, for
/// each part of the index.
const FRESH: usize = 1000;

/// The maximum number of dead letters that are counted in each part of the index, and the maximum
/// number that are read one by one.
const DEAD: i32 = 1000;
const DEAD_READ: usize = 1000;

/// The number of sampled events of a source, and the number of hours in which they are searched.
const SAMPLE: usize = 100;
const SAMPLE_HOURS: usize = 4;

/// The number of concurrent reads.
const AT_ONCE: usize = 8;

/// The received events by source and hour.
pub(in crate::verbs) type Arrivals = BTreeMap<(String, Hour), Arrived>;

pub(super) struct Gathered {
    pub(super) arrived: Arrivals,
    pub(super) open: Waits,
    pub(super) dead: Waits,
    pub(super) samples: Vec<Sample>,
    /// The sources whose next webhook is overdue.
    pub(super) silent: BTreeSet<String>,
    /// Whether one of the counts is only a minimum.
    pub(super) or_more: bool,
    /// The number of hours without a count.
    pub(super) uncounted: usize,
    pub(super) spent: Cost,
}

/// Events that wait for a worker or for an operator.
#[derive(Default)]
pub(in crate::verbs) struct Waits {
    pub(super) by_source: BTreeMap<String, u64>,
    /// The events that were read.
    pub(in crate::verbs) briefs: Vec<Brief>,
    /// Whether more events exist.
    pub(in crate::verbs) or_more: bool,
}

/// One of the newest events of a source.
pub(super) struct Sample {
    pub(super) source: String,
    pub(super) kind: String,
    pub(super) received_at: UnixMillis,
    /// The time from receipt to done, if the event is done.
    pub(super) lag: Option<Duration>,
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
    let (arrived, uncounted, mut spent) = arrivals(inbox, chosen).await?;
    let (open, cost) = open(inbox, chosen, now).await?;
    spent += cost;
    let each = is_finer(by) || !chosen.all_kinds();
    let (dead, cost) = dead(inbox, chosen, each).await?;
    spent += cost;
    let (samples, cost) = samples(inbox, chosen, &arrived).await?;
    spent += cost;
    let mut silent = BTreeSet::new();
    if !is_finer(by) {
        silent = self::silent(inbox, chosen, now, &mut spent).await?;
    }
    let or_more = open.or_more || dead.or_more || arrived.values().any(|arrived| arrived.or_more);
    Ok(Gathered {
        arrived,
        open,
        dead,
        samples,
        silent,
        or_more,
        uncounted,
        spent,
    })
}

pub(in crate::verbs) async fn arrivals(
    inbox: &Deployment,
    chosen: &Chosen,
) -> anyhow::Result<(Arrivals, usize, Cost)> {
    let (first, last) = (Hour::of(chosen.from), Hour::of(chosen.to));
    let (counted, mut spent) = inbox.ledger.statistics().hour_counts(first, last).await?;
    let counted: BTreeMap<Hour, HourCount> = counted.into_iter().map(|c| (c.hour, c)).collect();
    let mut arrived = Arrivals::new();
    let mut live = Vec::new();
    for hour in first.up_to(last).rev() {
        let span = within(chosen, hour);
        let whole = span == (hour.begins(), UnixMillis(hour.ends().0 - 1));
        match counted.get(&hour).filter(|_| whole) {
            None => live.push((hour, span)),
            Some(count) => arrived.extend(
                chosen
                    .sources
                    .iter()
                    .filter_map(|source| Some((source, count.sources.get(source)?)))
                    .map(|(source, came)| ((source.clone(), hour), came.clone())),
            ),
        }
    }
    let uncounted = live.len().saturating_sub(MOST_LIVE);
    live.truncate(MOST_LIVE);
    let mut wanted = Vec::new();
    for (hour, span) in live {
        wanted.extend(chosen.sources.iter().map(|source| (source, hour, span)));
    }
    let counting = wanted.into_iter().map(async |(source, hour, span)| {
        let (came, cost) = inbox
            .ledger
            .statistics()
            .arrived(source, span, PAGES)
            .await?;
        anyhow::Ok(((source.clone(), hour), came, cost))
    });
    let counting = stream::iter(counting).buffer_unordered(AT_ONCE);
    let read: Vec<_> = counting.try_collect().await?;
    for (at, came, cost) in read {
        spent += cost;
        arrived.insert(at, came);
    }
    for came in arrived.values_mut().filter(|_| !chosen.all_kinds()) {
        came.kinds.retain(|kind, _| chosen.has_kind(kind));
        came.events = came.kinds.values().sum();
        // The counts for each minute include all types, so they are wrong for a selection of types.
        came.minutes.clear();
    }
    // An hour without events has no row.
    arrived.retain(|_, came| came.events > 0);
    Ok((arrived, uncounted, spent))
}

/// Returns the part of an hour that is inside the time range.
fn within(chosen: &Chosen, hour: Hour) -> (UnixMillis, UnixMillis) {
    let end = UnixMillis(hour.ends().0 - 1);
    (hour.begins().max(chosen.from), end.min(chosen.to))
}

pub(in crate::verbs) async fn open(
    inbox: &Deployment,
    chosen: &Chosen,
    now: UnixMillis,
) -> anyhow::Result<(Waits, Cost)> {
    let ledger = &inbox.ledger;
    let (mut keys, more, mut spent) = ledger.statistics().all_waiting(Waiting::Open, OPEN).await?;
    keys.retain(|key| chosen.has_source(key.source()));
    let sources: Vec<&str> = chosen.sources.iter().map(String::as_str).collect();
    let fresh = ledger.sweep().recent_events(&sources, now, FRESH).await?;
    spent += fresh.cost;
    keys.extend(fresh.open);
    // The `work` index can get an event between the two reads, so both reads can return it.
    keys.sort_unstable();
    keys.dedup();
    let more = more || fresh.or_more;
    let (mut briefs, cost) = ledger.statistics().briefs(&keys).await?;
    spent += cost;
    // An event that was settled after the index was read is not open.
    let open = [State::Received, State::Processing, State::Failed];
    briefs.retain(|brief| open.contains(&brief.state) && chosen.has_kind(&brief.kind));
    Ok((Waits::new(briefs, more), spent))
}

async fn dead(inbox: &Deployment, chosen: &Chosen, each: bool) -> anyhow::Result<(Waits, Cost)> {
    let ledger = &inbox.ledger;
    let (mut keys, more, mut spent) = ledger.statistics().all_waiting(Waiting::Dead, DEAD).await?;
    keys.retain(|key| chosen.has_source(key.source()));
    if !each {
        let mut waits = Waits::new(Vec::new(), more);
        for key in keys {
            *waits.by_source.entry(key.source().to_owned()).or_default() += 1;
        }
        return Ok((waits, spent));
    }
    let cut = keys.len() > DEAD_READ;
    keys.truncate(DEAD_READ);
    let (mut briefs, cost) = ledger.statistics().briefs(&keys).await?;
    spent += cost;
    briefs.retain(|brief| brief.state == State::DeadLetter && chosen.has_kind(&brief.kind));
    Ok((Waits::new(briefs, more || cut), spent))
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
        }
    }
}

async fn samples(
    inbox: &Deployment,
    chosen: &Chosen,
    arrived: &Arrivals,
) -> anyhow::Result<(Vec<Sample>, Cost)> {
    let ledger = &inbox.ledger;
    let sampling = chosen.sources.iter().map(async |source| {
        let (mut keys, mut spent) = (Vec::new(), Cost::default());
        let came = arrived.iter().rev();
        let came = came.filter(|((of, _), came)| of == source && came.events > 0);
        for ((_, hour), _) in came.take(SAMPLE_HOURS) {
            if keys.len() >= SAMPLE {
                break;
            }
            let span = within(chosen, *hour);
            let (newest, cost) = ledger
                .statistics()
                .newest_of_hour(source, span, SAMPLE - keys.len())
                .await?;
            spent += cost;
            keys.extend(newest);
        }
        keys.truncate(SAMPLE);
        let (briefs, cost) = ledger.statistics().briefs(&keys).await?;
        spent += cost;
        let briefs = briefs.into_iter().filter(|b| chosen.has_kind(&b.kind));
        anyhow::Ok((briefs.map(Sample::of).collect::<Vec<_>>(), spent))
    });
    let sampling = stream::iter(sampling).buffer_unordered(AT_ONCE);
    let read: Vec<(Vec<Sample>, Cost)> = sampling.try_collect().await?;
    let mut spent = Cost::default();
    let mut samples = Vec::new();
    for (some, cost) in read {
        spent += cost;
        samples.extend(some);
    }
    Ok((samples, spent))
}

impl Sample {
    fn of(brief: Brief) -> Self {
        let done = brief.done_at.filter(|_| brief.state == State::Done);
        Self {
            source: brief.key.source().to_owned(),
            lag: done.map(|done| done.since(brief.received_at)),
            received_at: brief.received_at,
            kind: brief.kind,
        }
    }
}

async fn silent(
    inbox: &Deployment,
    chosen: &Chosen,
    now: UnixMillis,
    spent: &mut Cost,
) -> anyhow::Result<BTreeSet<String>> {
    let mut silent = BTreeSet::new();
    for source in inbox.config.sources() {
        if !chosen.has_source(&source.name) {
            continue;
        }
        let rhythm = inbox.ledger.statistics().rhythm(&source.name).await?;
        // The read is strongly consistent, and the item is smaller than 4 KB.
        *spent += Cost {
            calls: 1,
            read_units: 1.0,
        };
        let looked = rhythm.looked.unwrap_or(now).min(now);
        if let Quiet::Silent { .. } = rhythm.judge(source.quiet_after, looked) {
            silent.insert(source.name.clone());
        }
    }
    Ok(silent)
}
