//! `erase`: deletes the payloads of events, and keeps their rows and audit records.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::base::timing::KEEP_ROW;
use shared::inbox::ledger::{By, Erased, Row};
use shared::sources::Config;

use crate::audit::{self, Change};
use crate::cli::{EraseArgs, Global, Received, SelectionArgs};
use crate::confirm::Confirmation;
use crate::output::count::{plural, thousands};
use crate::output::time::When;
use crate::output::{CliError, Exit, Printer, Progress};
use crate::selection::{Selection, Want};
use crate::target::Deployment;

#[derive(Serialize)]
struct Report {
    erased: usize,
    /// The events that were not erased, because a worker was processing them.
    processing: Vec<String>,
    events: Vec<String>,
    by: String,
    reason: String,
}

pub(super) async fn erase(
    args: EraseArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("erase.reason", &args.reason)?;
    if args.id.is_empty() && args.matching.is_empty() && args.account.is_empty() {
        let error = CliError::usage(
            "erase.nothing",
            "no events are selected: pass --id ID, --where PATH=VALUE or --account ACCOUNT",
        );
        return Err(error.into());
    }
    let inbox = args.bodies_at.open(global).await?;
    inbox.may_write("erase")?;
    let now = UnixMillis::now();
    let selection = selected(&inbox, &args, now)?;
    let all = Want {
        limit: usize::MAX,
        reverse: true,
        after: None,
    };
    let rows = selection
        .find_saying(&inbox, all, &mut |line| out.say(line))
        .await?
        .rows;
    if rows.is_empty() {
        out.say("No events match the selection.");
        return Ok(Exit::Done);
    }
    confirmed(&rows, args.confirm)?;

    let who = Change {
        what: "erase",
        why: reason,
        // The selection in the audit log omits the searched values, because these values must be
        // erased.
        selection: selection.words(),
        count: rows.len(),
    }
    .record(&inbox)
    .await?;
    let report = erase_all(&rows, &who, reason, &inbox, out).await?;
    out.document("erase", &report, "", &text(&report))?;
    Ok(if report.processing.is_empty() {
        Exit::Done
    } else {
        Exit::Refused
    })
}

async fn erase_all(
    rows: &[Row],
    who: &str,
    why: &str,
    inbox: &Deployment,
    out: &Printer,
) -> anyhow::Result<Report> {
    let by = By { who, why };
    let (mut events, mut processing) = (Vec::new(), Vec::new());
    let mut progress = Progress::new(out, "erased", rows.len());
    for row in rows {
        let id = row.id().to_string();
        let erased = inbox.ledger.erase(&row.key, by, UnixMillis::now()).await;
        match erased.with_context(|| format!("erase {id}; run the command again"))? {
            Erased::Gone | Erased::Missing => events.push(id),
            Erased::Processing => processing.push(id),
        }
        progress.step();
    }
    progress.end();
    Ok(Report {
        erased: events.len(),
        processing,
        events,
        by: who.to_owned(),
        reason: why.to_owned(),
    })
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{} erased by {}\n",
        plural(report.erased, "event"),
        report.by
    );
    if !report.processing.is_empty() {
        text = format!(
            "{text}{} not erased, because a worker is processing them: {}; try again in a minute\n",
            plural(report.processing.len(), "event"),
            report.processing.join(", ")
        );
    }
    text
}

fn confirmed(rows: &[Row], confirm: Option<usize>) -> Result<(), CliError> {
    let count = rows.len();
    let shown = rows.iter().take(10).map(|row| {
        let (id, source) = (row.id(), row.key.source());
        format!("{id}  {source}  {}  {}", row.kind, row.state.as_str())
    });
    let mut details: Vec<String> = shown.collect();
    if count > details.len() {
        details.push(format!("and {} more", thousands(count - details.len())));
    }
    match Confirmation::of(confirm.map(|it| it as u64), count as u64) {
        Confirmation::Given => Ok(()),
        Confirmation::Missing | Confirmation::Invalid => Err(CliError::refused(
            "erase.confirm",
            format!(
                "{} would be erased; confirm the number: --confirm {count}",
                plural(count, "event")
            ),
        )
        .note("this cannot be undone; backups keep the payloads for up to 35 days")
        .details(details)),
        Confirmation::Mismatch(number, how) => Err(CliError::refused(
            "erase.confirm_mismatch",
            format!(
                "{} are selected, but {how} {number}; nothing was erased",
                plural(count, "event")
            ),
        )
        .details(details)),
    }
}

/// Selects the events to erase.
fn selected(inbox: &Deployment, args: &EraseArgs, now: UnixMillis) -> anyhow::Result<Selection> {
    let since = When::ago(longest_kept(&inbox.config));
    let asked = SelectionArgs {
        received: Received {
            source: args.source.clone(),
            since: args.id.is_empty().then(|| args.since.unwrap_or(since)),
            until: args.until,
            id: args.id.clone(),
        },
        where_: args.matching.clone(),
        account: args.account.clone(),
        ..SelectionArgs::default()
    };
    Ok(Selection::new(&asked, inbox, now.0)?.thorough())
}

/// Returns the default time range, which is the longest retention of rows, because a row contains
/// small bodies. It is at least [`KEEP_ROW`], because a row keeps the retention that its source had
/// when the event was done.
fn longest_kept(config: &Config) -> Duration {
    let kept = config.sources().map(|source| source.retention.rows);
    kept.fold(KEEP_ROW, Duration::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_range_covers_rows_of_an_earlier_retention() {
        let longest = |retention: &str| {
            let file = format!(
                "schema = 1\n[[source]]\nname = \"s\"\npreset = \"stripe\"\n{retention}\n\
                 action = [{{ kind = \"keep\" }}]\n[source.sync]\n"
            );
            longest_kept(&Config::parse(&file).unwrap()).as_secs() / 86_400
        };
        assert_eq!(longest(""), 90);
        assert_eq!(longest("retention = { rows = \"31d\" }"), 90);
        assert_eq!(longest("retention = { rows = \"400d\" }"), 400);
    }
}
