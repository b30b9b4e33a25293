//! Turns the facts of `status` into items. This module makes no requests.

mod events;
mod sources;
mod system;

use serde::Serialize;
use shared::base::clock::UnixMillis;

use super::item::Item;
use super::read::Facts;
use crate::doctor::{Known, Unknown};
use crate::target::Deployment;
use crate::verbs::stats::Chosen;

/// A part that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NotRead {
    pub(super) what: &'static str,
    pub(super) reason: String,
}

/// What the items are about.
struct About<'f> {
    inbox: &'f Deployment,
    facts: &'f Facts,
    chosen: &'f Chosen,
    now: UnixMillis,
}

/// Returns the items in no order, and the parts that could not be read.
pub(super) fn judge(
    inbox: &Deployment,
    facts: &Facts,
    chosen: &Chosen,
    now: UnixMillis,
) -> (Vec<Item>, Vec<NotRead>) {
    let about = About {
        inbox,
        facts,
        chosen,
        now,
    };
    let mut items = events::items(&about);
    items.extend(sources::items(&about));
    items.extend(system::items(&about));
    (items, missing(&about))
}

fn missing(about: &About<'_>) -> Vec<NotRead> {
    let facts = about.facts;
    let parts = [
        ("sources", of(&facts.sources)),
        ("dead letters", of(&facts.dead)),
        ("open events", of(&facts.open)),
        ("counts of events", of(&facts.counts)),
        ("newest event", of(&facts.newest)),
        ("pauses", of(&facts.pauses)),
        ("rotations", of(&facts.rotations)),
        ("circuit breakers", of(&facts.breakers)),
        ("lost times", of(&facts.lost)),
        ("reconciliations", of(&facts.drift)),
        ("replays", of(&facts.plans)),
        ("rejected requests", of(&facts.rejected)),
        ("quarantined events", of(&facts.quarantined)),
        ("held events", of(&facts.held)),
        ("missing paths", of(&facts.missing_paths)),
        ("tasks", of(&facts.heartbeats)),
    ];
    let queues = facts.queues.each().into_iter();
    let queues = queues.map(|(name, queue)| (name, of(queue)));
    let missing = parts.into_iter().chain(queues);
    let missing = missing.filter_map(|(what, unknown)| {
        let unknown = unknown.filter(|unknown| **unknown != Unknown::NotHere)?;
        let reason = unknown.reason(&about.inbox.name);
        Some(NotRead { what, reason })
    });
    missing.collect()
}

fn of<T>(known: &Known<T>) -> Option<&Unknown> {
    known.as_ref().err()
}
