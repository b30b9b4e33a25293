//! `sync gaps`: lists the gaps.

use serde::Serialize;
use shared::base::calendar::Day;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Ledger, Lost};
use shared::monitoring::coverage::Gap;
use shared::webhook::event::EventKey;

use super::span::Span;
use crate::cli::{Global, SyncSpanArgs};
use crate::inspect::later;
use crate::output::count::{plural, thousands};
use crate::output::time::{duration, rfc3339};
use crate::output::{Column, Exit, List, Printer, Range};
use crate::target::Deployment;

/// An event that only the sync found, or a time span that the sync cannot list.
#[derive(Serialize)]
struct GapRow {
    source: String,
    /// The kind of the row: `event` or `unreachable`.
    kind: &'static str,
    happened_at: String,
    /// The end of a time span.
    until: Option<String>,
    event_id: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    found_at: Option<String>,
    /// The seconds from the event at the provider until the sync found it.
    late_s: Option<u64>,
    /// The time when the webhook arrived after all.
    webhook_at: Option<String>,
    /// The current state of the event. It is `None` for a time span, or if the row no longer
    /// exists.
    status: Option<String>,
    #[serde(skip)]
    at: i64,
    #[serde(skip)]
    webhook: String,
}

pub(super) async fn gaps(
    args: SyncSpanArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let span = Span::of(&args, now.0)?;
    let mut items = Vec::new();
    let (mut named, mut missed) = (0, 0);
    for source in super::sources(&inbox, &args.source)? {
        let lost = inbox.ledger.sync().lost(source).await?.into_iter();
        let lost = lost.filter(|lost| span.touches(lost.from, lost.to));
        items.extend(lost.map(|lost| GapRow::span(source, lost)));
        let days = span.days();
        let (Some(last), Some(first)) = (days.first(), days.last()) else {
            continue;
        };
        for day in inbox
            .ledger
            .statistics()
            .day_counts(source, *first, *last)
            .await?
        {
            let gaps = day.counts.gaps.iter();
            let gaps: Vec<&Gap> = gaps.filter(|gap| span.has(gap.happened)).collect();
            named += gaps.len() as u64;
            missed += missed_of(day.day, span, day.counts.sync, gaps.len());
            for gap in gaps {
                items.push(GapRow::event(&inbox.ledger, source, gap).await?);
            }
        }
    }
    items.sort_by(|a, b| (b.at, &a.source).cmp(&(a.at, &b.source)));
    let since = rfc3339(span.from.0);
    let truncated = missed > named;
    let footer = if truncated {
        format!(
            "{} of {} missed events since {since}; the others are in the inbox, with via \
            backup_sync",
            thousands(named),
            thousands(missed)
        )
    } else {
        format!(
            "{} since {since} · {}",
            plural(named, "missed event"),
            inbox.name
        )
    };
    out.list(&List {
        id: "event_id",
        truncated,
        footer: Some(footer),
        empty: format!(
            "No known gaps since {since}. `webhookctl sync coverage` shows how much of that time \
            was checked."
        ),
        tip: Some("webhookctl inbox inspect SOURCE:EVENT-ID --full".to_owned()),
        range: Some(Range::covered(span.from, UnixMillis(span.to.0 - 1))),
        ..List::new("sync.gaps", &inbox.name, now, columns(), items)
    })?;
    Ok(Exit::Done)
}

/// Returns the number of missed events of a day. If the time range covers only a part of the day,
/// counts only the events that are listed by name.
fn missed_of(day: Day, span: Span, missed: u64, named: usize) -> u64 {
    let whole = span.from <= day.begins() && day.ends() <= span.to;
    let today = span.from <= day.begins() && day == Day::of(span.to);
    if whole || today { missed } else { named as u64 }
}

impl GapRow {
    fn span(source: &str, lost: Lost) -> Self {
        Self {
            source: source.to_owned(),
            kind: "unreachable",
            happened_at: rfc3339(lost.from.0),
            until: Some(rfc3339(lost.to.0)),
            event_id: None,
            event_type: None,
            found_at: None,
            late_s: None,
            webhook_at: None,
            status: None,
            at: lost.from.0,
            webhook: "cannot be listed".to_owned(),
        }
    }

    async fn event(ledger: &Ledger, source: &str, gap: &Gap) -> anyhow::Result<Self> {
        // The stored id is already in the form of an event key, and `from_pk` does not change it.
        let key = EventKey::from_pk(&format!("E#{source}#{}", gap.id));
        let row = match &key {
            Some(key) => ledger.event(key).await?,
            None => None,
        };
        let seen = row.as_ref().and_then(|row| {
            let also = row.also.iter();
            let mut webhooks = also.filter(|also| also.via == shared::webhook::event::Via::Webhook);
            webhooks.next().map(|also| also.at)
        });
        let webhook = seen.map_or("never".to_owned(), |at| later(at.0, gap.found.0));
        Ok(Self {
            source: source.to_owned(),
            kind: "event",
            happened_at: rfc3339(gap.happened.0),
            until: None,
            event_id: Some(gap.id.clone()),
            event_type: Some(gap.kind.clone()),
            found_at: Some(rfc3339(gap.found.0)),
            late_s: Some(gap.found.since(gap.happened).as_secs()),
            webhook_at: seen.map(|at| rfc3339(at.0)),
            status: row.map(|row| row.state.to_string()),
            at: gap.happened.0,
            webhook,
        })
    }
}

fn columns() -> Vec<Column<'static, GapRow>> {
    vec![
        Column::whole("SOURCE", "source").essential(),
        Column::whole("HAPPENED AT", "happened_at").essential(),
        Column::whole("UNTIL", "until").dash().extra(),
        Column::text("EVENT ID", "event_id", 16).dash().essential(),
        Column::text("TYPE", "type", 12).dash(),
        Column::whole("LATE BY", "late_s")
            .right()
            .shown(|row: &GapRow| match &row.until {
                Some(until) => format!("until {until}"),
                None => row.late_s.map_or("-".to_owned(), duration),
            }),
        Column::whole("WEBHOOK", "webhook_at").shown(|row: &GapRow| row.webhook.clone()),
        Column::status("status").dash(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_day_that_is_cut_only_what_is_named_is_claimed() {
        let day = Day::of(UnixMillis(1_795_169_681_000));
        let span = |from: UnixMillis, to: UnixMillis| Span { from, to };
        let noon = UnixMillis(day.begins().0 + 12 * 3_600_000);
        let whole = span(day.begins(), day.ends());
        assert_eq!(missed_of(day, whole, 900, 50), 900);
        assert_eq!(missed_of(day, span(noon, day.ends()), 900, 7), 7);
        // The day is not over, so the time range covers all of it that has passed.
        assert_eq!(missed_of(day, span(day.begins(), noon), 900, 50), 900);
    }
}
