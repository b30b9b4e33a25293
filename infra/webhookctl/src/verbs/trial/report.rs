//! `trial report`: evaluates the events of a trial. The command changes nothing.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::RouteAnswer;
use shared::inbox::rejected::RejectedRequest;
use shared::sources::Source;
use tokio::time::Instant;

use super::document::document;
use super::figures::Figures;
use super::render::page;
use crate::cli::{Global, SelectionArgs, TrialReportArgs};
use crate::output::count::thousands;
use crate::output::progress::EVERY;
use crate::output::time::{When, rfc3339};
use crate::output::{CliError, Exit, Printer};
use crate::selection::{Selection, known_sources};
use crate::target::Deployment;
use crate::trial::limits;

/// The default time range. It is the same for `inbox list --tee`.
const DEFAULT_SPAN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The time range. The end is exclusive.
pub(super) struct Span {
    pub(super) from: UnixMillis,
    pub(super) to: UnixMillis,
}

/// What the report is about.
pub(super) struct Scope<'s> {
    pub(super) source: &'s Source,
    pub(super) span: Span,
    pub(super) now: UnixMillis,
}

pub(super) async fn report(
    args: TrialReportArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let named = std::slice::from_ref(&args.source);
    known_sources(&inbox, named)?;
    let source = inbox.config.source(&args.source);
    let Some(source) = source else {
        anyhow::bail!("source {} is not configured", args.source);
    };
    let span = span(&args, now)?;
    let figures = gather(&inbox, source, &args, &span, now, out).await?;
    let scope = Scope { source, span, now };
    let item = document(&scope, &figures, &inbox.name);
    out.document("trial.report", &item, &source.name, &page(&scope, &figures))?;
    if figures.report.events > 0 {
        out.tip(&format!(
            "webhookctl inbox list -s {} --tee lost --since {}",
            source.name,
            rfc3339(scope.span.from.0)
        ));
    }
    Ok(Exit::Done)
}

fn span(args: &TrialReportArgs, now: UnixMillis) -> Result<Span, CliError> {
    let millis = |when: When| UnixMillis(when.millis(now.0));
    let from = millis(since(args));
    let to = args.until.map_or(now, millis);
    if to < from {
        return Err(CliError::usage(
            "trial.span",
            "the end of the time range is before its start",
        )
        .tip("--since and --until are times like 3d or 2026-11-20"));
    }
    Ok(Span { from, to })
}

/// Reads the events of the source and its rejected requests.
async fn gather(
    inbox: &Deployment,
    source: &Source,
    args: &TrialReportArgs,
    span: &Span,
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<Figures> {
    let mut selection = SelectionArgs::default();
    selection.received.source = vec![source.name.clone()];
    selection.received.since = Some(since(args));
    selection.received.until = args.until;
    let selection = Selection::new(&selection, inbox, now.0)?;
    let limits = limits(Some(source));
    let mut figures = Figures::default();
    let mut told = Instant::now();
    let cost = selection
        .each(
            inbox,
            &mut |row| figures.add(row, limits, now),
            &mut |count| {
                if told.elapsed() >= EVERY {
                    told = Instant::now();
                    out.say(&format!("  read {} events", thousands(count)));
                }
            },
        )
        .await?;
    figures.cost = cost;
    let end = UnixMillis(span.to.0 - 1);
    let held = inbox.quarantine.held(&source.name, span.from, end, now);
    let rejected = held.await?;
    let is_accepted =
        |held: &&RejectedRequest| held.route.as_ref().is_some_and(RouteAnswer::is_accepted);
    let accepted = rejected.iter().filter(is_accepted);
    figures.rejected_and_accepted = accepted.map(|held| held.id.as_str().to_owned()).collect();
    Ok(figures)
}

fn since(args: &TrialReportArgs) -> When {
    args.since.unwrap_or_else(|| When::ago(DEFAULT_SPAN))
}
