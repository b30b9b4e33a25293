//! Selects the events for a command: parses the conditions, and finds the matching events.

mod body;
mod conditions;
mod find;
mod follow;
mod held;
mod ids;
mod position;
mod stream;
mod time_scan;

use std::io::BufRead as _;

use anyhow::Context as _;
use shared::base::clock::UnixMillis;
use shared::base::json_path::JsonPath;
pub(crate) use shared::inbox::ledger::Cost;
use shared::inbox::ledger::{Repetition, Row, State};
use shared::monitoring::trial::Finding;
use shared::webhook::event::Via;

use crate::cli::{Assignment, SelectionArgs, Status};
use crate::fingerprint::Fingerprint;
use crate::glob;
use crate::inspect::view;
use crate::output::time::DAY_MS;
use crate::output::{CliError, Range};
use crate::target::Deployment;
use crate::trial::has_finding;

pub(crate) use body::{has_headers, no_bucket};
pub(crate) use find::newest;
pub(crate) use held::{held_keys, held_rows, with_rules};
pub(crate) use ids::find as find_one;
pub(crate) use position::Position;

/// How many days a trial is evaluated by default.
const TEE_DAYS: i64 = 7;

/// The conditions of a selection, validated.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// The names and patterns of the arguments. An empty list selects every source.
    asked_sources: Vec<String>,
    /// The configured sources that match these names and patterns.
    sources: Vec<String>,
    kinds: Vec<String>,
    statuses: Vec<Status>,
    since: Option<i64>,
    until: Option<i64>,
    error: Option<String>,
    via: Vec<Via>,
    attempts: Option<u32>,
    ids: Vec<String>,
    fields: Vec<Field>,
    accounts: Vec<String>,
    /// Headers of the request, in lower case, and the values that they must have.
    headers: Vec<(String, String)>,
    /// Findings of a trial, of which the event must have one.
    tee: Vec<Finding>,
    /// Kinds of repeated requests, of which the event must have one.
    repeats: Vec<Repetition>,
    /// Whether reads are unlimited.
    thorough: bool,
    now: i64,
}

/// A field of the body, and the value that it must have.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    name: String,
    pub(crate) path: JsonPath,
    pub(crate) value: String,
}

/// The part of the matching events to return.
#[derive(Debug, Clone)]
pub(crate) struct Want {
    pub limit: usize,
    /// Whether to list the oldest events first.
    pub reverse: bool,
    /// The position where an earlier list stopped. Only events after it are returned.
    pub after: Option<Position>,
}

/// The result of a search.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The events, newest first unless `reverse` is set.
    pub rows: Vec<Row>,
    /// Whether further events match.
    pub more: bool,
    pub cost: Cost,
}

impl Selection {
    /// Validates the arguments. Reads ids from stdin for `--id -`.
    pub(crate) fn new(args: &SelectionArgs, inbox: &Deployment, now: i64) -> anyhow::Result<Self> {
        let fields = args.where_.iter().map(field);
        let received = &args.received;
        received.checked(now)?;
        Ok(Self {
            asked_sources: received.source.clone(),
            sources: sources(inbox, &received.source)?,
            kinds: args.event_type.clone(),
            statuses: args.status.clone(),
            since: received.since.map(|when| when.millis(now)),
            until: received.until.map(|when| when.millis(now)),
            error: args.error.as_ref().map(|error| error.to_ascii_lowercase()),
            via: args.via.clone(),
            attempts: args.attempts,
            ids: ids(&received.id)?,
            fields: fields.collect::<Result<_, _>>()?,
            accounts: args.account.clone(),
            headers: args.header.iter().map(header).collect::<Result<_, _>>()?,
            tee: args.tee.clone(),
            repeats: args.repeats.clone(),
            thorough: false,
            now,
        })
    }

    /// Returns the same selection without limits on reads.
    #[must_use]
    pub(crate) fn thorough(mut self) -> Self {
        self.thorough = true;
        self
    }

    /// Returns the first and the last millisecond of the selected time range.
    fn span(&self) -> (i64, i64) {
        let since = self.since.unwrap_or_else(|| {
            if self.by_id() || self.waits() {
                0
            } else {
                self.now - self.default_days() * DAY_MS
            }
        });
        (since.max(0), self.until.map_or(i64::MAX, |until| until - 1))
    }

    /// Returns the time range, if the selection has one.
    pub(crate) fn range(&self) -> Option<Range> {
        let (since, until) = self.span();
        let until = UnixMillis(until.min(self.now));
        (since > 0).then(|| Range::covered(UnixMillis(since), until))
    }

    /// Returns how many days the selection covers without a start time. A provider retries for
    /// days, so an event of the last day is rarely known to be lost.
    fn default_days(&self) -> i64 {
        if self.tee.is_empty() { 1 } else { TEE_DAYS }
    }

    /// Returns whether the selection has a list of ids.
    fn by_id(&self) -> bool {
        !self.ids.is_empty()
    }

    /// Returns whether the `work` index has all selected events. It has open events, held events and
    /// dead letters.
    fn waits(&self) -> bool {
        !self.statuses.is_empty()
            && !self.statuses.contains(&Status::Of(State::Done))
            && !self.statuses.contains(&Status::Of(State::Quarantined))
    }

    fn has_source(&self, source: &str) -> bool {
        // Without this argument, open events of a source that is no longer configured also match.
        self.asked_sources.is_empty() || self.sources.iter().any(|known| known == source)
    }

