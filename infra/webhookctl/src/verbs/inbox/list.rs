//! `inbox list`

use shared::clock::Millis;

use super::view;
use crate::cli::{Global, ListArgs};
use crate::inspect::{EventRow, columns};
use crate::output::table::thousands;
use crate::output::{Exit, List, Printer, time};
use crate::place::Inbox;
use crate::selection::{Cost, Found, Position, Selection, Want};

pub(in crate::verbs) async fn list(
    args: ListArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Inbox::open(global)?;
    let now = Millis::now().0;
    let selection = Selection::new(&args.selection, &inbox, now)?;
    let want = Want {
        limit: args.limit as usize,
        reverse: args.reverse,
        after: args.after.as_deref().map(Position::parse).transpose()?,
    };
    let found = selection
        .find_saying(&inbox, want.clone(), &mut |line| out.say(line))
        .await?;
    let next_cursor = found.rows.last().filter(|_| found.more);
    let next_cursor = next_cursor.map(|row| Position::of(row).text());
    let items: Vec<EventRow> = found
        .rows
        .iter()
        .map(|row| EventRow::new(&view(row, &inbox.config), now))
        .collect();
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
        columns: columns(now),
        id: "id",
        truncated: found.more,
        next_cursor,
        footer: Some(footer),
        empty: format!("No events match ({}).", selection.asked()),
        tip: Some(if items.is_empty() {
            "widen with --since 7d".to_owned()
        } else {
            "webhookctl inbox inspect <ID>   (any unique prefix of an ID works)".to_owned()
        }),
        items,
    })?;
    Ok(Exit::Done)
}

/// `8 newest since 09:10`, or `all 8` where no more match.
fn counted(found: &Found, want: &Want, selection: &Selection) -> String {
    let count = thousands(found.rows.len() as u64);
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

/// `prod · eu-west-1`
fn place(inbox: &Inbox, global: &Global) -> String {
    match &global.region {
        Some(region) if inbox.local.is_none() => format!("{} · {region}", inbox.name),
        _ => inbox.name.clone(),
    }
}

/// `0.5 read units`
fn read_units(cost: Cost) -> String {
    format!("{:.1} read units", cost.read_units)
}
