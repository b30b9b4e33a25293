//! `sources list`: lists the sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Waiting;
use shared::sources::{Config, Source};

use super::health::{Checked, Health};
use super::pause::Pause;
use super::rotation::{Rotation, Told};
use super::traffic::{self, MOST};
use super::{Known, secrets};
use crate::cli::{Global, SourcesListArgs};
use crate::output::count::Count;
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

#[derive(Serialize)]
struct SourceRow {
    source: String,
    preset: String,
    variant: String,
    /// How the events arrive: `webhook`, or `webhook+sync`.
    by: &'static str,
    /// What the signature of the source proves.
    proves: &'static str,
    actions: Vec<String>,
    /// The name of the source's secret.
    secret: String,
    #[serde(flatten)]
    seen: Option<Seen>,
}

/// Facts about a source that are read from the inbox.
#[derive(Serialize)]
struct Seen {
    last_event_at: Option<String>,
    last_24h: Count,
    open: Count,
    dead_letters: Count,
    /// The number of live secrets. It is unknown if their store cannot be read.
    live_secrets: Option<usize>,
    health: Health,
    paused: Option<Pause>,
    rotation: Option<Told>,
    note: Option<String>,
}

pub(super) async fn list(
    args: SourcesListArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let known = Known::open(&args.at, global).await?;
    let (mut rows, footer, context) = match &known {
        Known::Config(config, said) => {
            let footer = format!("configuration {}: {said}", config.hash());
            (rows(config), footer, "configuration")
        }
        Known::Inbox(inbox) => {
            let mut rows = rows(&inbox.config);
            let live = secrets::live(inbox, global, &args.secrets_at, now).await;
            if let Err(error) = &live {
                out.say(&format!("the secrets cannot be read: {error:#}"));
            }
            see(inbox, &mut rows, live.ok().as_ref(), now).await?;
            let mut footer = format!("{} sources · {}", rows.len(), inbox.name);
            if let Some(version) = inbox.version {
                let _ = write!(footer, " · version {version}");
            }
            (rows, footer, inbox.name.as_str())
        }
    };
    rows.sort_by(|a, b| a.source.cmp(&b.source));
    let online = matches!(known, Known::Inbox(_));
    out.list(&List {
        id: "source",
        tip: rows
            .first()
            .map(|row| format!("webhookctl sources show {}", row.source)),
        footer: Some(footer),
        empty: "No sources are configured.".to_owned(),
        ..List::new("sources.list", context, now, columns(now.0, online), rows)
    })?;
    Ok(Exit::Done)
}

fn rows(config: &Config) -> Vec<SourceRow> {
    let row = |source: &Source| {
        let verifier = &source.verifier;
        let scheme = verifier.preset.scheme(&verifier.variant);
        SourceRow {
            source: source.name.clone(),
            preset: verifier.preset.id.clone(),
            variant: verifier.variant.clone(),
            by: by(source),
            proves: scheme.map_or("nothing", |scheme| scheme.proves.as_str()),
            actions: source.actions.iter().map(|a| a.name.clone()).collect(),
            secret: source.secret.clone(),
            seen: None,
        }
    };
    config.sources().map(row).collect()
}

/// Describes how the events of a source arrive.
pub(super) fn by(source: &Source) -> &'static str {
    if source.sync.is_some() {
        "webhook+sync"
    } else {
        "webhook"
    }
}

async fn see(
    inbox: &Deployment,
    rows: &mut [SourceRow],
    live: Option<&BTreeMap<String, secrets::Live>>,
    now: UnixMillis,
) -> anyhow::Result<()> {
    let open = traffic::waiting(inbox, Waiting::Open, now).await?;
    let dead = traffic::waiting(inbox, Waiting::Dead, now).await?;
    for row in rows {
        let (events, more) = traffic::last_day(&inbox.ledger, &row.source, now, MOST).await?;
        let last = events.first().map(|event| event.received_at.0);
        let count = live.map(|live| live.get(&row.source).map_or(0, Vec::len));
        let dead = traffic::of(&dead, &row.source);
        let checked = match inbox.config.source(&row.source) {
            Some(source) => Checked::read(inbox, source, count, dead.count, now).await?,
            None => continue,
        };
        row.seen = Some(Seen {
            last_event_at: last.map(rfc3339),
            last_24h: Count {
                count: events.len() as u64,
                or_more: more,
            },
            open: traffic::of(&open, &row.source),
            dead_letters: dead,
            live_secrets: count,
            health: checked.health,
            paused: checked.pause,
            rotation: checked.rotation.as_ref().map(Rotation::told),
            note: checked.note,
        });
    }
    Ok(())
}

fn columns(now: i64, online: bool) -> Vec<Column<'static, SourceRow>> {
    let mut columns = vec![
        Column::whole("SOURCE", "source").essential(),
        Column::whole("PRESET", "preset").lesser(),
    ];
    if online {
        let seen = |row: &SourceRow, show: &dyn Fn(&Seen) -> String| {
            row.seen.as_ref().map(show).unwrap_or_default()
        };
        columns.extend([
            Column::age("LAST", "last_event_at", now),
            Column::whole("24H", "last_24h.count")
                .right()
                .lesser()
                .shown(move |row| seen(row, &|seen| seen.last_24h.to_string())),
            Column::whole("OPEN", "open.count")
                .right()
                .shown(move |row| seen(row, &|seen| seen.open.to_string())),
            Column::whole("DEAD", "dead_letters.count")
                .right()
                .shown(move |row| seen(row, &|seen| seen.dead_letters.to_string())),
            Column::whole("SECRETS", "live_secrets")
                .right()
                .lesser()
                .shown(move |row| {
                    seen(row, &|seen| {
                        seen.live_secrets
                            .map_or("?".to_owned(), |count| count.to_string())
                    })
                }),
        ]);
    } else {
        columns.extend([
            Column::text("VARIANT", "variant", 8),
            Column::whole("PROVES", "proves"),
            Column::text("SECRET", "secret", 12),
            Column::text("ACTIONS", "actions", 12),
        ]);
    }
    columns.push(Column::whole("BY", "by").lesser());
    if online {
        columns.push(Column::whole("HEALTH", "health").essential());
        columns.push(Column::text("NOTE", "note", 16));
    }
    columns
}
