//! `sync run`: makes backup-sync request the provider's events now, or with `--dry-run` only report
//! what it would find.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::base::clock::UnixMillis;

use crate::cli::{Global, SyncRunArgs};
use crate::output::{CliError, Exit, Printer};
use crate::run_task::run_task;
use crate::target::Deployment;

/// The maximum number of missing events of a source in the text output. The JSON output has all of
/// them.
const SHOWN: usize = 20;

/// The result that backup-sync returns.
#[derive(Serialize, Deserialize)]
struct Ran {
    sources: Vec<Source>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the words of the document")]
struct Source {
    source: String,
    listed: u64,
    found: u64,
    asked: u64,
    gone: u64,
    complete: bool,
    skipped: bool,
    unreachable_s: u64,
    #[serde(default)]
    missing: Vec<Missing>,
}

#[derive(Serialize, Deserialize)]
struct Missing {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

pub(super) async fn run(
    args: SyncRunArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    if !args.dry_run {
        inbox.may_write("put events into the inbox")?;
    }
    synced(&inbox, args.source.as_deref())?;
    let now = UnixMillis::now().0;
    let lookback = args
        .lookback
        .map(|when| (now - when.millis(now)).max(0) / 1000);
    let task = json!({
        "task": "sync", "source": args.source, "dry_run": args.dry_run, "lookback_s": lookback,
    });
    let answer = run_task(&inbox, global, &args.function_at, &task).await?;
    let mut ran: Ran = serde_json::from_value(answer).context("parse the answer of backup-sync")?;
    ran.dry_run = args.dry_run;
    let names: Vec<_> = ran.sources.iter().map(|one| one.source.as_str()).collect();
    let names = names.join(" ");
    out.document("sync.run", &ran, &names, &text(&ran))?;
    let would_add = args.dry_run && ran.sources.iter().any(|one| one.found > 0);
    Ok(if would_add { Exit::No } else { Exit::Done })
}

/// Checks that the named source has a sync.
fn synced(inbox: &Deployment, only: Option<&str>) -> Result<(), CliError> {
    let mut with_sync = inbox
        .config
        .sources()
        .filter(|source| source.sync.is_some());
    match only {
        Some(name) if !with_sync.any(|source| source.name == name) => Err(CliError::not_found(
            "sync.unknown",
            format!("no source '{name}' has a [source.sync]"),
        )
        .tip("webhookctl sync status")),
        _ => Ok(()),
    }
}

fn text(ran: &Ran) -> String {
    let mut text = String::new();
    for one in &ran.sources {
        let _ = write!(text, "{}  ", one.source);
        if one.skipped {
            text.push_str("another run is in progress\n");
            continue;
        }
        let _ = write!(
            text,
            "{} listed, {} not in the inbox",
            one.listed, one.found
        );
        for (count, said) in [
            (one.asked, "requested again"),
            (one.gone, "no longer available"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {said}");
            }
        }
        if !one.complete {
            text.push_str(
                "; the run ended before it had read the whole list, and the next run continues",
            );
        }
        text.push('\n');
        if one.unreachable_s > 0 {
            let _ = writeln!(
                text,
                "  the provider no longer lists the events of {} s since the last run",
                one.unreachable_s
            );
        }
        for missing in one.missing.iter().take(SHOWN) {
            let at = missing.at.as_deref().unwrap_or("-");
            let _ = writeln!(text, "  {at}  {}  {}", missing.id, missing.kind);
        }
        let more = one.found - one.found.min(one.missing.len().min(SHOWN) as u64);
        if ran.dry_run && more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
    }
    if ran.sources.is_empty() {
        text.push_str("No source has a [source.sync].\n");
    } else if ran.dry_run {
        text.push_str("Nothing was added. The newest events may still arrive by webhook.\n");
    }
    text
}
