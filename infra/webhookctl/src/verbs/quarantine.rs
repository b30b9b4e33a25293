//! `quarantine`: refused requests, and the way from there into the inbox.

mod finding;
mod group;
pub(super) mod inspect;
mod list;
mod purge;
pub(crate) mod reach;
mod reverify;

use futures::future::try_join_all;
use shared::clock::Millis;
use shared::quarantine::Held;

use crate::cli::{Global, HeldSelection, QuarantineCommand};
use crate::output::{CliError, Exit, Printer};
use crate::place::Inbox;
pub(super) use reach::Keys;

/// How far back the quarantine reaches, with what DynamoDB deletes late.
const WEEK_MS: i64 = 8 * 24 * 3600 * 1000;

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
    }
}

/// What the selection names, newest first.
async fn chosen(
    inbox: &Inbox,
    selection: &HeldSelection,
    now: Millis,
) -> anyhow::Result<Vec<Held>> {
    let from = selection
        .since
        .map_or(now.0 - WEEK_MS, |when| when.millis(now.0));
    let to = selection.until.map_or(now.0, |when| when.millis(now.0) - 1);
    let sources = sources(inbox, &selection.source)?;
    let read = sources
        .iter()
        .map(|source| inbox.quarantine.held(source, Millis(from), Millis(to), now));
    let mut held: Vec<Held> = try_join_all(read).await?.into_iter().flatten().collect();
    if !selection.reason.is_empty() {
        held.retain(|held| {
            selection
                .reason
                .iter()
                .any(|reason| held.reason == reason.as_str())
        });
    }
    held.sort_by(|a, b| b.id.cmp(&a.id));
    Ok(held)
}

fn sources<'i>(inbox: &'i Inbox, asked: &'i [String]) -> Result<Vec<&'i str>, CliError> {
    if asked.is_empty() {
        return Ok(inbox.sources());
    }
    super::inbox::known_sources(inbox, asked)
}

/// The selection in words, for a list that is empty.
fn asked(selection: &HeldSelection) -> String {
    let or_any = |words: Vec<&str>| match words.as_slice() {
        [] => "any".to_owned(),
        words => words.join(","),
    };
    format!(
        "source={}, reason={}",
        or_any(selection.source.iter().map(String::as_str).collect()),
        or_any(
            selection
                .reason
                .iter()
                .map(|reason| reason.as_str())
                .collect()
        )
    )
}

fn plural(count: usize, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}
