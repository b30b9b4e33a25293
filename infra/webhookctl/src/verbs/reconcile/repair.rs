//! `reconcile repair`: adds an event to the inbox for each drifted object.

use anyhow::Context as _;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::monitoring::reconcile::{Drift, Repair, Report};
use shared::sources::{Reconcile, Source};

use super::find;
use crate::audit::{self, Change};
use crate::cli::{DoorAt, Global, ReconcileRepairArgs};
use crate::confirm::Confirmation;
use crate::output::count::{plural, thousands};
use crate::output::time::DAY_MS;
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;
use crate::verbs::quarantine::reach::door;

/// The maximum age of a report. The current state may differ from an older report.
const OLDEST_MS: i64 = DAY_MS;

#[derive(Serialize)]
struct Repaired<'r> {
    report: &'r str,
    /// The number of events that were new to the inbox.
    new: usize,
    /// The number of events that an earlier repair of the same report had already added.
    known: usize,
    events: Vec<String>,
    by: String,
    reason: String,
}

pub(super) async fn repair(
    args: ReconcileRepairArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("reconcile.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("repair")?;
    reachable(&inbox, &args.door_at)?;
    let door = door(&inbox, global, &args.door_at)?;
    let now = UnixMillis::now();
    let report = find(&inbox, &args.id, now).await?;
    let (source, reconcile) = configured(&inbox, &report)?;
    let reports = inbox.ledger.provider_reports();
    let newest = reports.reports(&report.source, &report.name, 1, now);
    let newest = newest.await?;
    of_now(&report, newest.first(), now)?;
    let drift: Vec<&Drift> = report.repairable().collect();
    if drift.is_empty() {
        out.say("This report has no drift that an event can repair.");
        return Ok(Exit::Done);
    }
    within_cap(&report, reconcile, args.over_cap)?;
    confirmed(&drift, args.confirm)?;

    let who = Change {
        what: "reconcile.repair",
        why: reason,
        selection: format!("{} of {}/{}", report.id, report.source, report.name),
        count: drift.len(),
    }
    .record(&inbox)
    .await?;
    let noted = Repair::new(now, &who, reason);
    let repaired = report
        .repair((source, inbox.config.hash()), &door, noted, UnixMillis::now)
        .await
        .context("the repair is incomplete; run the command again")?;
    let events: Vec<String> = repaired.events.iter().map(ToString::to_string).collect();
    let new = repaired.new;
    let known = events.len() - new;
    let text = format!(
        "{} of {} put into the inbox by {who}: {new} new, {known} already stored\n",
        plural(events.len(), "event"),
        report.id
    );
    let repaired = Repaired {
        report: &report.id,
        new,
        known,
        events,
        by: who,
        reason: reason.to_owned(),
    };
    out.document("reconcile.repair", &repaired, &report.id, &text)?;
    let more = report.counts.drifted().saturating_sub(drift.len() as u64);
    if more > 0 {
        let more = thousands(more);
        out.say(&format!(
            "{more} more drifted objects are not in the report; the next run finds them."
        ));
    }
    Ok(Exit::Done)
}

/// Opens the inbox. Without the name of the queue or the bucket, returns an error before the
/// command reads anything.
fn reachable(inbox: &Deployment, at: &DoorAt) -> Result<(), CliError> {
    let names = inbox.names();
    let queue = at.queue_url.is_some() || names.queue_url.is_some();
    let bucket = at.bodies_at.body_bucket.is_some() || names.bucket.is_some();
    if queue && bucket {
        return Ok(());
    }
    Err(CliError::usage(
        "reconcile.no_queue",
        "the queue and the bucket of the inbox are unknown; the new events need both",
    )
    .note("the outputs QueueUrl and BodyBucket of the stack name them")
    .tip("pass --queue-url URL --body-bucket NAME"))
}

fn configured<'i>(
    inbox: &'i Deployment,
    report: &Report,
) -> Result<(&'i Source, &'i Reconcile), CliError> {
    let mut all = inbox.config.reconciles();
    all.find(|(source, reconcile)| source.name == report.source && reconcile.name == report.name)
        .ok_or_else(|| {
            CliError::not_found(
                "reconcile.unknown",
                format!("{}/{} is no longer configured", report.source, report.name),
            )
        })
}

fn of_now(report: &Report, newest: Option<&Report>, now: UnixMillis) -> Result<(), CliError> {
    let refused = |message: String| {
        CliError::refused("reconcile.old_report", message)
            .note("the drift may have been repaired since; nothing was changed")
            .tip("webhookctl reconcile run")
    };
    match newest {
        Some(newest) if newest.id != report.id => Err(refused(format!(
            "{} is not the newest report; {} is",
            report.id, newest.id
        ))),
        _ if now.0 - report.started.0 > OLDEST_MS => {
            Err(refused(format!("{} is more than a day old", report.id)))
        }
        _ => Ok(()),
    }
}

/// Checks that the share of drifted objects does not exceed the cap.
fn within_cap(report: &Report, reconcile: &Reconcile, over_cap: bool) -> Result<(), CliError> {
    if over_cap || !report.is_over(reconcile.cap) {
        return Ok(());
    }
    let percent = report.counts.percent();
    Err(CliError::refused(
        "reconcile.over_cap",
        format!(
            "{percent:.1}% of {} drifted, which is more than the cap of {}%; nothing was changed",
            plural(report.counts.compared, "object"),
            reconcile.cap
        ),
    )
    .note("so much drift usually means a wrong table, key or filter")
    .tip("check some of the objects; if the drift is real, pass --over-cap"))
}

fn confirmed(drift: &[&Drift], confirm: Option<usize>) -> Result<(), CliError> {
    let count = drift.len();
    let shown = drift.iter().take(10);
    let details: Vec<_> = shown
        .map(|drift| format!("{}  {}", drift.kind, drift.object))
        .collect();
    match Confirmation::of(confirm.map(|it| it as u64), count as u64) {
        Confirmation::Given => Ok(()),
        Confirmation::Missing | Confirmation::Invalid => Err(CliError::refused(
            "reconcile.confirm",
            format!(
                "{} would be put into the inbox; confirm the count: --confirm {count}",
                plural(count, "event")
            ),
        )
        .details(details)),
        Confirmation::Mismatch(number, how) => Err(CliError::refused(
            "reconcile.confirm_mismatch",
            format!(
                "the report has {}, but {how} {number}; nothing was changed",
                plural(count, "drifted object")
            ),
        )
        .details(details)),
    }
}
