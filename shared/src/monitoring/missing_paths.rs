//! Notices that events lack a value that a preset or a source names: their id, type, account, entity
//! or version, or a value that a filter tests. The provider has then changed its events, or the
//! preset or the source is wrong.
//!
//! A process logs and stores each missing path once an hour. An event that has all values costs no
//! request to the table.

mod store;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::base::calendar::Hour;
use crate::base::clock::UnixMillis;
use crate::sources::Source;
use crate::sources::ordering::Order;
use crate::webhook::event::Event;
use crate::webhook::missing::{MissingPath, PathUse};

pub use store::MissingRecord;

/// The maximum number of types of a source whose accounts are remembered. The number must be
/// limited, because the provider chooses the types.
const MOST_TYPES: usize = 500;

/// The missing paths that this process has seen.
#[derive(Debug, Default)]
pub struct MissingPaths {
    seen: Mutex<HashMap<(String, MissingPath), Seen>>,
    /// The types of each source whose events have had an account.
    accounts: Mutex<HashMap<String, HashSet<String>>>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The hour in which the path was logged.
    hour: Hour,
    /// The events since then.
    untold: u64,
}

/// A missing path that must be logged and stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub source: String,
    /// The type of the event.
    pub kind: String,
    pub missing: MissingPath,
    /// The number of events that this line represents. Events of an hour that have no line of their
    /// own are in the first line of a later hour.
    pub events: u64,
}

impl MissingPaths {
    /// Returns the missing paths of a verified event that this process must log and store now.
    pub fn of_event(&self, source: &Source, event: &Event, now: UnixMillis) -> Vec<Noted> {
        let account = self.account(source, event);
        let missing = event.missing().iter().cloned().chain(account);
        let noted = missing.map(|missing| self.note(&source.name, event.kind(), missing, now));
        noted.flatten().collect()
    }

    /// Counts an event that lacks a path. Returns `None` if this process has already logged the path
    /// in this hour.
    pub fn note(
        &self,
        source: &str,
        kind: &str,
        missing: MissingPath,
        now: UnixMillis,
    ) -> Option<Noted> {
        let hour = Hour::of(now);
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // The operator and the preset choose the paths, so their number is small.
        let events = match all.get_mut(&(source.to_owned(), missing.clone())) {
            Some(seen) if seen.hour == hour => {
                seen.untold += 1;
                return None;
            }
            Some(seen) => {
                seen.hour = hour;
                std::mem::take(&mut seen.untold) + 1
            }
            None => {
                let seen = Seen { hour, untold: 0 };
                all.insert((source.to_owned(), missing.clone()), seen);
                1
            }
        };
        Some(Noted {
            source: source.to_owned(),
            kind: kind.to_owned(),
            missing,
            events,
        })
    }

    /// Returns the locations of the account, if the event should have one. If the source itself names
    /// them, each event should have an account. Otherwise an event should have one if this process
    /// has seen an event of the same type with one.
    fn account(&self, source: &Source, event: &Event) -> Option<MissingPath> {
        let preset = &source.verifier.preset;
        let own = &preset.settings.account;
        if !own.is_empty() {
            let lacks = event.account().is_none();
            let missing = lacks.then(|| MissingPath::of(PathUse::Account, own));
            return missing.flatten();
        }
        let locations = &preset.event.account.0;
        if locations.is_empty() || preset.event.is_optional(PathUse::Account) {
            return None;
        }
        let mut all = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&source.name);
        let is_known = known.is_some_and(|types| types.contains(event.kind()));
        match event.account() {
            Some(_) if !is_known => {
                let types = all.entry(source.name.clone()).or_default();
                if types.len() < MOST_TYPES {
                    types.insert(event.kind().to_owned());
                }
                None
            }
            None if is_known => MissingPath::of(PathUse::Account, locations),
            Some(_) | None => None,
        }
    }
}

impl Noted {
    /// Logs the missing path. The line contains no value of the event but its type.
    pub fn log(&self) {
        let (source, path) = (&self.source, &self.missing.path);
        let used_for = self.missing.used_for;
        tracing::warn!(
            code = "path_missing",
            source,
            kind = self.kind,
            path,
            used_for = %used_for,
            events = self.events,
            "an event of {source} has no usable value at {path}, where its {used_for} should be"
        );
    }
}

impl Noted {
    /// Logs that the path was not stored. Operators still have the line of [`log`](Self::log).
    pub fn log_not_stored(&self, error: &anyhow::Error) {
        let source = &self.source;
        tracing::warn!(
            source,
            error = format!("{error:#}"),
            "could not store a missing path of {source}"
        );
    }
}

/// Returns the locations of the entity or of the version, if an event has no place in the order of
/// its source but should have one.
pub fn of_order(source: &Source, order: &Order, has_entity: bool) -> Option<MissingPath> {
    if source.verifier.preset.event.is_optional(PathUse::Order) {
        return None;
    }
    let locations = if has_entity {
        &order.at.version
    } else {
        &order.at.entity
    };
    MissingPath::of(PathUse::Order, &locations.0)
}

#[cfg(test)]
mod tests;
