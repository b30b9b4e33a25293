//! Polls the indexes and returns the changes of events.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use shared::inbox::ledger::Stored;
use shared::webhook::event::EventKey;

use super::Line;
use super::changes::{Known, changes};
use crate::inspect::view;
use crate::selection::Selection;
use crate::target::Deployment;

/// How far a scan reaches back before the previous scan. An index shows an event shortly after the
/// catcher has stored it, and the catcher can take seconds to store it.
const LATE_MS: i64 = 30_000;

/// The age up to which every scan reads an open event. Every fifth scan also reads older open
/// events.
const YOUNG_MS: i64 = 60_000;

const SELDOM: u64 = 5;

/// How far every 15th scan reaches back: 15 minutes. An event that waited, for example in the spill
/// queue, is stored under its original time of receipt.
const FAR: u64 = 15;
const FAR_MS: i64 = 900_000;

/// The maximum number of older open events that a scan reads from each of the eight shards of the
/// index.
const MOST_OPEN: i32 = 100;

/// The maximum number of known events. Above it, the command forgets the older settled events, and
/// scans no longer reach back to them.
const MOST_KNOWN: usize = 100_000;

pub(in crate::verbs) struct Follow<'a> {
    selection: &'a Selection,
    inbox: &'a Deployment,
    /// The start of the time range. An event that was received earlier is not reported as new.
    began: i64,
    looked: Option<i64>,
    looks: u64,
    /// The time before which events are forgotten, even if they were reported.
    forgotten: i64,
    known: HashMap<EventKey, Known>,
    /// The events whose body does not match the selection.
    others: HashSet<EventKey>,
}

impl<'a> Follow<'a> {
    pub(in crate::verbs) fn new(selection: &'a Selection, inbox: &'a Deployment) -> Self {
        Self {
            selection,
            inbox,
            began: selection.followed_since(),
            looked: None,
            looks: 0,
            forgotten: 0,
            known: HashMap::new(),
            others: HashSet::new(),
        }
    }

    /// Returns the changes since the last scan.
    pub(super) async fn look(&mut self, now: i64) -> anyhow::Result<Vec<Line>> {
        let seen = self.look_at_rows(now).await?;
        Ok(seen.into_iter().map(|(line, _)| line).collect())
    }

    /// Returns the changes since the last scan, each with the row of its event.
    pub(in crate::verbs) async fn look_at_rows(
        &mut self,
        now: i64,
    ) -> anyhow::Result<Vec<(Line, Arc<Stored>)>> {
        let seldom = self.looks.is_multiple_of(SELDOM);
        let from = self.from(now);
        self.looks += 1;
        let mut arrived = self
            .selection
            .arrivals(self.inbox, from, now + LATE_MS)
            .await?;
        arrived.retain(|key| !self.known.contains_key(key) && !self.others.contains(key));
        let mut open = self.open(now, seldom);
        if seldom {
            let older = self.selection.open_events(self.inbox, MOST_OPEN).await?;
            let others = |key: &EventKey| arrived.contains(key) || self.others.contains(key);
            open.extend(older.into_iter().filter(|key| !others(key)));
            open.sort();
            open.dedup();
        }
        let rows = self.selection.now(self.inbox, &arrived).await?;
        self.others
            .extend(rows.iter().map(|stored| stored.row.key.clone()));
        let mut lines = Vec::new();
        for stored in self.selection.by_body(self.inbox, rows).await? {
            lines.extend(self.told(stored, now));
        }
        let rows = self.selection.now(self.inbox, &open).await?;
        let (known, new): (Vec<Stored>, Vec<Stored>) = rows
            .into_iter()
            .partition(|stored| self.known.contains_key(&stored.row.key));
        self.others
            .extend(new.iter().map(|stored| stored.row.key.clone()));
        let new = self.selection.by_body(self.inbox, new).await?;
        for stored in known.into_iter().chain(new) {
            lines.extend(self.told(stored, now));
        }
        lines.sort_by_key(|(line, _)| line.at);
        self.looked = Some(now);
        self.forget(now);
        Ok(lines)
    }

    /// Returns the start of the time range in which the scan looks for new events.
    fn from(&self, now: i64) -> i64 {
        let near = self.looked.map_or(self.began, |looked| looked - LATE_MS);
        let far = if self.looks.is_multiple_of(FAR) {
            now - FAR_MS
        } else {
            near
        };
        near.min(far).max(self.began).max(self.forgotten)
    }

    fn open(&self, now: i64, seldom: bool) -> Vec<EventKey> {
        let young = |known: &Known| now - known.received_at < YOUNG_MS;
        let due = self.known.iter();
        let due = due.filter(|(_, known)| known.is_open() && (seldom || young(known)));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the lines to print for a row. Returns none for an older event that is read for the
    /// first time.
    fn told(&mut self, stored: Stored, now: i64) -> Vec<(Line, Arc<Stored>)> {
        let stored = Arc::new(stored);
        let row = &stored.row;
        let view = view(row, &self.inbox.config);
        self.others.remove(&row.key);
        let before = self.known.insert(row.key.clone(), Known::of(row, &view));
        let is_older = row.received_at.0 < self.began;
        if is_older && before.is_none() || !self.selection.follows(row, self.inbox) {
            return Vec::new();
        }
        let lines = changes(before.as_ref(), row, &view, now).into_iter();
        lines.map(|line| (line, Arc::clone(&stored))).collect()
    }

    fn forget(&mut self, now: i64) {
        if self.others.len() > MOST_KNOWN {
            self.others.clear();
        }
        if self.known.len() > MOST_KNOWN {
            let since = now - 4 * LATE_MS;
            self.known
                .retain(|_, known| known.is_open() || known.received_at >= since);
            self.forgotten = since;
        }
    }
}
