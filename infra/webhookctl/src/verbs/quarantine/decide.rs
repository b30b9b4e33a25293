//! `quarantine release` and `quarantine discard`: apply the operator's decision about a quarantined
//! event, whose id or body belongs to another event.
//!
//! The event is verified, so the inbox stores it under its own key. No worker processes it until an
//! operator releases it.

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{By, Decided, Row, State};

use super::inspect;
use super::reach::door;
use crate::audit::{self, Change};
use crate::cli::{DiscardArgs, Global, ReleaseArgs};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;
use crate::verbs::decision::{Decision, removed};
use crate::verbs::inbox;

pub(super) async fn release(
    args: ReleaseArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("quarantine.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("release an event")?;
    let door = door(&inbox, global, &args.door_at)?;
    let row = apart(&inbox, &args.id).await?;
    let who = record(&inbox, "quarantine.release", &row, reason).await?;
    let by = By {
        who: &who,
        why: reason,
    };
    let decided = door.release(&row.key, by, UnixMillis::now()).await?;
    told(&decided, &row, by, "released", out)
}

pub(super) async fn discard(
    args: DiscardArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let reason = audit::reason("quarantine.reason", &args.reason)?;
    let inbox = Deployment::open(&global.target).await?;
    inbox.may_write("discard an event")?;
    let row = apart(&inbox, &args.id).await?;
    let who = record(&inbox, "quarantine.discard", &row, reason).await?;
    let by = By {
        who: &who,
        why: reason,
    };
    let decided = inbox
        .ledger
        .discard(&row.key, by, UnixMillis::now())
        .await?;
    told(&decided, &row, by, "discarded", out)
}

/// Finds the event by id, and checks that it is quarantined.
async fn apart(inbox: &Deployment, wanted: &str) -> anyhow::Result<Row> {
    let row = match inbox::find(inbox, wanted).await {
        Ok(row) => row,
        Err(error) => {
            // The inbox has no requests that were never verified. Such a request can be in the
            // quarantine.
            let held = inspect::find(inbox, wanted, UnixMillis::now()).await;
            return Err(held.map_or(error, |held| unproven(held.id.as_str()).into()));
        }
    };
    if row.state == State::Quarantined {
        return Ok(row);
    }
    Err(not_apart(&row, row.state).into())
}

fn unproven(id: &str) -> CliError {
    CliError::refused(
        "quarantine.unproven",
        format!("{id} was never verified and cannot be released"),
    )
    .tip(format!(
        "webhookctl quarantine reverify --id {id} --dry-run"
    ))
}

fn not_apart(row: &Row, state: State) -> CliError {
    CliError::refused(
        "quarantine.not_apart",
        format!("{} is not quarantined; its state is {state}", row.key),
    )
    .tip(format!("webhookctl inbox inspect {} --full", row.id()))
}

async fn record(
    inbox: &Deployment,
    what: &'static str,
    row: &Row,
    why: &str,
) -> anyhow::Result<String> {
    let change = Change {
        what,
        why,
        selection: row.key.to_string(),
        count: 1,
    };
    change.record(inbox).await
}

fn told(
    decided: &Decided,
    row: &Row,
    by: By<'_>,
    what: &'static str,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let decision = Decision {
        document: "quarantine.decision",
        what,
        hold: None,
        by,
    };
    match decided {
        Decided::Made(now) => decision.report(now, out),
        Decided::NotQuarantined(state) => Err(not_apart(row, *state).into()),
        Decided::MissingBody => Err(no_body(row).into()),
        Decided::Missing => Err(removed(row).into()),
    }
}

fn no_body(row: &Row) -> CliError {
    CliError::refused(
        "quarantine.no_body",
        format!(
            "the body of {} is not available, so the event cannot be processed",
            row.key
        ),
    )
    .note("the body was erased, its retention has ended, or the body is damaged")
    .tip(format!(
        "webhookctl quarantine discard {} -m \"…\"",
        row.id()
    ))
}
