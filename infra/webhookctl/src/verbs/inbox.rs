//! `inbox`: shows stored events.

mod answers;
mod body;
mod diff;
mod export;
mod inspect;
mod lineage;
mod list;
mod tail;
mod trace;

use shared::inbox::ledger::{FlagKind, Row};

use crate::inspect::EventView;
use crate::inspect::view;
use crate::target::Deployment;

pub(super) use crate::selection::{find_one as find, known_sources};
pub(super) use answers::answers;
pub(super) use body::{body, read_body};
pub(super) use diff::diff;
pub(super) use export::export;
pub(super) use inspect::inspect;
pub(super) use list::list;
pub(super) use tail::{EACH, Follow, Line, Tail, is_wanted, refuse_unusable, tail};
pub(super) use trace::trace;

/// Returns the view of an event. For an open event, the view says whether the source is paused.
async fn standing(inbox: &Deployment, row: &Row) -> anyhow::Result<EventView> {
    let mut event = view(row, &inbox.config);
    if row.is_open() {
        event.source_paused = is_paused(inbox, &event.source).await?;
    }
    Ok(event)
}

async fn is_paused(inbox: &Deployment, source: &str) -> anyhow::Result<bool> {
    Ok(inbox
        .ledger
        .operations()
        .flag(FlagKind::Pause(source))
        .await?
        .is_some())
}
