//! `reconcile report` and `reconcile run`: show stored reports, or compare now.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::monitoring::reconcile::{Counts, Drift, Report};

use super::{find, selected};
use crate::cli::{Global, ReconcileReportArgs, ReconcileRunArgs};
use crate::output::count::thousands;
use crate::output::table::aligned;
use crate::output::time::{duration, rfc3339};
use crate::output::{Exit, Printer};
use crate::run_task::run_task;
use crate::target::Deployment;

/// The maximum number of drifted objects in the text output. The JSON output has all of them.
const SHOWN: usize = 40;

#[derive(Serialize, Deserialize)]
struct Reports {
    reports: Vec<Report>,
}

pub(super) async fn report(
    args: ReconcileReportArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let mut reports = Vec::new();
    if let Some(id) = &args.id {
        reports.push(find(&inbox, id, now).await?);
    } else {
        for (source, reconcile) in selected(&inbox, &args.selection)? {
            let last =
                inbox
                    .ledger
                    .provider_reports()
                    .reports(&source.name, &reconcile.name, 1, now);
            reports.extend(last.await?);
        }
    }
    show("reconcile.report", reports, out)
}

pub(super) async fn run(
    args: ReconcileRunArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("store the report of a comparison")?;
    selected(&inbox, &args.selection)?;
    let (source, name) = (&args.selection.source, &args.selection.name);
    let task = json!({
        "task": "reconcile", "source": source, "name": name, "report_only": true,
    });
    let answer = run_task(&inbox, global, &args.function_at, &task).await?;
    let answer: Reports =
        serde_json::from_value(answer).context("parse the answer of backup-sync")?;
    if answer.reports.is_empty() {
        out.say("Another run is in progress, or no comparison is configured.");
    }
    show("reconcile.run", answer.reports, out)
}

fn show(command: &'static str, reports: Vec<Report>, out: &mut Printer) -> anyhow::Result<Exit> {
    if reports.is_empty() && !out.format.is_json() {
        out.say("No reports. `webhookctl reconcile run` creates one.");
        return Ok(Exit::Done);
    }
    let text: String = reports.iter().map(text).collect();
    let ids: Vec<_> = reports.iter().map(|report| report.id.as_str()).collect();
    let ids = ids.join(" ");
    let drifted = reports.iter().any(|report| report.counts.drifted() > 0);
    let repair = reports
        .iter()
        .find(|report| report.repairable().next().is_some() && report.repair.is_none());
    let tip = repair.map(|report| format!("webhookctl reconcile repair {} -m WHY", report.id));
    out.document(command, &Reports { reports }, &ids, &text)?;
    if let Some(tip) = tip {
        out.tip(&tip);
    }
    Ok(if drifted { Exit::No } else { Exit::Done })
}

fn text(report: &Report) -> String {
    let counts = &report.counts;
    let mut text = format!(
        "{}/{}  {}  {}   {} objects compared in {}\n",
        report.source,
        report.name,
        report.id,
        rfc3339(report.started.0),
        thousands(counts.compared),
        duration(report.took_ms / 1000),
    );
    for (count, said) in results(counts) {
        if count > 0 || said == "agree" {
            let _ = writeln!(text, "  {:>7} {said}", thousands(count));
        }
    }
    if !report.drift.is_empty() {
        let rows: Vec<_> = report.drift.iter().take(SHOWN).map(row).collect();
        for line in aligned(&rows).lines() {
            let _ = writeln!(text, "    {line}");
        }
        if report.drift.len() > SHOWN {
            let more = report.drift.len() - SHOWN;
            let _ = writeln!(text, "    and {} more: -o json", thousands(more));
        }
    }
    if let Some(repair) = &report.repair {
        let state = if repair.complete {
            "repaired"
        } else {
            "repair started"
        };
        let _ = writeln!(
            text,
            "  {state} by {} at {}, {} events: {}",
            repair.by,
            rfc3339(repair.at.0),
            repair.events,
            repair.why
        );
    }
    if let Some(why) = &report.unrepaired {
        let _ = writeln!(text, "  not repaired: {why}");
    }
    text
}

fn results(counts: &Counts) -> [(u64, &'static str); 9] {
    [
        (counts.agree, "agree"),
        (counts.missing, "missing locally"),
        (counts.gone, "deleted at the provider"),
        (counts.different, "different"),
        (
            counts.ambiguous,
            "ambiguous: several objects have the same id",
        ),
        (
            counts.unconfirmed,
            "also differ, but were not checked a second time",
        ),
        (counts.moving, "changed during the comparison"),
        (
            counts.young,
            "only at the provider and new, so their events may still arrive",
        ),
        (
            counts.settled,
            "of the agreeing objects agreed only at the second check",
        ),
    ]
}

fn row(drift: &Drift) -> Vec<String> {
    let said = |values: &[String]| match values {
        [] => "-".to_owned(),
        values => values.join(","),
    };
    let fields = drift.fields.iter().map(|field| {
        format!(
            "{}: ours={} theirs={}",
            field.name,
            said(&field.here),
            said(&field.there)
        )
    });
    let fields: Vec<_> = fields.collect();
    vec![
        drift.kind.to_string(),
        drift.object.clone(),
        fields.join("; "),
    ]
}
