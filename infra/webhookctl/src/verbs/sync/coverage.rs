//! `sync coverage`: shows the coverage by source and day.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Ledger;
use shared::monitoring::coverage::DayCount;
use shared::monitoring::coverage::{Delays, Gap};
use shared::sources::Source;
use shared::webhook::event::EventKey;
use shared::webhook::preset::SyncKind;

use super::facts::percent;
use super::span::Span;
use crate::cli::{Global, SyncSpanArgs};
use crate::output::count::thousands;
use crate::output::time::{duration, rfc3339};
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

/// The number of rows that are read concurrently.
const AT_ONCE: usize = 16;

/// The coverage of a source on one day. If there is no data for a field, the field is missing, and
/// not 0.
#[derive(Serialize)]
struct CoverageRow {
    source: String,
    /// The day, such as `2026-11-20`, in UTC and by the provider's clock.
    day: String,
    /// The number of minutes of the day for which the sync read a complete list.
    counted_minutes: u64,
    seen: Option<u64>,
    webhook_only: Option<u64>,
    both: Option<u64>,
    /// The number of events in `both` that the sync found before their webhook arrived.
    webhook_late: Option<u64>,
    sync_only: Option<u64>,
    /// The number of events in `sync_only` whose webhook arrived later. Only events that are listed
    /// by name are counted.
    came_since: Option<u64>,
    miss_rate_percent: Option<f64>,
    /// The time from the event at the provider until its webhook arrived.
    webhook_delay_s: Option<DelayRow>,
    /// The time from the event at the provider until the sync found it, for events without a
    /// webhook.
    sync_delay_s: Option<DelayRow>,
    note: Option<String>,
}

/// Percentiles of a delay in seconds: 50 %, 95 % and 100 % of the events arrived within it. The
/// first two are upper bounds.
#[derive(Serialize)]
struct DelayRow {
    p50: u64,
    p95: u64,
    max: u64,
}

pub(super) async fn coverage(
    args: SyncSpanArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let days = Span::of(&args, now.0)?.days();
    let mut items = Vec::new();
    for name in super::sources(&inbox, &args.source)? {
        let Some(source) = inbox.config.source(name) else {
            continue;
        };
        if let Some(why) = uncounted(source) {
            items.push(CoverageRow::none(name, None, why));
            continue;
        }
        let (Some(last), Some(first)) = (days.first(), days.last()) else {
            continue;
        };
        let known = inbox
            .ledger
            .statistics()
            .day_counts(name, *first, *last)
            .await?;
        for day in &days {
            items.push(match known.iter().find(|known| known.day == *day) {
                Some(count) if count.minutes > 0 => {
                    let since = came_since(&inbox.ledger, name, &count.counts.gaps).await?;
                    CoverageRow::new(name, count, since)
                }
                _ => CoverageRow::none(name, Some(*day), "no data: no complete list was read"),
            });
        }
    }
    let (seen, missed) = items.iter().fold((0, 0), |(seen, missed), row| {
        (
            seen + row.seen.unwrap_or(0),
            missed + row.sync_only.unwrap_or(0),
        )
    });
    out.list(&List {
        id: "source",
        footer: Some(format!(
            "{} of {} events did not arrive by webhook · days in UTC, by the provider's clock · {}",
            thousands(missed),
            thousands(seen),
            inbox.name
        )),
        empty: "No sources are configured.".to_owned(),
        tip: (missed > 0).then(|| "webhookctl sync gaps".to_owned()),
        ..List::new("sync.coverage", &inbox.name, now, columns(), items)
    })?;
    Ok(Exit::Done)
}

/// Returns the reason why a source never has coverage data.
fn uncounted(source: &Source) -> Option<&'static str> {
    let Some(settings) = &source.sync else {
        return Some("no data: the source has no [source.sync]");
    };
    if settings.list.kind == SyncKind::ChangeCursor {
        return Some("no data: the provider lists changed objects, not events");
    }
    if settings.failed_only {
        return Some("no data: failed_only does not list delivered events");
    }
    let once = settings.list.mark.is_some();
    once.then_some(
        "no data: the provider lists each event only once, possibly before its webhook arrives",
    )
}

