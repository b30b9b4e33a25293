//! Reads a sample of the newest events, for the time from receipt to done.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{FIRST, State};
use shared::monitoring::hours::Brief;
use shared::webhook::event::EventKey;

use super::super::chosen::Chosen;
use super::{Counts, within};
use crate::target::Deployment;

/// The maximum number of sampled events of a source, and of all sources together.
const SAMPLE: usize = 100;
const SAMPLES: usize = 1_000;

/// The maximum number of sources whose events are read for the sample only. The events of the current
/// hour are already read.
const READ: usize = 20;

/// The number of concurrent reads.
const AT_ONCE: usize = 8;

/// The number of rows in one request.
const A_BATCH: usize = 100;

/// One of the newest events of a source.
pub(in crate::verbs::stats) struct Sample {
    pub(in crate::verbs::stats) source: String,
    pub(in crate::verbs::stats) kind: String,
    pub(in crate::verbs::stats) received_at: UnixMillis,
    /// The time from receipt to done, if the event is done.
    pub(in crate::verbs::stats) lag: Option<Duration>,
}

pub(super) async fn samples(
    inbox: &Deployment,
    chosen: &Chosen,
    counts: &Counts,
) -> anyhow::Result<Vec<Sample>> {
    let each = (SAMPLES / chosen.sources.len().max(1)).clamp(1, SAMPLE);
    let mut newest = of_live(chosen, counts);
    let sources = inbox.config.sources();
    let quiet = chosen.sources.iter().filter_map(|source| {
        let known = newest.get(source).map_or(0, Vec::len);
        let hour = last_counted(counts, source).filter(|_| known < each.min(FIRST))?;
        Some((source.clone(), hour))
    });
    let mut quiet: Vec<(String, Hour)> = quiet.collect();
    // The newest hours tell most about the present.
    quiet.sort_by_key(|(_, hour)| std::cmp::Reverse(*hour));
    quiet.truncate(READ.min(sources.count()));
    let read = quiet.into_iter().map(async |(source, hour)| {
        let active = &counts.live.active;
        let span = within(chosen, hour);
        inbox.ledger.sample(active, &source, span, each).await
    });
    let read: Vec<_> = stream::iter(read)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    for of_source in read {
        let found = of_source.found.into_iter();
        let found = found.map(|event| (event.received_at, event.key));
        newest.entry(of_source.source).or_default().extend(found);
    }
    let mut keys = Vec::new();
    for events in newest.values_mut() {
        events.sort_unstable_by(|a, b| b.cmp(a));
        events.dedup();
        keys.extend(events.iter().take(each).map(|(_, key)| key.clone()));
    }
    let statistics = inbox.ledger.statistics();
    let read = keys.chunks(A_BATCH).map(|keys| statistics.briefs(keys));
    let read: Vec<_> = stream::iter(read)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let briefs = read.into_iter().flat_map(|(briefs, _)| briefs);
    let briefs = briefs.filter(|brief| chosen.has_kind(&brief.kind));
    Ok(briefs.map(Sample::of).collect())
}

/// Returns the events of the time range that are already read.
fn of_live(chosen: &Chosen, counts: &Counts) -> BTreeMap<String, Vec<(UnixMillis, EventKey)>> {
    let mut newest: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for of_source in &counts.live.entries {
        let inside = of_source.found.iter();
        let inside = inside.filter(|event| (chosen.from..=chosen.to).contains(&event.received_at));
        let events = newest.entry(of_source.source.clone()).or_default();
        events.extend(inside.map(|event| (event.received_at, event.key.clone())));
    }
    newest
}

/// Returns the newest hour with a stored count in which events of a source arrived.
fn last_counted(counts: &Counts, source: &str) -> Option<Hour> {
    let hours = counts.arrived.keys().rev();
    let mut hours = hours.filter(|(of, _)| of == source).map(|(_, hour)| *hour);
    hours.find(|hour| !counts.read.contains(hour))
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
