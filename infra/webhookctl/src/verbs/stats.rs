//! `inbox stats`: shows how many events arrived, which events wait, and how long processing takes.
//! The command is read-only, and the amount of data that it reads does not grow with the table.

mod chosen;
mod figures;
mod gather;
mod rows;
mod spark;

use std::time::Duration;

use shared::base::clock::UnixMillis;

use crate::cli::{By, Global, StatsArgs};
use crate::output::time::duration;
use crate::output::{CliError, Exit, List, Printer, Range, Spent};
use crate::target::Deployment;
pub(super) use chosen::Chosen;
use figures::{Lags, seconds};
use gather::Gathered;
pub(super) use gather::{Counts, PARTS, Waits, arrivals, open};
use rows::StatRow;

/// The default limit for a waiting event. If an event has waited for longer, its source is late.
pub(super) const LATE: Duration = Duration::from_secs(900);

pub(super) async fn stats(
    args: StatsArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let chosen = Chosen::of(&args.selection, &inbox, now)?;
    let gathered = Box::pin(gather::gather(&inbox, &chosen, args.by, now)).await?;
    let limit = args.max_lag.unwrap_or(LATE);
    let rows = rows::rows(&gathered, &chosen, args.by, limit, now);
    let late = late(&gathered, args.max_lag, now);
    let quiet = out.terminal.talk == crate::output::print::Talk::Quiet;
    // With `--quiet`, for cron, the exit code is the result. If an event is late, the command also
    // prints an error line.
    if !(quiet && args.max_lag.is_some() && out.format.is_table()) {
        print(&inbox, &chosen, &gathered, (args.by, rows), now, out)?;
    }
    match late {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Done),
    }
}

fn print(
    inbox: &Deployment,
    chosen: &Chosen,
    gathered: &Gathered,
    (by, items): (By, Vec<StatRow>),
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let worst = items.iter().find(|row| row.health == "failing");
    let tip = worst.map_or("webhookctl inbox list".to_owned(), |row| {
        let source = row.source.as_ref();
        let source = source.map_or(String::new(), |source| format!(" -s {source}"));
        format!("webhookctl inbox list --status failed --status dead_letter{source}")
    });
    out.list(&List {
        id: match by {
            By::Source => "source",
            By::Type => "type",
            By::Hour => "hour",
        },
        footer: Some(footer(inbox, chosen, gathered, now)),
        range: Some(Range {
            since: chosen.from,
            until: chosen.to,
            uncounted_hours: gathered.counts.uncounted.len(),
        }),
        empty: format!("No events match ({}).", chosen.said(now)),
        tip: Some(tip),
        ..List::new(
            "inbox.stats",
            &inbox.name,
            now,
            rows::columns(by, now.0),
            items,
        )
    })
}

/// Returns the footer: the time range, the sum over all rows, the sampled events, and the cost of
/// the command.
fn footer(inbox: &Deployment, chosen: &Chosen, gathered: &Gathered, now: UnixMillis) -> String {
    let mut parts = vec![chosen.said(now)];
    let samples = gathered.samples.iter();
    let lags = Lags::new(samples.filter_map(|sample| sample.lag));
    if let (Some(half), Some(most)) = (lags.within(50), lags.within(95)) {
        let (half, most) = (seconds(half), seconds(most));
        let count = lags.len();
        parts.push(format!(
            "received→done: p50 {half}, p95 {most} of the newest {count}"
        ));
    }
    parts.extend(spark::line(
        &gathered.counts.arrived,
        chosen.from,
        chosen.to,
    ));
    if gathered.or_more {
        parts.push("some counts are minimums (+)".to_owned());
    }
    let uncounted = gathered.counts.uncounted.len();
    if uncounted > 0 {
        parts.push(format!("{uncounted} hours are not counted"));
    }
    parts.push(inbox.name.clone());
    parts.extend(Spent::now().map(Spent::text));
    parts.join(" · ")
}

/// Returns the error for the source whose event has waited longest, if this time exceeds the limit.
fn late(gathered: &Gathered, limit: Option<Duration>, now: UnixMillis) -> Option<CliError> {
    let limit = limit?;
    let mut late: Vec<(&str, Duration)> = Vec::new();
    for (source, since) in gathered.oldest() {
        let waits = now.since(since);
        if waits > limit {
            late.push((source, waits));
        }
    }
    late.sort_by_key(|(_, waits)| std::cmp::Reverse(*waits));
    let said = |waits: &Duration| duration(waits.as_secs());
    let (source, waits) = late.first()?;
    let message = format!(
        "{source}: the oldest waiting event is {} old; the limit is {}",
        said(waits),
        said(&limit)
    );
    let error = CliError::new("stats.lag", Exit::No, message);
    let others = late.iter().skip(1);
    let others: Vec<String> = others
        .map(|(source, waits)| format!("{source} {}", said(waits)))
        .collect();
    let error = if others.is_empty() {
        error
    } else {
        error.note(format!("also late: {}", others.join(", ")))
    };
    Some(error.tip(format!("webhookctl inbox list -s {source} --status failed")))
}

/// Returns whether a row covers only a part of a source.
fn is_finer(by: By) -> bool {
    by != By::Source
}
