//! `inbox list`: lists stored events.

use std::collections::BTreeSet;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{FlagKind, Row};

use super::view;
use crate::cli::{Global, ListArgs};
use crate::inspect::{EventRow, account, columns};
use crate::output::aws::SoFar;
use crate::output::count::thousands;
use crate::output::{CliError, Column, Exit, Format, List, Printer, time};
use crate::selection::{Cost, Found, Position, Selection, Want, newest};
use crate::target::Deployment;

pub(in crate::verbs) async fn list(
    args: ListArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now().0;
    let mut shown = chosen(columns(now), &args.columns)?;
    let inbox = args.bodies_at.open(global).await?;
    let selection = Selection::new(&args.selection, &inbox, now)?;
    let want = Want {
        limit: args.limit as usize,
        reverse: args.reverse,
        after: args.after.as_deref().map(Position::parse).transpose()?,
    };
    let found = selection
        .find_saying(&inbox, want.clone(), &mut |line| out.say(line))
        .await
        .map_err(goes_on)?;
    let next_cursor = found.rows.last().filter(|_| found.more);
    let next_cursor = next_cursor.map(|row| Position::of(row).text());
    let paused = paused(&inbox, &found.rows).await?;
    let items = found.rows.iter().map(|row| {
        let mut event = view(row, &inbox.config);
        event.source_paused = paused.contains(row.key.source());
        inbox.seen.add(row.received_at, &row.key);
        EventRow::new(&event, now)
    });
    let items: Vec<EventRow> = items.collect();
    if args.columns.is_empty() {
        place_account(&mut shown, &items, out.format);
    }
    let tip = match items.first() {
        Some(_) => "webhookctl inbox inspect <ID>   (any unique prefix of an ID works)".to_owned(),
        None if out.tips() => widen(&inbox, now).await?,
        None => String::new(),
    };
    let mut footer = [
        counted(&found, &want, &selection),
        place(&inbox, global),
        read_units(found.cost),
    ]
    .join(" · ");
    if let Some(cursor) = &next_cursor {
        footer = format!("{footer} · next: --after {cursor}");
    }
    out.list(&List {
        command: "inbox.list",
        context: &inbox.name,
        as_of: time::rfc3339(now),
        columns: shown,
        id: "id",
        truncated: found.more,
        next_cursor,
        footer: Some(footer),
        empty: format!("No events match ({}).", selection.asked()),
        tip: Some(tip),
        range: selection.range(),
        items,
    })?;
    Ok(Exit::Done)
}

/// Adds to the error of an interrupted search that the search can continue, because `inbox list`
/// accepts `--after`.
fn goes_on(mut error: anyhow::Error) -> anyhow::Error {
    if let Some(so_far) = error.downcast_mut::<SoFar>() {
        so_far.takes_after = true;
    }
    error
}

/// Returns a tip for an empty list, which says when the newest event arrived.
async fn widen(inbox: &Deployment, now: i64) -> anyhow::Result<String> {
    let newest = newest(inbox, UnixMillis(now)).await?;
    Ok(match newest {
        Some(event) => format!(
            "the newest event arrived {} ago from {}; widen the list with --since 7d",
            time::age(event.received_at.0, now),
            event.key.source()
        ),
        None => "no event arrived in the last 24h; widen the list with --since 7d".to_owned(),
    })
}

/// Returns which of the sources with open events are paused.
async fn paused<'r>(inbox: &Deployment, rows: &'r [Row]) -> anyhow::Result<BTreeSet<&'r str>> {
    let open = rows.iter().filter(|row| row.is_open());
    let mut sources: BTreeSet<&str> = open.map(|row| row.key.source()).collect();
    if sources.is_empty() {
        return Ok(sources);
    }
    let operations = inbox.ledger.operations();
    let (paused, _) = operations.flags(FlagKind::Pause("")).await?;
    sources.retain(|source| paused.contains_key(*source));
    Ok(sources)
}

/// Returns the columns that `--columns` names, in that order. Without names, returns the default
/// columns.
fn chosen<'a>(
    mut all: Vec<Column<'a, EventRow>>,
    names: &[String],
) -> Result<Vec<Column<'a, EventRow>>, CliError> {
    if names.is_empty() {
        return Ok(all);
    }
    let known: Vec<&str> = all.iter().map(Column::field).collect();
    let mut shown = Vec::new();
    for name in names {
        let place = all.iter().position(|column| column.field() == name);
        let place = place.ok_or_else(|| {
            let message = format!("unknown or repeated column '{name}'");
            CliError::usage("usage.columns", message).tip(format!("one of: {}", known.join(", ")))
        })?;
        shown.push(all.remove(place).essential());
    }
    Ok(shown)
}

/// Shows the column of the account in a table only if an event has one. A CSV has it always, so that
/// its columns do not depend on its rows.
fn place_account(shown: &mut Vec<Column<'_, EventRow>>, items: &[EventRow], format: Format) {
    if format == Format::Csv {
        return;
    }
    shown.retain(|column| column.field() != "account");
    if items.iter().any(|event| event.account.is_some()) {
        let behind = shown.iter().position(|column| column.field() == "status");
        shown.insert(behind.unwrap_or(0), account());
    }
}

/// Describes the list, such as `8 newest since 09:10`, or `all 8` if no further events match.
fn counted(found: &Found, want: &Want, selection: &Selection) -> String {
    let count = thousands(found.rows.len());
    let what = match (found.more, &want.after, want.reverse) {
        (false, None, _) => format!("all {count}"),
        (false, Some(_), _) => format!("the last {count}"),
        (true, _, true) => format!("{count} oldest"),
        (true, _, false) => format!("{count} newest"),
    };
    format!("{what} {}", selection.since_words())
        .trim_end()
        .to_owned()
}

/// Returns the context and the Region, such as `prod · eu-west-1`.
fn place(inbox: &Deployment, global: &Global) -> String {
    match &global.target.region {
        Some(region) if inbox.local.is_none() => format!("{} · {region}", inbox.name),
        _ => inbox.name.clone(),
    }
}

/// Returns the cost of the command, such as `0.5 read units`.
fn read_units(cost: Cost) -> String {
    format!("{:.1} read units", cost.read_units)
}
