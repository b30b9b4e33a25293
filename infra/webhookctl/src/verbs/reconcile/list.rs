//! `reconcile list`: lists the comparisons.

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::sources::Local;

use super::selected;
use crate::cli::{Global, ReconcileSelection};
use crate::output::time::rfc3339;
use crate::output::{Column, Exit, List, Printer};
use crate::target::Deployment;

#[derive(Serialize)]
struct Line {
    source: String,
    name: String,
    /// The name that the provider uses for the objects.
    objects: String,
    /// Where your own state is: `table users`, or the URL of an endpoint.
    against: String,
    /// The share of drifted objects in percent.
    cap: f64,
    report: Option<String>,
    last_run_at: Option<String>,
    compared: Option<u64>,
    drifted: Option<u64>,
    repaired: bool,
}

pub(super) async fn list(
    selection: &ReconcileSelection,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let mut rows = Vec::new();
    for (source, reconcile) in selected(&inbox, selection)? {
        let reports = inbox
            .ledger
            .provider_reports()
            .reports(&source.name, &reconcile.name, 1, now)
            .await?;
        let last = reports.into_iter().next();
        rows.push(Line {
            source: source.name.clone(),
            name: reconcile.name.clone(),
            objects: reconcile.objects.name.clone(),
            against: match &reconcile.local {
                Local::DynamoDb(at) => format!("table {}", at.table),
                Local::Http(at) => at.url.clone(),
            },
            cap: reconcile.cap,
            last_run_at: last.as_ref().map(|report| rfc3339(report.started.0)),
            compared: last.as_ref().map(|report| report.counts.compared),
            drifted: last.as_ref().map(|report| report.counts.drifted()),
            repaired: last
                .as_ref()
                .is_some_and(|report| report.repair.as_ref().is_some_and(|repair| repair.complete)),
            report: last.map(|report| report.id),
        });
    }
    out.list(&List {
        id: "report",
        tip: rows
            .iter()
            .find(|row| row.drifted.is_some_and(|drifted| drifted > 0))
            .and_then(|row| {
                Some(format!(
                    "webhookctl reconcile report {}",
                    row.report.as_ref()?
                ))
            }),
        empty: "No comparisons are configured; add a [[source.reconcile]] to infra/sources.toml."
            .to_owned(),
        ..List::new(
            "reconcile.list",
            &inbox.name,
            now,
            vec![
                Column::whole("SOURCE", "source").essential(),
                Column::whole("NAME", "name").essential(),
                Column::text("AGAINST", "against", 12),
                Column::age("LAST", "last_run_at", now.0),
                Column::whole("COMPARED", "compared").right().dash(),
                Column::whole("DRIFTED", "drifted").right().dash(),
                Column::whole("REPORT", "report").dash(),
            ],
            rows,
        )
    })?;
    Ok(Exit::Done)
}
