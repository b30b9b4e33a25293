//! What is read, and within which bounds.
//!
//! Hours that are over are counted already; the hour that is open, and those that nobody has
//! counted yet, are counted here. What is open or dead is in an index of its own. How long events
//! take is asked of the newest few.

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

/// Hours of a source that are counted here: a day, for an inbox whose hours nobody counts.
const MOST_LIVE: usize = 26;

/// Reads of each of the four parts of such an hour; one is about six thousand events.
const PAGES: usize = 2;

/// Open events that are looked at, of each of the eight parts of the index.
const OPEN: i32 = 250;

/// Events that came a moment ago and are looked at, of each part of the index.
const FRESH: usize = 1000;

/// Dead letters that are counted, likewise, and those of them all that are looked at one by one.
const DEAD: i32 = 1000;
const DEAD_READ: usize = 1000;

/// Events of a source that are asked how long they took, and hours in which they are looked for.
const SAMPLE: usize = 100;
const SAMPLE_HOURS: usize = 4;

/// Reads that are under way at the same time.
const AT_ONCE: usize = 8;

/// Events that came, by source and hour.
pub(super) type Arrivals = BTreeMap<(String, Hour), Arrived>;

pub(super) struct Gathered {
    pub(super) arrived: Arrivals,
    pub(super) open: Waits,
    pub(super) dead: Waits,
    pub(super) samples: Vec<Sample>,
    /// Sources of which a webhook is overdue.
    pub(super) silent: BTreeSet<String>,
    /// Whether some number is the least that it is.
    pub(super) or_more: bool,
    /// Hours of which nothing is known.
    pub(super) uncounted: usize,
    pub(super) spent: Cost,
}

/// Events that wait for a worker, or for a human.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) by_source: BTreeMap<String, u64>,
    /// Those that were looked at.
    pub(super) briefs: Vec<Brief>,
    /// Whether there are more.
    pub(super) or_more: bool,
}

/// One of the newest events.
pub(super) struct Sample {
    pub(super) source: String,
    pub(super) kind: String,
    pub(super) received_at: UnixMillis,
    /// How long it took, of one that is done.
    pub(super) lag: Option<Duration>,
}

impl Gathered {
    /// For each source, since when its oldest open event has waited.
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

async fn arrivals(inbox: &Deployment, chosen: &Chosen) -> anyhow::Result<(Arrivals, usize, Cost)> {
    let (first, last) = (Hour::of(chosen.from), Hour::of(chosen.to));
    let (counted, mut spent) = inbox.ledger.hour_counts(first, last).await?;
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
        let (came, cost) = inbox.ledger.arrived(source, span, PAGES).await?;
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
        // The minutes are of all types.
        came.minutes.clear();
    }
    // An hour in which nothing came is no line of its own.
    arrived.retain(|_, came| came.events > 0);
    Ok((arrived, uncounted, spent))
}

/// What of an hour is in the span.
fn within(chosen: &Chosen, hour: Hour) -> (UnixMillis, UnixMillis) {
    let end = UnixMillis(hour.ends().0 - 1);
    (hour.begins().max(chosen.from), end.min(chosen.to))
}

async fn open(
    inbox: &Deployment,
    chosen: &Chosen,
    now: UnixMillis,
) -> anyhow::Result<(Waits, Cost)> {
    let ledger = &inbox.ledger;
    let (mut keys, more, mut spent) = ledger.all_waiting(Waiting::Open, OPEN).await?;
    keys.retain(|key| chosen.has_source(key.source()));
    let sources: Vec<&str> = chosen.sources.iter().map(String::as_str).collect();
    let fresh = ledger.recent_events(&sources, now, FRESH).await?;
    spent += fresh.cost;
    keys.extend(fresh.open);
    // It may have got its place in the other index meanwhile.
    keys.sort_unstable();
    keys.dedup();
    let more = more || fresh.or_more;
    let (mut briefs, cost) = ledger.briefs(&keys).await?;
    spent += cost;
    // What was settled since the index saw it waits no more.
    let open = [State::Received, State::Processing, State::Failed];
    briefs.retain(|brief| open.contains(&brief.state) && chosen.has_kind(&brief.kind));
    Ok((Waits::new(briefs, more), spent))
}

async fn dead(inbox: &Deployment, chosen: &Chosen, each: bool) -> anyhow::Result<(Waits, Cost)> {
    let ledger = &inbox.ledger;
    let (mut keys, more, mut spent) = ledger.all_waiting(Waiting::Dead, DEAD).await?;
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
    let (mut briefs, cost) = ledger.briefs(&keys).await?;
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
                .newest_of_hour(source, span, SAMPLE - keys.len())
                .await?;
            spent += cost;
            keys.extend(newest);
        }
        keys.truncate(SAMPLE);
        let (briefs, cost) = ledger.briefs(&keys).await?;
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
        let rhythm = inbox.ledger.rhythm(&source.name).await?;
        // One consistent read of less than four kilobytes.
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
