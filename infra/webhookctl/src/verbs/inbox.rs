//! `inbox`: stored events.

use std::cmp::Reverse;

use futures::future::try_join_all;
use shared::clock::Millis;
use shared::event::{EventId, EventKey};
use shared::ledger::{Listed, Row};

use super::view;
use crate::cli::{Global, InspectArgs, ListArgs};
use crate::inspect::{EventRow, EventView, SCHEMA, columns, document, full, seven_lines};
use crate::output::time::age;
use crate::output::{CliError, Exit, Format, List, Printer, time};
use crate::place::Inbox;

/// How far back a list looks when nothing is said.
const DAY_MS: i64 = 24 * 3600 * 1000;

/// No list looks further back: each hour of each source is a read of its own.
const MOST_HOURS: i64 = 31 * 24;

/// An id's prefix that leaves more time than this open would be searched for too long.
const WIDEST_PREFIX_MS: i64 = DAY_MS;

pub(super) async fn list(
    args: ListArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Inbox::open(global)?;
    let now = Millis::now().0;
    let since = args.since.map_or(now - DAY_MS, |when| when.millis(now));
    let mut until = args.until.map_or(now, |when| when.millis(now) - 1);
    let mut since_exact = since;
    let after = args.after.as_deref().map(Position::parse).transpose()?;
    if let Some(position) = &after {
        if args.reverse {
            since_exact = position.at;
        } else {
            until = position.at;
        }
    }
    if (until - since_exact) / 3_600_000 > MOST_HOURS {
        return Err(
            CliError::usage("inbox.span", "a list spans at most 31 days")
                .tip("narrow it with --since and --until")
                .into(),
        );
    }
    let sources = chosen(&inbox, &args)?;
    let limit = args.limit as usize;
    let span = Span {
        from: Millis(since_exact),
        to: Millis(until),
        reverse: args.reverse,
        after,
    };
    let (events, more) = read(&inbox, &sources, &args, &span, limit).await?;

    let next_cursor = events.last().filter(|_| more).map(|event| {
        Position {
            at: event.received_at,
            id: event.id.clone(),
        }
        .text()
    });
    let items: Vec<EventRow> = events
        .iter()
        .map(|event| EventRow::new(event, now))
        .collect();
    let count = items.len();
    let order = if args.reverse { "oldest" } else { "newest" };
    let mut footer = format!(
        "{count} {order} since {} · {}",
        time::rfc3339(since),
        inbox.name
    );
    if let Some(cursor) = &next_cursor {
        footer = format!("{footer} · next: --after {cursor}");
    }
    out.list(&List {
        command: "inbox.list",
        context: &inbox.name,
        as_of: time::rfc3339(now),
        columns: columns(now),
        id: "id",
        items,
        truncated: more,
        next_cursor,
        footer: Some(footer),
        empty: format!(
            "No events match ({}, since={}).",
            asked(&args),
            age(since, now)
        ),
        tip: Some(if count > 0 {
            "webhookctl inbox inspect <ID>   (any unique prefix of an ID works)".to_owned()
        } else {
            "widen with --since 7d".to_owned()
        }),
    })?;
    Ok(Exit::Done)
}

pub(super) async fn inspect(
    args: InspectArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Inbox::open(global)?;
    let row = find(&inbox, &args.id).await?;
    let now = Millis::now().0;
    let event = view(&row, &inbox.config);
    let text = if args.full || out.format == Format::Wide {
        full(&event, now)
    } else {
        seven_lines(&event, now)
    };
    out.document(SCHEMA, &document(&event, now), &event.id, &text)?;
    if !args.full {
        out.tip(&format!("webhookctl inbox inspect {} --full", args.id));
    }
    Ok(Exit::Done)
}

/// The event that a person means: by its id, a unique prefix of it, `source:event-id`, or the
/// provider's own id.
pub(super) async fn find(inbox: &Inbox, wanted: &str) -> anyhow::Result<Row> {
    let sources = inbox.sources();
    let mut found: Vec<Row> = Vec::new();
    if let Some((source, id)) = wanted.split_once(':')
        && let Some(row) = inbox.ledger.event(&EventKey::new(source, id)).await?
    {
        return Ok(row);
    }
    if let Some((from, to)) = EventId::times(wanted)
        && to.0 - from.0 <= WIDEST_PREFIX_MS
    {
        for listed in inbox.ledger.with_id_prefix(&sources, wanted, 10).await? {
            found.extend(inbox.ledger.event(&listed.key).await?);
        }
    }
    if found.is_empty() {
        let asked = sources.iter().map(|source| EventKey::new(source, wanted));
        let keys: Vec<EventKey> = asked.collect();
        let rows = try_join_all(keys.iter().map(|key| inbox.ledger.event(key))).await?;
        found.extend(rows.into_iter().flatten());
    }
    match found.len() {
        0 => Err(CliError::new("inbox.not_found", Exit::NotFound, format!("no event '{wanted}' in {}", inbox.name))
            .note("looked for: an id, a prefix of one that names at least its day, a provider's id, source:event-id; kept for 90 days")
            .tip("webhookctl inbox list")
            .into()),
        1 => Ok(found.remove(0)),
        count => {
            let now = Millis::now().0;
            let details = found
                .iter()
                .map(|row| format!("{}  {}  {}  {}", row.id(), row.key.source(), row.kind, age(row.received_at.0, now)))
                .collect();
            Err(CliError::new("inbox.ambiguous_id", Exit::NotFound, format!("'{wanted}' matches {count} events"))
                .details(details)
                .into())
        }
    }
}

