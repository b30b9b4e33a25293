//! `sources list`: lists the sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use shared::base::calendar::Hour;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{FlagKind, Waiting};
use shared::sources::{Config, Source};

use super::health::{Checked, Health, Stored};
use super::pause::Pause;
use super::rotation::{Rotation, Told};
use super::traffic;
use super::{Known, secrets};
use crate::cli::{By, Global, SelectionArgs, SourcesListArgs};
use crate::output::count::{Count, plural};
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;
use crate::verbs::missing_paths::{missing_paths, note};
use crate::verbs::stats::{self, Chosen, Counts, PARTS, arrivals};
use crate::verbs::sync::facts::Facts;

/// The number of concurrent reads.
const AT_ONCE: usize = 32;

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
            let mut footer = format!("{} · {}", plural(rows.len(), "source"), inbox.name);
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

/// Reads the facts of all sources at once. The numbers of events come from the counts of past hours,
/// as in `inbox stats`.
async fn see(
    inbox: &Deployment,
    rows: &mut [SourceRow],
    live: Option<&BTreeMap<String, secrets::Live>>,
    now: UnixMillis,
) -> anyhow::Result<()> {
    let chosen = Chosen::of(&SelectionArgs::default(), inbox, now)?;
    let sources: Vec<&Source> = inbox.config.sources().collect();
    let ledger = &inbox.ledger;
    let operations = ledger.operations();
    let (counts, dead, facts, pauses, rotations, missing) = tokio::join!(
        Box::pin(arrivals(inbox, &chosen, (By::Source, PARTS), now)),
        traffic::waiting(inbox, Waiting::Dead, now),
        Box::pin(Facts::all(ledger, &sources, now)),
        operations.flags(FlagKind::Pause("")),
        operations.flags(FlagKind::Rotation("")),
        missing_paths(inbox, now),
    );
    let missing = missing?;
    let (counts, dead, mut facts) = (counts?, dead?, facts?);
    let ((mut pauses, _), (rotations, _)) = (pauses?, rotations?);
    let open = stats::open(inbox, &chosen, Some(&counts.live), now).await?;
    let last = last_events(inbox, &counts, &facts, now).await?;
    for row in rows {
        let Some(source) = inbox.config.source(&row.source) else {
            continue;
        };
        let flag = rotations.get(&source.secret);
        let stored = Stored {
            pause: pauses.remove(&row.source).map(Pause::read),
            rotation: flag
                .map(|flag| Rotation::read(&source.secret, flag))
                .transpose()?,
            silence: facts
                .remove(&row.source)
                .and_then(|facts| facts.silence.note()),
            missing: note(&missing, &row.source, now),
        };
        let count = live.map(|live| live.get(&row.source).map_or(0, Vec::len));
        let dead = traffic::of(&dead, &row.source);
        let checked = Checked::of(source, stored, count, dead.count, now);
        let of_source = counts.arrived.iter();
        let of_source = of_source.filter(|((of, _), _)| *of == row.source);
        let mut last_24h = Count::default();
        for (_, arrived) in of_source {
            last_24h.count += arrived.events;
            last_24h.or_more |= arrived.or_more;
        }
        row.seen = Some(Seen {
            last_event_at: last.get(&row.source).map(|at| rfc3339(at.0)),
            last_24h,
            open: open.of(&row.source),
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

/// Returns when the last event of each source arrived, within the last day.
async fn last_events(
    inbox: &Deployment,
    counts: &Counts,
    facts: &BTreeMap<String, Facts>,
    now: UnixMillis,
) -> anyhow::Result<BTreeMap<String, UnixMillis>> {
    let mut last: BTreeMap<String, UnixMillis> = BTreeMap::new();
    for of_source in &counts.live.entries {
        // Not all partitions of a counted hour are read, so the newest webhook that backup-sync knows
        // can be newer.
        let facts = facts.get(&of_source.source);
        let webhook = facts.filter(|_| of_source.is_spread);
        let webhook = webhook.and_then(|facts| facts.last_webhook);
        let found = of_source.found.iter().map(|event| event.received_at);
        for received_at in found.chain(webhook) {
            let at = last.entry(of_source.source.clone()).or_default();
            *at = (*at).max(received_at);
        }
    }
    let hours = counts.arrived.keys();
    let hours: BTreeMap<&str, Hour> = hours
        .map(|(source, hour)| (source.as_str(), *hour))
        .collect();
    let mut asked = Vec::new();
    for (source, hour) in hours {
        if last.contains_key(source) {
            continue;
        }
        // backup-sync stores when the last webhook arrived. Only an event that another way brought
        // must be searched.
        let webhook = facts.get(source).and_then(|facts| facts.last_webhook);
        match webhook.filter(|at| Hour::of(*at) == hour) {
            Some(at) => {
                last.insert(source.to_owned(), at);
            }
            None => asked.push((source, hour)),
        }
    }
    let active = &counts.live.active;
    let read = asked.into_iter().map(async |(source, hour)| {
        let span = (hour.begins(), UnixMillis(hour.ends().0 - 1).min(now));
        inbox.ledger.entries(active, source, span, 1).await
    });
    let read: Vec<_> = stream::iter(read)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    for of_source in read {
        let times = of_source.found.iter().map(|event| event.received_at);
        if let Some(at) = times.max() {
            last.insert(of_source.source, at);
        }
    }
    Ok(last)
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
