//! `quarantine`: lists, inspects, reverifies and deletes rejected requests, and releases
//! quarantined events.

mod confirm;
mod decide;
mod finding;
mod group;
pub(super) mod inspect;
mod list;
mod purge;
pub(crate) mod reach;
mod reverify;

use futures::future::try_join_all;
use shared::base::clock::UnixMillis;
use shared::inbox::rejected::RejectedRequest;

use crate::cli::{Global, HeldSelection, QuarantineCommand};
use crate::output::time::{DAY_MS, rfc3339};
use crate::output::{Exit, Printer, Range};
use crate::selection::{named, sources};
use crate::target::Deployment;
pub(super) use list::tallies;
pub(super) use reach::Keys;

/// The default time range. It is longer than the retention of a week, because DynamoDB deletes
/// expired items late.
const WEEK_MS: i64 = 8 * DAY_MS;

pub(super) async fn run(
    command: QuarantineCommand,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    match command {
        QuarantineCommand::List(args) => Box::pin(list::list(args, global, out)).await,
        QuarantineCommand::Inspect(args) => Box::pin(inspect::inspect(args, global, out)).await,
        QuarantineCommand::Reverify(args) => Box::pin(reverify::reverify(args, global, out)).await,
        QuarantineCommand::Purge(args) => purge::purge(args, global, out).await,
        QuarantineCommand::Release(args) => decide::release(args, global, out).await,
        QuarantineCommand::Discard(args) => decide::discard(args, global, out).await,
    }
}

/// Returns the selected requests, newest first.
async fn chosen(
    inbox: &Deployment,
    selection: &HeldSelection,
    now: UnixMillis,
) -> anyhow::Result<Vec<RejectedRequest>> {
    let received = &selection.received;
    received.checked(now.0)?;
    let range = range(selection, now);
    let sources = sources(inbox, &received.source)?;
    let read = sources
        .iter()
        .map(|source| inbox.quarantine.held(source, range.since, range.until, now));
    let mut held: Vec<RejectedRequest> = try_join_all(read).await?.into_iter().flatten().collect();
    if !selection.reason.is_empty() {
        held.retain(|held| {
            selection
                .reason
                .iter()
                .any(|reason| held.reason == reason.as_str())
        });
    }
    let ids = ids(&received.id)?;
    if !received.id.is_empty() {
        held.retain(|held| ids.iter().any(|id| held.id.as_str().starts_with(id)));
    }
    held.sort_by(|a, b| b.id.cmp(&a.id));
    Ok(held)
}

/// Returns the time range of the selection.
fn range(selection: &HeldSelection, now: UnixMillis) -> Range {
    let received = &selection.received;
    let from = received
        .since
        .map_or(now.0 - WEEK_MS, |when| when.millis(now.0));
    let to = received.until.map_or(now.0, |when| when.millis(now.0) - 1);
    Range::covered(UnixMillis(from), UnixMillis(to))
}

/// Returns the id prefixes of the selection, in the stored spelling.
fn ids(asked: &[String]) -> anyhow::Result<Vec<String>> {
    let ids = named(asked)?.into_iter();
    // An id has upper-case letters after `evt_`.
    let ids = ids.map(|id| format!("evt_{}", id.trim_start_matches("evt_").to_uppercase()));
    Ok(ids.collect())
}

/// Describes the selection, for the message of an empty list and for the audit log.
fn asked(selection: &HeldSelection) -> String {
    let or_any = |words: Vec<&str>| match words.as_slice() {
        [] => "any".to_owned(),
        words => words.join(","),
    };
    let received = &selection.received;
    let sources = received.source.iter().map(String::as_str);
    let reasons = selection.reason.iter().map(|reason| reason.as_str());
    let mut asked = format!(
        "source={}, reason={}",
        or_any(sources.collect()),
        or_any(reasons.collect())
    );
    let now = UnixMillis::now().0;
    let times = [("since", received.since), ("until", received.until)];
    for (name, when) in times {
        if let Some(when) = when {
            asked = format!("{asked}, {name}={}", rfc3339(when.millis(now)));
        }
    }
    match received.id.as_slice() {
        [] => asked,
        [id] => format!("{asked}, id={id}"),
        ids => format!("{asked}, {} ids", ids.len()),
    }
}
