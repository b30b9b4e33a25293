//! `reconcile`: compares the objects of a provider with your own state.

mod list;
mod repair;
mod report;

use shared::base::clock::UnixMillis;
use shared::monitoring::reconcile::Report;
use shared::sources::{Reconcile, Source};

use crate::cli::{Global, ReconcileCommand, ReconcileSelection};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

/// The number of recent reports of each comparison in which an id is searched.
const RECENT: i32 = 50;

pub(super) async fn run(
    command: ReconcileCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        ReconcileCommand::List(args) => list::list(&args, global, out).await,
        ReconcileCommand::Report(args) => report::report(args, global, out).await,
        ReconcileCommand::Run(args) => report::run(args, global, out).await,
        ReconcileCommand::Repair(args) => Box::pin(repair::repair(args, global, out)).await,
    }
}

/// Returns the selected comparisons. Returns an error if a named comparison does not exist.
fn selected<'i>(
    inbox: &'i Deployment,
    selection: &ReconcileSelection,
) -> Result<Vec<(&'i Source, &'i Reconcile)>, CliError> {
    let fits = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|w| w == name);
    let all = inbox.config.reconciles();
    let found: Vec<_> = all
        .filter(|(source, _)| fits(&selection.source, &source.name))
        .filter(|(_, reconcile)| fits(&selection.name, &reconcile.name))
        .collect();
    if found.is_empty() && (selection.source.is_some() || selection.name.is_some()) {
        let known = inbox.config.reconciles();
        let known: Vec<_> = known
            .map(|(source, reconcile)| format!("{}/{}", source.name, reconcile.name))
            .collect();
        let error = CliError::not_found(
            "reconcile.unknown",
            "no comparison matches --source and --name",
        );
        return Err(match known.as_slice() {
            [] => error.note("no source has a [[source.reconcile]]"),
            known => error.note(format!("known comparisons: {}", known.join(", "))),
        });
    }
    Ok(found)
}

/// Returns the report whose id has this prefix. Returns an error if there is none, or more than
/// one.
async fn find(inbox: &Deployment, id: &str, now: UnixMillis) -> anyhow::Result<Report> {
    let mut found = Vec::new();
    for (source, reconcile) in inbox.config.reconciles() {
        let reports = inbox
            .ledger
            .provider_reports()
            .reports(&source.name, &reconcile.name, RECENT, now)
            .await?;
        found.extend(
            reports
                .into_iter()
                .filter(|report| report.id.starts_with(id)),
        );
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(CliError::not_found("reconcile.no_report", format!("no report '{id}'"),
        )
        .note(format!(
            "searched the last {RECENT} reports of each comparison; reports are kept for 30 days"
        ))
        .tip("webhookctl reconcile list")
        .into()),
        count => Err(CliError::not_found("reconcile.ambiguous_report", format!("'{id}' matches {count} reports"),
        )
        .details(found.into_iter().map(|report| report.id).collect())
        .into()),
    }
}
