//! Builds the rows of `inbox stats`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::State;
use shared::monitoring::hours::Brief;

use super::chosen::Chosen;
use super::figures::{Lags, fraction, seconds};
use super::gather::Gathered;
use crate::cli::By;
use crate::output::Column;
use crate::output::count::Count;
use crate::output::time::{age, rfc3339};

/// The type for events whose own types are too rare to be counted separately.
const OTHER: &str = "(other)";

#[derive(Serialize)]
pub(super) struct StatRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hour: Option<String>,
    /// Whether the events of the hour were counted. Only rows of hours have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<bool>,
    /// The events that were received in the time range.
    received: Count,
    /// The events that have failed and wait for a retry. This field and `dead_letters` ignore the
    /// time range.
    failed: Count,
    dead_letters: Count,
    /// The time from receipt to done. It is computed from the newest events.
    p50_s: Option<f64>,
    p95_s: Option<f64>,
    sampled: usize,
    oldest_open_at: Option<String>,
    oldest_open_s: Option<u64>,
    pub(super) health: &'static str,
    #[serde(skip)]
    oldest: Option<UnixMillis>,
}

/// The subject of a row: a source, a type or an hour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Source(String),
    Type(String, String),
    Hour(Hour),
}

impl About {
    fn of(by: By, source: &str, kind: &str, hour: Hour) -> Self {
        match by {
            By::Source => Self::Source(source.to_owned()),
            By::Type => Self::Type(source.to_owned(), kind.to_owned()),
            By::Hour => Self::Hour(hour),
        }
    }
}

#[derive(Default)]
struct Sum {
    received: Count,
    failed: Count,
    dead: Count,
    lags: Vec<Duration>,
    oldest: Option<UnixMillis>,
    silent: bool,
}

pub(super) fn rows(
    gathered: &Gathered,
    chosen: &Chosen,
    by: By,
    limit: Duration,
    now: UnixMillis,
) -> Vec<StatRow> {
    let mut sums = BTreeMap::new();
    if by == By::Source {
        for source in &chosen.sources {
            let sum: &mut Sum = sums.entry(About::Source(source.clone())).or_default();
            sum.silent = gathered.silent.contains(source);
            let dead = gathered.dead.by_source.get(source);
            sum.dead.count = dead.copied().unwrap_or(0);
        }
    }
    if by == By::Hour {
        for hour in Hour::of(chosen.from).up_to(Hour::of(chosen.to)) {
            sums.entry(About::Hour(hour)).or_default();
        }
    }
    receive(&mut sums, gathered, by);
    wait(&mut sums, gathered, chosen, by);
    for sample in &gathered.samples {
        let hour = Hour::of(sample.received_at);
        let about = About::of(by, &sample.source, &sample.kind, hour);
        let sum = sums.entry(about).or_default();
        sum.lags.extend(sample.lag);
    }
    let mut rows: Vec<StatRow> = Vec::new();
    for (about, mut sum) in sums {
        sum.failed.or_more = gathered.open.or_more;
        sum.dead.or_more = gathered.dead.or_more;
        let counted = match about {
            About::Hour(hour) => Some(!gathered.counts.uncounted.contains(&hour)),
            _ => None,
        };
        rows.push(row(about, counted, sum, limit, now));
    }
    match by {
        By::Source => {}
        By::Hour => rows.reverse(),
        By::Type => rows.sort_by(|a, b| {
            let busy = b.received.count.cmp(&a.received.count);
            a.source.cmp(&b.source).then(busy)
        }),
    }
    rows
}

fn receive(sums: &mut BTreeMap<About, Sum>, gathered: &Gathered, by: By) {
    for ((source, hour), arrived) in &gathered.counts.arrived {
        let mut add = |kind: &str, count: u64| {
            let sum = sums.entry(About::of(by, source, kind, *hour)).or_default();
            sum.received.count += count;
            sum.received.or_more |= arrived.or_more;
        };
        if by != By::Type {
            add("", arrived.events);
            continue;
        }
        for (kind, count) in &arrived.kinds {
            add(kind, *count);
        }
        let named: u64 = arrived.kinds.values().sum();
        if arrived.events > named {
            add(OTHER, arrived.events - named);
        }
    }
}

