//! `status`: shows what is wrong, worst first, and the command that helps.

mod item;
mod judge;
mod read;
mod render;

use serde::Serialize;
use shared::base::clock::UnixMillis;

use crate::cli::{Global, SelectionArgs, StatusArgs};
use crate::output::time::rfc3339;
use crate::output::{Exit, Printer};
use crate::target::Deployment;
use crate::verbs::stats::Chosen;
use item::Item;
use judge::NotRead;

/// The result of the command.
#[derive(Serialize)]
struct Status {
    context: String,
    as_of: String,
    items: Vec<Item>,
    not_read: Vec<NotRead>,
    /// The number of sources that were looked at.
    sources: usize,
    newest_event: Option<NewestEvent>,
    #[serde(skip)]
    now: UnixMillis,
}

#[derive(Serialize)]
struct NewestEvent {
    received_at: String,
    source: String,
    #[serde(skip)]
    at: i64,
}

pub(super) async fn status(
    args: StatusArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    let now = UnixMillis::now();
    let mut selection = SelectionArgs::default();
    selection.received.source = args.source;
    let chosen = Chosen::of(&selection, &inbox, now)?;
    let facts = Box::pin(read::facts(&inbox, &chosen, now)).await?;
    let (mut items, not_read) = judge::judge(&inbox, &facts, &chosen, now);
    item::sort(&mut items);
    let newest = facts.newest.ok().flatten();
    let status = Status {
        context: inbox.name.clone(),
        as_of: rfc3339(now.0),
        items,
        not_read,
        sources: chosen.sources.len(),
        newest_event: newest.map(|event| NewestEvent {
            received_at: rfc3339(event.received_at.0),
            source: event.key.source().to_owned(),
            at: event.received_at.0,
        }),
        now,
    };
    render::print(&status, out)?;
    let wrong = status.items.iter().any(Item::is_wrong);
    Ok(if wrong { Exit::No } else { Exit::Done })
}
