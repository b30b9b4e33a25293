//! Groups dead letters by error, for a list with one row for each error.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Row;
use shared::sources::Config;

use super::died_at;
use super::replay_safety::{ReplaySafety, Standings};
use crate::fingerprint::{Fingerprint, error_text, template};
use crate::output::Column;
use crate::output::time::rfc3339;
use crate::verbs::replay;

/// The error text of rows that have no error.
const NONE: &str = "no error was recorded";

/// The dead letters of one error, newest first.
pub(in crate::verbs) struct Group<'r> {
    pub(in crate::verbs) error: Fingerprint,
    pub(in crate::verbs) rows: Vec<&'r Row>,
}

#[derive(Serialize)]
pub(super) struct GroupRow {
    /// A prefix of the fingerprint, long enough to be unique among the groups.
    error: String,
    events: usize,
    sources: Vec<String>,
    message: String,
    first_at: String,
    last_at: String,
    replay: Standings,
    /// The id of the newest dead letter.
    id: String,
    #[serde(skip)]
    redrivable: bool,
}

impl<'r> Group<'r> {
    /// Returns all groups, the largest first.
    pub(in crate::verbs) fn all(rows: &'r [Row]) -> Vec<Self> {
        let mut groups: BTreeMap<Fingerprint, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            groups.entry(fingerprint(row)).or_default().push(row);
        }
        let groups = groups.into_iter();
        let mut groups: Vec<Self> = groups
            .map(|(error, mut rows)| {
                rows.sort_by_key(|row| std::cmp::Reverse(died_at(row)));
                Self { error, rows }
            })
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.rows.len()));
        groups
    }

    /// Returns the number of digits that distinguishes the groups.
    pub(in crate::verbs) fn digits(groups: &[Self]) -> usize {
        Fingerprint::digits(groups.iter().map(|group| &group.error))
    }

    pub(super) fn newest(&self) -> Option<&'r Row> {
        self.rows.first().copied()
    }

    pub(in crate::verbs) fn oldest(&self) -> Option<&'r Row> {
        self.rows.last().copied()
    }

    pub(in crate::verbs) fn message(&self) -> String {
        self.newest()
            .map(|row| template(text(row)))
            .unwrap_or_default()
    }

    pub(in crate::verbs) fn sources(&self) -> Vec<String> {
        let sources: BTreeSet<&str> = self.rows.iter().map(|row| row.key.source()).collect();
        sources.into_iter().map(str::to_owned).collect()
    }

    pub(in crate::verbs) fn standings(&self, config: &Config, now: i64) -> Standings {
        let mut standings = Standings::default();
        for row in &self.rows {
            standings.add(ReplaySafety::of(row, config, now));
        }
        standings
    }

    /// Returns whether a redrive in the default mode processes at least one of the dead letters.
    pub(super) fn is_redrivable(&self, config: &Config, now: i64) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| replay::would_redrive(row, config, UnixMillis(now)))
    }

    pub(super) fn row(&self, digits: usize, config: &Config, now: i64) -> Option<GroupRow> {
        let (newest, oldest) = (self.newest()?, self.oldest()?);
        Some(GroupRow {
            error: self.error.first(digits).to_owned(),
            events: self.rows.len(),
            sources: self.sources(),
            message: self.message(),
            first_at: rfc3339(died_at(oldest)),
            last_at: rfc3339(died_at(newest)),
            replay: self.standings(config, now),
            id: newest.id().to_string(),
            redrivable: self.is_redrivable(config, now),
        })
    }
}

impl GroupRow {
    pub(super) fn error(&self) -> &str {
        &self.error
    }

    /// Returns the command that runs the dead letters again, if it would run one.
    pub(super) fn redrive(&self) -> Option<String> {
        self.redrivable.then(|| redrive(&self.error))
    }

    /// Returns whether the group has dead letters that can be replayed.
    pub(super) fn is_open(&self) -> bool {
        self.replay.open() > 0
    }
}

/// Returns the command that runs the dead letters of an error again.
pub(super) fn redrive(error: &str) -> String {
    format!("webhookctl dlq redrive --error {error} -m 'fixed'")
}

/// Returns the error text of a row.
pub(super) fn text(row: &Row) -> &str {
    error_text(row).unwrap_or(NONE)
}

pub(super) fn fingerprint(row: &Row) -> Fingerprint {
    Fingerprint::of(text(row))
}

/// Returns the name of the source, or the number of sources if there are several.
pub(super) fn source_words(sources: &[String]) -> String {
    match sources {
        [one] => one.clone(),
        several => format!("{} sources", several.len()),
    }
}

pub(super) fn columns(now: i64) -> Vec<Column<'static, GroupRow>> {
    vec![
        Column::whole("ERROR", "error").essential(),
        Column::count("EVENTS", "events").essential(),
        Column::whole("SOURCE", "sources").shown(|group: &GroupRow| source_words(&group.sources)),
        Column::text("MESSAGE", "message", 20).essential(),
        Column::age("LAST", "last_at", now).lesser(),
        Column::whole("FIRST", "first_at").extra(),
        Column::whole("REPLAY", "replay")
            .shown(|group: &GroupRow| group.replay.text())
            .essential(),
    ]
}