/// Returns the number of gaps whose webhook arrived after they were counted.
async fn came_since(ledger: &Ledger, source: &str, gaps: &[Gap]) -> anyhow::Result<u64> {
    let keys = gaps.iter();
    let keys = keys.filter_map(|gap| EventKey::from_pk(&format!("E#{source}#{}", gap.id)));
    let keys: Vec<EventKey> = keys.collect();
    let seen: Vec<bool> = stream::iter(&keys)
        .map(async |key| {
            let seen = ledger.seen(key).await?;
            anyhow::Ok(seen.is_some_and(|seen| seen.by_webhook().is_some()))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    Ok(seen.into_iter().filter(|came| *came).count() as u64)
}

impl CoverageRow {
    fn new(source: &str, day: &DayCount, came_since: u64) -> Self {
        let counts = &day.counts;
        let compared = day.compared > 0;
        Self {
            source: source.to_owned(),
            day: dashed(day.day),
            counted_minutes: day.minutes,
            seen: Some(counts.all()),
            webhook_only: compared.then_some(counts.webhook),
            both: Some(counts.both),
            webhook_late: Some(counts.late),
            sync_only: Some(counts.sync),
            came_since: Some(came_since),
            miss_rate_percent: counts.miss_rate(),
            webhook_delay_s: DelayRow::of(&counts.by_webhook),
            sync_delay_s: DelayRow::of(&counts.by_sync),
            note: (day.compared < day.minutes).then(|| {
                format!(
                    "webhooks were compared with the list in {} of {} minutes",
                    day.compared, day.minutes
                )
            }),
        }
    }

    fn none(source: &str, day: Option<Day>, note: &str) -> Self {
        Self {
            source: source.to_owned(),
            day: day.map_or("-".to_owned(), dashed),
            counted_minutes: 0,
            seen: None,
            webhook_only: None,
            both: None,
            webhook_late: None,
            sync_only: None,
            came_since: None,
            miss_rate_percent: None,
            webhook_delay_s: None,
            sync_delay_s: None,
            note: Some(note.to_owned()),
        }
    }
}

impl DelayRow {
    fn of(delays: &Delays) -> Option<Self> {
        let seconds = |delay: Option<std::time::Duration>| Some(delay?.as_secs());
        Some(Self {
            p50: seconds(delays.within(50))?,
            p95: seconds(delays.within(95))?,
            max: seconds(delays.longest())?,
        })
    }

    fn text(&self) -> String {
        let Self { p50, p95, max } = self;
        format!("{} {} {}", duration(*p50), duration(*p95), duration(*max))
    }
}

/// The day is `2026-11-20`.
fn dashed(day: Day) -> String {
    rfc3339(day.begins().0).chars().take(10).collect()
}

fn columns() -> Vec<Column<'static, CoverageRow>> {
    let delay = |delay: Option<&DelayRow>| delay.map_or_else(|| "-".to_owned(), DelayRow::text);
    vec![
        Column::whole("SOURCE", "source").essential(),
        Column::whole("DAY", "day").essential(),
        Column::whole("COUNTED", "counted_minutes")
            .right()
            .shown(|row: &CoverageRow| match row.counted_minutes {
                0 => "-".to_owned(),
                minutes => duration(minutes * 60),
            }),
        Column::count("WEBHOOK ONLY", "webhook_only"),
        Column::count("BOTH", "both"),
        Column::count("LATE", "webhook_late").lesser(),
        Column::count("SYNC ONLY", "sync_only"),
        Column::count("CAME SINCE", "came_since").lesser(),
        Column::whole("MISSED", "miss_rate_percent")
            .right()
            .essential()
            .shown(|row: &CoverageRow| match row.counted_minutes {
                0 => "no data".to_owned(),
                _ => percent(row.miss_rate_percent),
            }),
        Column::whole("WEBHOOK P50 P95 MAX", "webhook_delay_s")
            .lesser()
            .shown(move |row: &CoverageRow| delay(row.webhook_delay_s.as_ref())),
        Column::whole("SYNC P50 P95 MAX", "sync_delay_s")
            .lesser()
            .shown(move |row: &CoverageRow| delay(row.sync_delay_s.as_ref())),
        Column::text("NOTE", "note", 16).extra(),
    ]
}

#[cfg(test)]
mod tests {
    use shared::monitoring::coverage::Counts;

    use super::*;
    use crate::output::Format;

    const DAY: UnixMillis = UnixMillis(1_795_169_681_000);

    fn counted(counts: Counts) -> CoverageRow {
        let count = DayCount {
            day: Day::of(DAY),
            counted: Some(DAY),
            minutes: 600,
            compared: 600,
            counts,
        };
        CoverageRow::new("stripe-main", &count, 1)
    }

    fn table(items: Vec<CoverageRow>) -> String {
        let list = List {
            command: "sync.coverage",
            context: "local",
            as_of: String::new(),
            columns: columns(),
            id: "source",
            items,
            next_cursor: None,
            truncated: false,
            footer: None,
            empty: String::new(),
            tip: None,
            range: None,
        };
        list.data(Format::Table, None, false).unwrap()
    }

    #[test]
    fn no_data_and_no_events_are_not_zero_percent() {
        let none = CoverageRow::none(
            "a",
            Some(Day::of(DAY)),
            "no data: no complete list was read",
        );
        let json = serde_json::to_value(&none).unwrap();
        assert!(json["miss_rate_percent"].is_null() && json["sync_only"].is_null());
        let nothing = counted(Counts::default());
        assert_eq!(nothing.miss_rate_percent, None);
        let text = table(vec![none, nothing]);
        assert!(
            text.contains("no data") && text.contains("no events"),
            "{text}"
        );
        assert!(!text.contains('%'), "{text}");
    }

    #[test]
    fn a_day_is_told_in_one_row() {
        let mut counts = Counts {
            webhook: 1,
            both: 56,
            late: 2,
            sync: 3,
            ..Counts::default()
        };
        for seconds in [1, 1, 1, 40] {
            counts
                .by_webhook
                .add(std::time::Duration::from_secs(seconds));
        }
        counts.by_sync.add(std::time::Duration::from_secs(1140));
        let text = table(vec![counted(counts)]);
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "stripe-main",
                "2026-11-20",
                "10h",
                "1",
                "56",
                "2",
                "3",
                "1",
                "5.0",
                "%",
                "1s",
                "40s",
                "40s",
                "19m",
                "19m",
                "19m"
            ]
        );
    }
}
