//! `quarantine list`: lists rejected requests, grouped or one by one.

use futures::future::try_join_all;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::rejected::{DailyQuota, RejectedRequest};

use super::finding::Found;
use super::group::{self, Group};
use super::reach::Keys;
use super::{asked, chosen, range, sources};
use crate::cli::{Global, HeldListArgs};
use crate::output::count::thousands;
use crate::output::time::{DAY_MS, rfc3339};
use crate::output::{Column, Exit, Format, List, Printer};
use crate::target::Deployment;

pub(super) async fn list(
    args: HeldListArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let held = chosen(&inbox, &args.selection, now).await?;
    let keys = match Keys::read(&inbox, global, &args.secrets_at, now).await {
        Ok(keys) => Some(keys),
        Err(error) => {
            out.say(&format!(
                "requests are not checked, because the secrets cannot be read: {error:#}"
            ));
            None
        }
    };
    let found: Vec<Found<'_>> = held
        .iter()
        .map(|held| Found::new(held, &inbox.config, keys.as_ref()))
        .collect();
    for line in spent(
        &inbox,
        &sources(&inbox, &args.selection.received.source)?,
        now,
    )
    .await?
    {
        out.say(&line);
    }
    if args.flat || out.format == Format::Ids {
        flat(&inbox, &args, &found, now, out)?;
    } else {
        grouped(&inbox, &args, &found, now, out)?;
    }
    Ok(Exit::Done)
}

fn grouped(
    inbox: &Deployment,
    args: &HeldListArgs,
    found: &[Found<'_>],
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let items = Group::all(found, now);
    let genuine = items.iter().find(|group| group.has_genuine());
    let tip = match (genuine, items.first()) {
        (Some(group), _) => Some(format!(
            "webhookctl quarantine reverify --source {} --dry-run",
            group.source()
        )),
        (None, Some(_)) => Some("webhookctl quarantine list --flat".to_owned()),
        (None, None) => None,
    };
    out.list(&List {
        empty: empty(args),
        tip,
        range: Some(range(&args.selection, now)),
        ..List::new(
            "quarantine.list",
            &inbox.name,
            now,
            group::columns(now.0),
            items,
        )
    })
}

fn flat(
    inbox: &Deployment,
    args: &HeldListArgs,
    found: &[Found<'_>],
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let limit = args.limit as usize;
    let items: Vec<HeldRow> = found.iter().take(limit).map(HeldRow::new).collect();
    let tip = items
        .first()
        .map(|row| format!("webhookctl quarantine inspect {}", row.id));
    let truncated = found.len() > items.len();
    let footer = truncated.then(|| {
        format!(
            "{} newest of {}; narrow it with --since and --until, or raise -n",
            items.len(),
            found.len()
        )
    });
    out.list(&List {
        truncated,
        footer,
        empty: empty(args),
        tip,
        range: Some(range(&args.selection, now)),
        ..List::new(
            "quarantine.requests",
            &inbox.name,
            now,
            columns(now.0),
            items,
        )
    })
}

fn empty(args: &HeldListArgs) -> String {
    format!(
        "No rejected requests ({}); they are deleted after a week.",
        asked(&args.selection)
    )
}

/// Returns what the catcher counted on each of the last seven days.
pub(in crate::verbs) async fn tallies(
    inbox: &Deployment,
    source: &str,
    now: UnixMillis,
) -> anyhow::Result<Vec<DailyQuota>> {
    let days: Vec<UnixMillis> = (0..7)
        .map(|days| UnixMillis(now.0 - days * DAY_MS))
        .collect();
    inbox.quarantine.tallies(source, &days).await
}

/// Describes the days on which the catcher rejected more requests than the quarantine stores, by
/// source, newest first.
async fn spent(
    inbox: &Deployment,
    sources: &[String],
    now: UnixMillis,
) -> anyhow::Result<Vec<String>> {
    let read = sources.iter().map(|source| tallies(inbox, source, now));
    let read = try_join_all(read).await?;
    let lines = read
        .iter()
        .flat_map(|days| days.iter().rev().filter_map(line));
    Ok(lines.collect())
}

fn line(tally: &DailyQuota) -> Option<String> {
    let DailyQuota {
        source,
        day,
        requests,
        too_large,
        bytes,
        ..
    } = tally;
    let spent = tally.is_spent();
    let kept = requests.saturating_sub(*too_large);
    let large = match too_large {
        0 => String::new(),
        _ => format!(", {too_large} too large to store"),
    };
    let end = if spent {
        "; the daily limit is reached, and later requests were not stored"
    } else {
        ""
    };
    let bytes = thousands(*bytes);
    let said = format!("{source}, {day}: {kept} kept, {bytes} bytes{large}{end}");
    (spent || *too_large > 0).then_some(said)
}

/// A rejected request as one row.
#[derive(Serialize)]
pub(super) struct HeldRow {
    pub(super) id: String,
    source: String,
    reason: String,
    status: &'static str,
    received_at: String,
    address: Option<String>,
    body_bytes: u64,
    stored_bytes: u64,
    finding: String,
    secret: Option<String>,
    event: Option<String>,
}

impl HeldRow {
    pub(super) fn new(found: &Found<'_>) -> Self {
        let held = found.held;
        Self {
            id: held.id.to_string(),
            source: held.source.clone(),
            reason: held.reason.clone(),
            status: status(held),
            received_at: rfc3339(held.received_at.0),
            address: held.address().map(str::to_owned),
            body_bytes: held.body_len,
            stored_bytes: held.stored,
            finding: found.text(),
            secret: found.secret().map(str::to_owned),
            event: held
                .released
                .as_ref()
                .and_then(|released| released.key.clone()),
        }
    }
}

pub(super) fn status(held: &RejectedRequest) -> &'static str {
    if held.released.is_some() {
        "released"
    } else {
        "quarantined"
    }
}

fn columns(now: i64) -> Vec<Column<'static, HeldRow>> {
    vec![
        Column::age("AGE", "received_at", now),
        Column::id("id"),
        Column::whole("SOURCE", "source"),
        Column::whole("REASON", "reason"),
        Column::status("status"),
        Column::text("FROM", "address", 12).lesser(),
        Column::whole("BYTES", "body_bytes").right().lesser(),
        Column::text("FINDING", "finding", 16).essential(),
        Column::whole("EVENT", "event").extra(),
    ]
}
