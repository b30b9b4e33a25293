//! Counts the events of a source. The number of queries to the ledger's indexes is limited, and no
//! query scans the table.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Listed, Waiting};

use crate::output::count::Count;
use crate::output::time::HOUR_MS;
use crate::selection::held_keys;
use crate::target::Deployment;

const HOURS: i64 = 24;

/// The number at which counting the events of a source stops.
pub(super) const MOST: usize = 1000;

/// The number of hours of a source that are read together.
const AT_ONCE: usize = 6;

/// Returns the events of a source in the last 24 hours, newest first and at most `most`, and
/// whether there are more.
pub(super) async fn last_day(
    ledger: &Ledger,
    source: &str,
    now: UnixMillis,
    most: usize,
) -> anyhow::Result<(Vec<Listed>, bool)> {
    let active = ledger.active_hours(UnixMillis(now.0 - HOURS * HOUR_MS), now);
    let active = active.await?;
    let (mut found, mut more) = (Vec::new(), false);
    for hours in hours(now).chunks(AT_ONCE) {
        let (Some((_, to)), Some((from, _))) = (hours.first(), hours.last()) else {
            continue;
        };
        let span = (*from, *to);
        let read = ledger
            .entries_of_all(&active, &[source], span, most + 1)
            .await?;
        let mut of_hours = Vec::new();
        for of_day in read {
            more |= of_day.or_more;
            of_hours.extend(of_day.found);
        }
        of_hours.sort_by(|a, b| b.id.cmp(&a.id));
        found.extend(of_hours);
        if more || found.len() > most {
            found.truncate(most);
            return Ok((found, true));
        }
    }
    Ok((found, false))
}

/// Returns the hours of the last day, as in the index, newest first.
fn hours(now: UnixMillis) -> Vec<(UnixMillis, UnixMillis)> {
    let begin = now.0 - HOURS * HOUR_MS;
    let mut hours = Vec::new();
    let mut to = now.0;
    while to > begin {
        let from = (to.div_euclid(HOUR_MS) * HOUR_MS).max(begin);
        hours.push((UnixMillis(from), UnixMillis(to)));
        to = from - 1;
    }
    hours
}

/// Returns the number of open events or dead letters of each source. If the limit is reached, each
/// number is only a minimum.
pub(super) async fn waiting(
    inbox: &Deployment,
    what: Waiting,
    now: UnixMillis,
) -> anyhow::Result<(BTreeMap<String, u64>, bool)> {
    let (sources, pulled) = (inbox.sources(), inbox.pulled_sources());
    waiting_of(&inbox.ledger, (&sources, &pulled), what, now).await
}

/// Like [`waiting`], for these sources. Workers take the events of `pulled` from queues.
pub(super) async fn waiting_of(
    ledger: &Ledger,
    (sources, pulled): (&[&str], &[&str]),
    what: Waiting,
    now: UnixMillis,
) -> anyhow::Result<(BTreeMap<String, u64>, bool)> {
    let (mut found, mut more) = (BTreeSet::new(), false);
    if what == Waiting::Open {
        let fresh = ledger.sweep().recent_events(sources, now, MOST).await?;
        found.extend(fresh.open);
        let (held, held_more) = held_keys(ledger, sources, i32::try_from(MOST)?).await?;
        found.extend(held);
        more = fresh.or_more || held_more;
    }
    let limit = i32::try_from(MOST).unwrap_or(i32::MAX);
    if what == Waiting::Open {
        let (in_queues, more_in_queues, _) = ledger.pulled(pulled, UnixMillis(0), limit).await?;
        found.extend(in_queues);
        more |= more_in_queues;
    }
    let shards = (0..Waiting::SHARDS).map(|shard| ledger.waiting(what, shard, limit));
    for shard in join_all(shards).await {
        let (keys, shard_has_more) = shard?;
        more |= shard_has_more;
        found.extend(keys);
    }
    let mut counts = BTreeMap::new();
    for key in found {
        *counts.entry(key.source().to_owned()).or_insert(0) += 1;
    }
    Ok((counts, more))
}

/// Returns the count of one source.
pub(super) fn of(counts: &(BTreeMap<String, u64>, bool), source: &str) -> Count {
    Count {
        count: counts.0.get(source).copied().unwrap_or(0),
        or_more: counts.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_read_hour_by_hour_and_no_moment_twice() {
        let now = UnixMillis(100 * HOUR_MS + 17);
        let hours = hours(now);
        assert_eq!(hours.len(), 25);
        assert_eq!(hours.first(), Some(&(UnixMillis(100 * HOUR_MS), now)));
        assert_eq!(hours.last().unwrap().0, UnixMillis(76 * HOUR_MS + 17));
        for pair in hours.windows(2) {
            assert_eq!(pair[1].1.0 + 1, pair[0].0.0);
        }
    }
}