fn wait(sums: &mut BTreeMap<About, Sum>, gathered: &Gathered, chosen: &Chosen, by: By) {
    let about = |brief: &Brief| {
        let hour = Hour::of(brief.received_at);
        // A row for an hour covers only that hour, and hours outside the time range have no row.
        let inside = (chosen.from..=chosen.to).contains(&brief.received_at);
        let about = About::of(by, brief.key.source(), &brief.kind, hour);
        (by != By::Hour || inside).then_some(about)
    };
    for brief in &gathered.open.briefs {
        let Some(about) = about(brief) else { continue };
        let sum = sums.entry(about).or_default();
        sum.failed.count += u64::from(brief.state == State::Failed);
        let since = sum.oldest.unwrap_or(brief.received_at);
        sum.oldest = Some(since.min(brief.received_at));
    }
    // If the rows are sources, the dead letters are already counted.
    if by == By::Source {
        return;
    }
    for about in gathered.dead.briefs.iter().filter_map(about) {
        sums.entry(about).or_default().dead.count += 1;
    }
}

fn row(about: About, counted: Option<bool>, sum: Sum, limit: Duration, now: UnixMillis) -> StatRow {
    let health = sum.health(limit, now);
    let lags = Lags::new(sum.lags);
    let (half, most) = (lags.within(50), lags.within(95));
    let (source, kind, hour) = match about {
        About::Source(source) => (Some(source), None, None),
        About::Type(source, kind) => (Some(source), Some(kind), None),
        About::Hour(hour) => (None, None, Some(rfc3339(hour.begins().0))),
    };
    StatRow {
        source,
        kind,
        hour,
        counted,
        received: sum.received,
        failed: sum.failed,
        dead_letters: sum.dead,
        p50_s: half.map(fraction),
        p95_s: most.map(fraction),
        sampled: lags.len(),
        oldest_open_at: sum.oldest.map(|since| rfc3339(since.0)),
        oldest_open_s: sum.oldest.map(|since| now.since(since).as_secs()),
        health,
        oldest: sum.oldest,
    }
}

impl Sum {
    /// Returns the most severe state.
    fn health(&self, limit: Duration, now: UnixMillis) -> &'static str {
        let many = self.failed.count * 100 > self.received.count;
        let late = self.oldest.is_some_and(|since| now.since(since) > limit);
        match self {
            sum if sum.dead.count > 0 || many => "failing",
            _ if late => "late",
            sum if sum.silent => "quiet",
            _ => "ok",
        }
    }
}

pub(super) fn columns(by: By, now: i64) -> Vec<Column<'static, StatRow>> {
    let lag =
        |lag: Option<f64>| lag.map_or("-".to_owned(), |lag| seconds(Duration::from_secs_f64(lag)));
    let name = |head, field| Column::whole(head, field).essential();
    let mut columns = match by {
        By::Source => vec![name("SOURCE", "source")],
        By::Type => vec![
            name("SOURCE", "source"),
            Column::text("TYPE", "type", 16).essential(),
        ],
        By::Hour => vec![name("HOUR", "hour")],
    };
    let number = |name, field| Column::whole(name, field).right();
    columns.extend([
        number("RECEIVED", "received.count").shown(|row: &StatRow| match row.counted {
            Some(false) => "not counted".to_owned(),
            _ => row.received.to_string(),
        }),
        number("FAILED", "failed.count").shown(|row: &StatRow| row.failed.to_string()),
        number("DEAD", "dead_letters.count").shown(|row: &StatRow| row.dead_letters.to_string()),
        number("P50", "p50_s").shown(move |row: &StatRow| lag(row.p50_s)),
        number("P95", "p95_s").shown(move |row: &StatRow| lag(row.p95_s)),
        number("OLDEST", "oldest_open_s")
            .shown(move |row: &StatRow| row.oldest.map_or("-".to_owned(), |at| age(at.0, now))),
        Column::whole("HEALTH", "health").essential(),
    ]);
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

    fn sum(received: u64, failed: u64, dead: u64, waits: u64, silent: bool) -> Sum {
        let count = |count| Count {
            count,
            or_more: false,
        };
        Sum {
            received: count(received),
            failed: count(failed),
            dead: count(dead),
            lags: Vec::new(),
            oldest: Some(NOW - Duration::from_secs(waits)),
            silent,
        }
    }

    #[test]
    fn the_worst_is_said_of_a_source() {
        for (sum, expected) in [
            (sum(18_402, 2, 0, 4, false), "ok"),
            (sum(2_110, 214, 0, 4, true), "failing"),
            (sum(388, 2, 1, 4, false), "failing"),
            (sum(0, 1, 0, 4, false), "failing"),
            (sum(388, 0, 0, 901, true), "late"),
            (sum(388, 0, 0, 900, true), "quiet"),
        ] {
            let said = sum.health(Duration::from_secs(900), NOW);
            assert_eq!(said, expected, "{:?}", (sum.received, sum.failed));
        }
    }
}