/// Where a list stopped.
struct Position {
    at: i64,
    id: String,
}

impl Position {
    fn parse(text: &str) -> Result<Self, CliError> {
        let bad = || CliError::usage("usage.after", format!("'{text}' is no cursor of a list"));
        let (at, id) = text.split_once('.').ok_or_else(bad)?;
        Ok(Self {
            at: at.parse().map_err(|_| bad())?,
            id: id.to_owned(),
        })
    }

    fn text(&self) -> String {
        format!("{}.{}", self.at, self.id)
    }
}

struct Span {
    from: Millis,
    to: Millis,
    reverse: bool,
    after: Option<Position>,
}

impl Span {
    /// Hours of UTC, in the order in which they are read.
    fn hours(&self) -> Vec<(Millis, Millis)> {
        const HOUR: i64 = 3_600_000;
        let mut hours = Vec::new();
        let mut at = self.from.0;
        while at <= self.to.0 {
            let end = ((at.div_euclid(HOUR) + 1) * HOUR - 1).min(self.to.0);
            hours.push((Millis(at), Millis(end)));
            at = end + 1;
        }
        if !self.reverse {
            hours.reverse();
        }
        hours
    }

    /// Whether an event lies behind the place where the last list stopped.
    fn is_ahead(&self, event: &Listed) -> bool {
        let Some(after) = &self.after else {
            return true;
        };
        let (this, stopped) = (
            (event.received_at.0, event.id.as_str()),
            (after.at, after.id.as_str()),
        );
        if self.reverse {
            this > stopped
        } else {
            this < stopped
        }
    }
}

/// Reads hour by hour until there are enough, and whether there are more.
async fn read(
    inbox: &Inbox,
    sources: &[&str],
    args: &ListArgs,
    span: &Span,
    limit: usize,
) -> anyhow::Result<(Vec<EventView>, bool)> {
    let mut events = Vec::new();
    for (from, to) in span.hours() {
        let hours = sources
            .iter()
            .map(|source| inbox.ledger.received_in_hour(source, from, to, 10_000));
        let mut listed: Vec<Listed> = try_join_all(hours).await?.into_iter().flatten().collect();
        listed.retain(|event| {
            span.is_ahead(event)
                && (args.event_type.is_empty() || args.event_type.contains(&event.kind))
        });
        if args.reverse {
            listed.sort_by(|a, b| a.id.cmp(&b.id));
        } else {
            listed.sort_by_key(|event| Reverse(event.id.clone()));
        }
        for event in listed {
            let Some(row) = inbox.ledger.event(&event.key).await? else {
                continue;
            };
            let shown = view(&row, &inbox.config);
            if !args.status.is_empty() && !args.status.contains(&shown.status) {
                continue;
            }
            if events.len() == limit {
                return Ok((events, true));
            }
            events.push(shown);
        }
    }
    Ok((events, false))
}

fn chosen<'i>(inbox: &'i Inbox, args: &'i ListArgs) -> Result<Vec<&'i str>, CliError> {
    if args.source.is_empty() {
        return Ok(inbox.sources());
    }
    known_sources(inbox, &args.source)
}

/// The sources that were asked for, if there are such.
pub(super) fn known_sources<'i>(
    inbox: &Inbox,
    asked: &'i [String],
) -> Result<Vec<&'i str>, CliError> {
    let known = inbox.sources();
    for name in asked {
        if !known.contains(&name.as_str()) {
            let error = CliError::usage(
                "usage.source",
                format!("there is no source '{name}' in {}", inbox.name),
            );
            return Err(
                match crate::output::error::nearest(name, known.iter().copied()) {
                    Some(meant) => error.tip(format!("did you mean '{meant}'?")),
                    None => error.tip(format!("one of: {}", known.join(", "))),
                },
            );
        }
    }
    Ok(asked.iter().map(String::as_str).collect())
}

fn asked(args: &ListArgs) -> String {
    let or_any = |words: Vec<String>| {
        if words.is_empty() {
            "any".to_owned()
        } else {
            words.join(",")
        }
    };
    format!(
        "source={}, type={}, status={}",
        or_any(args.source.clone()),
        or_any(args.event_type.clone()),
        or_any(args.status.iter().map(ToString::to_string).collect())
    )
}
