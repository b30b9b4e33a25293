//! `dlq list`: lists dead letters, grouped by error or one by one.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Row;
use shared::sources::Config;

use super::group::{self, Group, GroupRow, fingerprint, text};
use super::replay_safety::ReplaySafety;
use super::{MOST, dead_letters, died_at};
use crate::cli::{DlqListArgs, Global};
use crate::completion_cache::{self, Kind};
use crate::output::count::{plural, thousands};
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, Format, List, Printer};
use crate::selection::Position;
use crate::target::Deployment;

/// One dead letter.
#[derive(Serialize)]
struct DeadRow {
    id: String,
    source: String,
    #[serde(rename = "type")]
    event_type: String,
    status: &'static str,
    reason: Option<String>,
    attempt_count: u32,
    dedupe_key: String,
    received_at: String,
    dead_at: String,
    error_fingerprint: String,
    error: String,
    replay: ReplaySafety,
}

pub(super) async fn list(
    args: DlqListArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now().0;
    if args.flat || out.format == Format::Ids {
        flat(&inbox, &args, now, out).await?;
    } else {
        grouped(&inbox, &args, now, out).await?;
    }
    Ok(Exit::Done)
}

async fn grouped(
    inbox: &Deployment,
    args: &DlqListArgs,
    now: i64,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let found = dead_letters(inbox, &args.selection, MOST, None, now).await?;
    let groups = Group::all(&found.rows);
    let digits = Group::digits(&groups);
    let rows = groups
        .iter()
        .filter_map(|group| group.row(digits, &inbox.config, now));
    let (mut items, rest): (Vec<GroupRow>, Vec<GroupRow>) = rows.partition(GroupRow::is_open);
    let first = items.first();
    let tip = first.map(|group| format!("webhookctl dlq inspect {}", group.error()));
    let redrive = first.and_then(GroupRow::redrive);
    items.extend(rest);
    let errors: Vec<String> = items
        .iter()
        .map(|group| group.error().to_string())
        .collect();
    completion_cache::keep(&inbox.name, Kind::Error, &errors);
    let count = plural(found.rows.len(), "dead letter");
    let footer = if found.more {
        format!(
            "only the newest {} are shown; narrow the list with --source, --since and --until to \
             see others · {}",
            thousands(found.rows.len()),
            inbox.name
        )
    } else {
        format!(
            "{count} in {} · {}",
            plural(items.len(), "error"),
            inbox.name
        )
    };
    out.list(&List {
        truncated: found.more,
        footer: Some(footer),
        empty: "No dead letters match.".to_owned(),
        tip,
        ..List::new(
            "dlq.list",
            &inbox.name,
            UnixMillis(now),
            group::columns(now),
            items,
        )
    })?;
    if let Some(redrive) = redrive {
        out.tip(&redrive);
    }
    Ok(())
}

async fn flat(
    inbox: &Deployment,
    args: &DlqListArgs,
    now: i64,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let after = args.after.as_deref().map(Position::parse).transpose()?;
    let limit = args.limit as usize;
    let found = dead_letters(inbox, &args.selection, limit, after, now).await?;
    let next_cursor = found.rows.last().filter(|_| found.more);
    let next_cursor = next_cursor.map(|row| Position::of(row).text());
    let items = found
        .rows
        .iter()
        .map(|row| DeadRow::new(row, &inbox.config, now));
    let items: Vec<DeadRow> = items.collect();
    let mut footer = format!("{} · {}", plural(items.len(), "dead letter"), inbox.name);
    if let Some(cursor) = &next_cursor {
        footer = format!("{footer} · next: --after {cursor}");
    }
    let tip = items
        .first()
        .map(|row| format!("webhookctl dlq inspect {}", row.id));
    out.list(&List {
        truncated: found.more,
        next_cursor,
        footer: Some(footer),
        empty: "No dead letters match.".to_owned(),
        tip,
        ..List::new(
            "dlq.events",
            &inbox.name,
            UnixMillis(now),
            columns(now),
            items,
        )
    })
}

impl DeadRow {
    fn new(row: &Row, config: &Config, now: i64) -> Self {
        Self {
            id: row.id().to_string(),
            source: row.key.source().to_owned(),
            event_type: row.kind.clone(),
            status: row.state.as_str(),
            reason: row.reason.clone(),
            attempt_count: row.attempts,
            dedupe_key: row.key.id().to_owned(),
            received_at: rfc3339(row.received_at.0),
            dead_at: rfc3339(died_at(row)),
            error_fingerprint: fingerprint(row).short().to_owned(),
            error: text(row).to_owned(),
            replay: ReplaySafety::of(row, config, now),
        }
    }
}

fn columns(now: i64) -> Vec<Column<'static, DeadRow>> {
    vec![
        Column::age("DIED", "dead_at", now),
        Column::id("id"),
        Column::whole("SOURCE", "source"),
        Column::text("TYPE", "type", 12).lesser(),
        Column::whole("ERROR", "error_fingerprint"),
        Column::text("MESSAGE", "error", 16).essential(),
        Column::whole("REPLAY", "replay").essential(),
        Column::whole("TRIES", "attempt_count").right().extra(),
        Column::whole("REASON", "reason").dash().extra(),
        Column::whole("RECEIVED", "received_at").extra(),
        Column::text("DEDUPE KEY", "dedupe_key", 12).extra(),
    ]
}
