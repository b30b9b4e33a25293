//! `inbox inspect`: shows one event.

use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Row, State, UnreadableRequest};
use shared::inbox::source_versions::{KEPT, SourceVersions};
use shared::webhook::event::EventKey;

use super::{answers, find, lineage, standing};
use crate::cli::{Global, InspectArgs};
use crate::inspect::{
    EventView, RequestSeen, SCHEMA, document, full, route_section, seven_lines, with_timeline,
};
use crate::output::{CliError, Exit, Format, Printer};
use crate::target::Deployment;

/// The interval at which `--watch` reads the event.
const EACH: Duration = Duration::from_secs(1);

pub(in crate::verbs) async fn inspect(
    args: InspectArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let row = match find(&inbox, &args.id).await {
        Ok(row) => row,
        Err(error) => return Err(refused(error, &inbox, &args.id).await),
    };
    let event = seen(&args, &inbox, &row, out.format).await?;
    if args.watch {
        return tokio::select! {
            watched = watch(&args, &inbox, &row.key, event, out) => watched,
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted.map(|()| Exit::Interrupted)?),
        };
    }
    let now = UnixMillis::now().0;
    out.document(
        SCHEMA,
        &document(&event, now),
        &event.id,
        &text(&args, out.format, &event, now),
    )?;
    if !args.full {
        let full = format!("webhookctl inbox inspect {} --full", event.id);
        out.tip(&full);
        let next = crate::inspect::next_action::next_action(&event, now).command;
        if let Some(next) = next.filter(|next| *next != full) {
            out.tip(&next);
        }
    }
    Ok(Exit::Done)
}

/// Returns the event. Adds its lineage if the output shows it.
async fn seen(
    args: &InspectArgs,
    inbox: &Deployment,
    row: &Row,
    format: Format,
) -> anyhow::Result<EventView> {
    let mut event = standing(inbox, row).await?;
    if args.full || format != Format::Table {
        lineage::trace(&mut event, inbox, row).await?;
        event.answers = answers(inbox, row, args.reveal).await?;
        event.request = request(inbox, row).await?;
        event.sources_version = sources_version(inbox, row).await?;
    }
    Ok(event)
}

/// Returns the request of the event. A request that cannot be read does not hide the event.
async fn request(inbox: &Deployment, row: &Row) -> anyhow::Result<RequestSeen> {
    match inbox.ledger.event_request(&row.key).await {
        Ok(Some(kept)) => Ok(RequestSeen::Kept(kept)),
        Ok(None) => Ok(RequestSeen::NotKept),
        Err(error) => match error.downcast_ref::<UnreadableRequest>() {
            Some(unreadable) => Ok(RequestSeen::Unreadable(unreadable.to_string())),
            None => Err(error),
        },
    }
}

/// Returns the version of the sources that received the event. One request reads all versions, and
/// none is made if the sources come from a file.
async fn sources_version(inbox: &Deployment, row: &Row) -> anyhow::Result<Option<u64>> {
    if inbox.version.is_none() {
        return Ok(None);
    }
    let versions = SourceVersions::beside(&inbox.ledger);
    let versions = versions.history(usize::try_from(KEPT)?).await?;
    let mut same = versions.iter().filter(|it| it.hash == row.config);
    // After a rollback, two versions have the same hash. The clock of the operator can be ahead.
    let before = same.clone().find(|it| it.at <= row.received_at);
    Ok(before.or(same.next_back()).map(|it| it.version))
}

/// Returns the error. If the id belongs to a rejected request, adds a tip that shows this request.
async fn refused(error: anyhow::Error, inbox: &Deployment, id: &str) -> anyhow::Error {
    let missing = error.downcast_ref::<CliError>();
    let Some(missing) = missing.filter(|error| error.code == "inbox.not_found") else {
        return error;
    };
    match crate::verbs::quarantine::inspect::find(inbox, id, UnixMillis::now()).await {
        Ok(_) => missing
            .clone()
            .note("the request was rejected and is in the quarantine")
            .tip(format!("webhookctl quarantine inspect {id}"))
            .into(),
        Err(_) => error,
    }
}

fn text(args: &InspectArgs, format: Format, event: &EventView, now: i64) -> String {
    if args.full || format == Format::Wide {
        full(event, now)
    } else if args.timeline {
        with_timeline(event, now)
    } else {
        seven_lines(event, now) + &route_section(event.trial.as_ref(), now)
    }
}

/// Prints the event, and again after each change, until it is settled.
async fn watch(
    args: &InspectArgs,
    inbox: &Deployment,
    key: &EventKey,
    mut event: EventView,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let mut first = true;
    loop {
        let now = UnixMillis::now().0;
        if out.format.is_json() {
            out.json_line(&document(&event, now))?;
        } else {
            let gap = if first { "" } else { "\n" };
            out.text(&format!("{gap}{}", text(args, out.format, &event, now)))?;
        }
        first = false;
        match event.status {
            State::Done => return Ok(Exit::Done),
            State::DeadLetter | State::Quarantined => return Ok(Exit::Partial),
            State::Received | State::Processing | State::Failed => {}
        }
        event = loop {
            tokio::time::sleep(EACH).await;
            let row = inbox.ledger.event(key).await?;
            let Some(row) = row else { continue };
            let now = seen(args, inbox, &row, out.format).await?;
            if now != event {
                break now;
            }
        };
    }
}
