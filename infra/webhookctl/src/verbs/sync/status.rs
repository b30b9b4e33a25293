//! `sync status`: shows the sync state of each source.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::sources::Source;

use super::facts::{Facts, Silence, percent, standing};
use crate::cli::{Global, SyncStatusArgs};
use crate::output::time::{age, duration, rfc3339};
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

/// The sync state of a source.
#[derive(Serialize)]
struct StatusRow {
    source: String,
    state: &'static str,
    /// The time before which the ledger has all events that the provider listed.
    cursor: Option<String>,
    /// The seconds from the cursor until now.
    lag_s: Option<u64>,
    last_run_ended_at: Option<String>,
    looks_back_s: Option<u64>,
    lease: Option<Lease>,
    paused: Option<Paused>,
    /// The number of events since the beginning of yesterday, within the time that the sync has
    /// checked.
    seen: u64,
    missed: u64,
    miss_rate_percent: Option<f64>,
    silence: Silence,
    note: Option<String>,
}

#[derive(Serialize)]
struct Lease {
    owner: String,
    until: String,
    expired: bool,
}

/// An interrupted run. The next run continues at its next page.
#[derive(Serialize)]
struct Paused {
    began_at: String,
    asks_from: String,
}

pub(super) async fn status(
    args: SyncStatusArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let sources = super::sources(&inbox, &args.source)?.into_iter();
    let sources: Vec<&Source> = sources
        .filter_map(|name| inbox.config.source(name))
        .collect();
    let mut facts = Facts::all(&inbox.ledger, &sources, now).await?;
    let items = sources.iter().filter_map(|source| {
        let facts = facts.remove(&source.name)?;
        Some(StatusRow::new(source, facts, now))
    });
    let items: Vec<StatusRow> = items.collect();
    let synced = items.iter().filter(|row| row.state != "no sync").count();
    out.list(&List {
        id: "source",
        footer: Some(format!(
            "{synced} of {} sources are synced · {}",
            items.len(),
            inbox.name
        )),
        empty: "No sources are configured.".to_owned(),
        tip: Some("webhookctl sync coverage".to_owned()),
        ..List::new("sync.status", &inbox.name, now, columns(now.0), items)
    })?;
    Ok(Exit::Done)
}

impl StatusRow {
    fn new(source: &Source, facts: Facts, now: UnixMillis) -> Self {
        let state = facts.state.as_ref();
        let cursor = state.and_then(|state| state.cursor);
        let ended = state.and_then(|state| state.ended);
        let held = state.and_then(|state| state.lease.as_ref());
        let paused = state.and_then(|state| state.paused);
        let row = Self {
            source: source.name.clone(),
            state: standing(state, source.sync.is_some(), now),
            cursor: cursor.map(|at| rfc3339(at.0)),
            lag_s: cursor.map(|at| now.since(at).as_secs()),
            last_run_ended_at: ended.map(|at| rfc3339(at.0)),
            looks_back_s: source.sync.as_ref().map(|sync| sync.overlap.as_secs()),
            lease: held.map(|(owner, until)| Lease {
                owner: owner.clone(),
                until: rfc3339(until.0),
                expired: *until <= now,
            }),
            paused: paused.map(|(began, from)| Paused {
                began_at: rfc3339(began.0),
                asks_from: rfc3339(from.0),
            }),
            seen: facts.lately.all(),
            missed: facts.lately.sync,
            miss_rate_percent: facts.lately.miss_rate(),
            silence: facts.silence,
            note: None,
        };
        Self {
            note: row.noted(ended, now),
            ..row
        }
    }

    /// Returns a note beside the numbers.
    fn noted(&self, ended: Option<UnixMillis>, now: UnixMillis) -> Option<String> {
        let mut notes = Vec::new();
        if let (Some(paused), "paused") = (&self.paused, self.state) {
            notes.push(format!("paused in a run that began {}", paused.began_at));
        }
        if let Some(lease) = &self.lease {
            let word = if lease.expired {
                "lease expired, last held by"
            } else {
                "lease held by"
            };
            notes.push(format!("{word} {}", lease.owner));
        }
        if self.state == "late"
            && let Some(ended) = ended
        {
            notes.push(format!("no complete run for {}", age(ended.0, now.0)));
        }
        notes.extend(self.silence.note());
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

fn columns(now: i64) -> Vec<Column<'static, StatusRow>> {
    let span = |seconds: Option<u64>| seconds.map_or("-".to_owned(), duration);
    vec![
        Column::whole("SOURCE", "source").essential(),
        Column::whole("STATE", "state").essential(),
        Column::age("LAST RUN", "last_run_ended_at", now),
        Column::whole("LAG", "lag_s")
            .right()
            .shown(move |row: &StatusRow| span(row.lag_s)),
        Column::whole("LOOKS BACK", "looks_back_s")
            .right()
            .lesser()
            .shown(move |row: &StatusRow| span(row.looks_back_s)),
        Column::count("SEEN", "seen"),
        Column::count("MISSED", "missed"),
        Column::whole("RATE", "miss_rate_percent")
            .right()
            .shown(|row: &StatusRow| percent(row.miss_rate_percent)),
        Column::text("NOTE", "note", 16).lesser(),
    ]
}