    fn has_kind(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|pattern| glob::fits(pattern, kind))
    }

    /// Returns whether the conditions need attributes that the `time` index does not have.
    fn needs_rows(&self) -> bool {
        !self.statuses.is_empty()
            || self.error.is_some()
            || !self.via.is_empty()
            || self.attempts.is_some()
            || !self.accounts.is_empty()
            || !self.tee.is_empty()
            || !self.repeats.is_empty()
    }

    /// Returns whether a row matches all conditions except those on the body.
    fn has_row(&self, row: &Row, inbox: &Deployment) -> bool {
        let (from, to) = self.span();
        if !(from..=to).contains(&row.received_at.0)
            || !self.has_source(row.key.source())
            || !self.has_kind(&row.kind)
            || !self.via.is_empty() && !self.via.contains(&row.via)
            || self.attempts.is_some_and(|least| row.attempts < least)
            || !has_account(&self.accounts, row)
            || !has_repeats(&self.repeats, row)
            || !has_finding(&self.tee, row, &inbox.config, UnixMillis(self.now))
        {
            return false;
        }
        let seen = view(row, &inbox.config);
        let status = Status::new(seen.status, seen.hold.is_some());
        (self.statuses.is_empty() || self.statuses.contains(&status))
            && self.error.as_deref().is_none_or(|error| {
                Fingerprint::of_row(row).is_some_and(|it| it.is_named_by(error))
                    || row.reason.as_deref() == Some(error)
            })
    }
}

/// Returns whether the event belongs to one of these accounts. An empty list has every event.
pub(crate) fn has_account(accounts: &[String], row: &Row) -> bool {
    let account = row.account.as_ref();
    accounts.is_empty() || account.is_some_and(|account| accounts.contains(&account.value))
}

/// Returns whether a request of the event was repeated in one of these ways. An empty list has every
/// event.
fn has_repeats(kinds: &[Repetition], row: &Row) -> bool {
    kinds.is_empty() || kinds.iter().any(|kind| row.repetitions.of(*kind) > 0)
}

/// A condition on a header of the request: its name in lower case, and its value.
pub(crate) fn header(wanted: &Assignment) -> Result<(String, String), CliError> {
    if wanted.path.is_empty() || wanted.add {
        let error = CliError::usage("usage.header_value", "invalid header, expected NAME=VALUE");
        return Err(error.tip("write --header NAME=VALUE, such as x-shopify-topic=orders/create"));
    }
    Ok((wanted.path.to_ascii_lowercase(), wanted.value.clone()))
}

/// A condition on the body.
pub(crate) fn field(wanted: &Assignment) -> Result<Field, CliError> {
    let path = JsonPath::parse(&wanted.path).ok_or_else(|| {
        CliError::usage("usage.where", format!("invalid path '{}'", wanted.path))
            .tip("separate keys with dots, such as data.object.customer")
    })?;
    Ok(Field {
        name: wanted.path.clone(),
        path,
        value: wanted.value.clone(),
    })
}

/// Returns the configured sources that match the names and patterns. Without names and patterns,
/// returns all sources.
pub(crate) fn sources(inbox: &Deployment, asked: &[String]) -> Result<Vec<String>, CliError> {
    let known = inbox.sources();
    if asked.is_empty() {
        return Ok(known.into_iter().map(str::to_owned).collect());
    }
    for pattern in asked {
        if !known.iter().any(|name| glob::fits(pattern, name)) {
            return Err(no_source(inbox, pattern));
        }
    }
    let meant = known
        .into_iter()
        .filter(|name| asked.iter().any(|asked| glob::fits(asked, name)));
    Ok(meant.map(str::to_owned).collect())
}

/// Returns the names, if all of them are configured sources.
pub(crate) fn known_sources<'i>(
    inbox: &Deployment,
    asked: &'i [String],
) -> Result<Vec<&'i str>, CliError> {
    let known = inbox.sources();
    match asked.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(no_source(inbox, name)),
        None => Ok(asked.iter().map(String::as_str).collect()),
    }
}

fn no_source(inbox: &Deployment, name: &str) -> CliError {
    let known = inbox.sources();
    let message = format!("unknown source '{name}' in {}", inbox.name);
    CliError::usage("usage.source", message).one_of(name, &known)
}

/// Returns the ids of the arguments. Returns an error if `--id` was given but stdin has no ids.
fn ids(asked: &[String]) -> anyhow::Result<Vec<String>> {
    let ids = named(asked)?;
    if ids.is_empty() && !asked.is_empty() {
        return Err(
            CliError::usage("usage.id", "no id is given as an argument or on stdin")
                .tip("webhookctl inbox list -o ids prints ids for `--id -`")
                .into(),
        );
    }
    Ok(ids)
}

/// Returns the ids of the arguments without duplicates. Replaces `-` by the ids on stdin.
pub(crate) fn named(asked: &[String]) -> anyhow::Result<Vec<String>> {
    let mut ids: Vec<String> = Vec::new();
    for id in asked {
        if id != "-" {
            ids.push(id.trim().to_owned());
            continue;
        }
        for line in std::io::stdin().lock().lines() {
            let line = line.context("read ids from stdin")?;
            ids.push(line.trim().to_owned());
        }
    }
    ids.retain(|id| !id.is_empty());
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    Ok(ids)
}
