//! `endpoint`: shows whether the providers' subscriptions still point to this inbox.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::monitoring::endpoint::{Health, Status};
use shared::sources::Source;

use crate::audit::{self, Change};
use crate::cli::{EndpointCommand, EndpointEnableArgs, EndpointShowArgs, Global};
use crate::output::count::plural;
use crate::output::time::rfc3339;
use crate::output::{CliError, Column, Exit, List, Printer};
use crate::run_task::run_task;
use crate::target::Deployment;

#[derive(Serialize)]
struct Row {
    source: String,
    /// The state of the endpoint. It is `unknown` before the first check.
    health: String,
    since: Option<String>,
    dark_since: Option<String>,
    checked_at: Option<String>,
    subscription: Option<String>,
    missing_events: Vec<String>,
    note: Option<String>,
}

/// The answer of backup-sync to a request to enable an endpoint.
#[derive(Serialize, Deserialize)]
struct Enabled {
    did: Option<String>,
    status: Status,
    synced: Option<Synced>,
}

#[derive(Serialize, Deserialize)]
struct Synced {
    from: String,
    complete: bool,
    found: u64,
}

pub(super) async fn run(
    command: EndpointCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        EndpointCommand::Show(args) => Box::pin(show(args, global, out)).await,
        EndpointCommand::Enable(args) => Box::pin(enable(args, global, out)).await,
    }
}

async fn show(args: EndpointShowArgs, global: &Global, out: &mut Printer) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    if args.now {
        inbox.may_write("store the result of an endpoint check")?;
    }
    let watched = watched(&inbox, args.source.as_deref())?;
    if args.now {
        let task = json!({"task": "endpoints", "source": args.source});
        run_task(&inbox, global, &args.function_at, &task).await?;
    }
    let now = UnixMillis::now();
    let mut rows = Vec::new();
    for source in watched {
        let status = inbox
            .ledger
            .provider_reports()
            .endpoint(&source.name)
            .await?;
        rows.push(row(&source.name, status));
    }
    let bad = rows
        .iter()
        .find(|row| row.health != Health::Good.as_str() && row.checked_at.is_some());
    let bad = bad.map(|row| row.source.clone());
    out.list(&List {
        id: "source",
        empty: "No endpoint is monitored; add [source.endpoint] to a source in infra/sources.toml."
            .to_owned(),
        tip: bad
            .as_ref()
            .map(|source| format!("webhookctl endpoint enable {source} --confirm {source} -m WHY")),
        ..List::new("endpoint.show", &inbox.name, now, columns(now.0), rows)
    })?;
    Ok(if bad.is_some() { Exit::No } else { Exit::Done })
}

fn row(source: &str, status: Option<Status>) -> Row {
    let Some(status) = status else {
        return Row {
            source: source.to_owned(),
            health: "unknown".to_owned(),
            since: None,
            dark_since: None,
            checked_at: None,
            subscription: None,
            missing_events: Vec::new(),
            note: None,
        };
    };
    Row {
        source: status.source,
        health: status.finding.health.to_string(),
        since: Some(rfc3339(status.since.0)),
        dark_since: status.dark_since.map(|at| rfc3339(at.0)),
        checked_at: Some(rfc3339(status.checked_at.0)),
        subscription: status.finding.subscription,
        missing_events: status.finding.missing_events,
        note: status.finding.note,
    }
}

fn columns(now: i64) -> Vec<Column<'static, Row>> {
    vec![
        Column::whole("SOURCE", "source").essential(),
        Column::whole("HEALTH", "health").essential(),
        Column::age("SINCE", "since", now),
        Column::age("CHECKED", "checked_at", now),
        Column::text("SUBSCRIPTION", "subscription", 10).dash(),
        Column::text("NOTE", "note", 12).shown(|row: &Row| {
            let missing = (!row.missing_events.is_empty())
                .then(|| format!("not subscribed: {}", row.missing_events.join(", ")));
            let said = missing.into_iter().chain(row.note.clone());
            said.collect::<Vec<_>>().join("; ")
        }),
    ]
}

async fn enable(
    args: EndpointEnableArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("endpoint.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("enable an endpoint")?;
    let name = args.source.as_str();
    let watched = watched(&inbox, Some(name))?;
    if args.confirm.as_deref() != Some(name) {
        return Err(CliError::refused("endpoint.confirm", format!(
            "this changes the subscription at the provider; confirm the source: --confirm {name}"
            ),
        )
        .into());
    }
    let who = Change {
        what: "endpoint.enable",
        why: reason,
        selection: if args.add_types {
            format!("{name}, with --add-types")
        } else {
            name.to_owned()
        },
        count: 1,
    }
    .record(&inbox)
    .await?;
    let task = json!({"task": "enable", "source": name, "add_types": args.add_types});
    let answer = run_task(&inbox, global, &args.function_at, &task).await?;
    let enabled: Enabled =
        serde_json::from_value(answer).context("parse the answer of backup-sync")?;
    let has_sync = watched.iter().any(|source| source.sync.is_some());
    let text = text(&enabled, has_sync, &who);
    out.document("endpoint.enable", &enabled, name, &text)?;
    Ok(match enabled.status.finding.health {
        Health::Good => Exit::Done,
        _ => Exit::No,
    })
}

fn text(enabled: &Enabled, has_sync: bool, who: &str) -> String {
    let status = &enabled.status;
    let mut text = match &enabled.did {
        None => format!(
            "the endpoint of {} is healthy; nothing was changed\n",
            status.source
        ),
        Some(did) => format!("{}: {did}, by {who}\n", status.source),
    };
    if enabled.did.is_none() {
        return text;
    }
    let _ = writeln!(text, "  the endpoint is now {}", status.finding.health);
    let Some(dark) = status.dark_since else {
        return text;
    };
    let _ = writeln!(
        text,
        "  the endpoint has not delivered since {}",
        rfc3339(dark.0)
    );
    let _ = match (&enabled.synced, has_sync) {
        (Some(synced), _) if synced.complete => writeln!(
            text,
            "  the sync from {} found {}",
            synced.from,
            plural(synced.found, "missed event")
        ),
        (Some(synced), _) => writeln!(
            text,
            "  the sync from {} has found {} so far; the next sync continues",
            synced.from,
            plural(synced.found, "missed event")
        ),
        (None, true) => writeln!(
            text,
            "  when the endpoint is healthy again, the next sync finds the missed events"
        ),
        (None, false) => writeln!(
            text,
            "  the source has no sync; ask the provider to send the events after this time again"
        ),
    };
    text
}

/// Returns the sources with a monitored endpoint. Returns an error if the source `only` does not
/// have one.
fn watched<'i>(inbox: &'i Deployment, only: Option<&str>) -> Result<Vec<&'i Source>, CliError> {
    let all = inbox.config.sources();
    let fits =
        |source: &&Source| source.endpoint.is_some() && only.is_none_or(|name| name == source.name);
    let found: Vec<_> = all.filter(fits).collect();
    match only {
        Some(name) if found.is_empty() => Err(CliError::not_found(
            "endpoint.unknown",
            format!("the endpoint of source '{name}' is not monitored"),
        )
        .note("only sources with [source.endpoint] are monitored")
        .tip("webhookctl endpoint show")),
        _ => Ok(found),
    }
}
