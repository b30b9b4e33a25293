//! Selects the events to forward.

use shared::base::clock::UnixMillis;
use shared::base::json_path::{JsonPath, scalar};
use shared::inbox::ledger::{Listed, Row, State};
use shared::sources::Config;
use shared::webhook::context::RequestContext;

use crate::cli::{ListenArgs, Status};
use crate::glob;
use crate::inspect::view;
use crate::output::CliError;
use crate::output::time::DAY_MS;
use crate::selection::{Field, field, has_account, has_headers, header, sources};
use crate::target::Deployment;

/// The maximum time range of a backfill. Each hour of each source is a separate read.
const FURTHEST_MS: i64 = 31 * DAY_MS;

pub(super) struct Wanted {
    pub(super) sources: Vec<String>,
    all_sources: bool,
    types: Vec<String>,
    status: Vec<Status>,
    error: Option<String>,
    via: Vec<String>,
    attempts: Option<u32>,
    fields: Vec<Field>,
    accounts: Vec<String>,
    headers: Vec<(String, String)>,
    /// The start of the backfill. Without it, `listen` forwards only new events.
    pub(super) since: Option<UnixMillis>,
    pub(super) until: Option<UnixMillis>,
}

impl Wanted {
    pub(super) fn new(
        args: &ListenArgs,
        inbox: &Deployment,
        now: UnixMillis,
    ) -> anyhow::Result<Self> {
        let asked = &args.selection;
        if let Some(id) = asked.received.id.first() {
            return Err(CliError::usage(
                "listen.id",
                "listen forwards events as they arrive and does not accept --id",
            )
            .tip(format!("webhookctl send --event {id} --to URL"))
            .into());
        }
        let since = args.backfill.or(asked.received.since);
        let since = since.map(|when| UnixMillis(when.millis(now.0)));
        if since.is_some_and(|since| now.0 - since.0 > FURTHEST_MS) {
            return Err(CliError::usage("listen.span", "a backfill covers at most 31 days").into());
        }
        Ok(Self {
            sources: sources(inbox, &asked.received.source)?,
            all_sources: asked.received.source.is_empty(),
            types: asked.event_type.clone(),
            status: asked.status.clone(),
            error: asked.error.clone(),
            via: asked.via.iter().map(ToString::to_string).collect(),
            attempts: asked.attempts,
            fields: asked.where_.iter().map(field).collect::<Result<_, _>>()?,
            accounts: asked.account.clone(),
            headers: asked.header.iter().map(header).collect::<Result<_, _>>()?,
            since,
            until: asked
                .received
                .until
                .map(|when| UnixMillis(when.millis(now.0))),
        })
    }

    pub(super) fn backfills(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the names of the sources as text.
    pub(super) fn words(&self) -> String {
        if self.all_sources {
            "all sources".to_owned()
        } else {
            self.sources.join(", ")
        }
    }

    pub(super) fn longest_source(&self) -> usize {
        let lengths = self.sources.iter().map(|name| name.chars().count());
        lengths.max().unwrap_or_default()
    }

    /// Returns whether the selection needs attributes that the index does not have.
    pub(super) fn looks_closer(&self) -> bool {
        !self.status.is_empty()
            || self.error.is_some()
            || !self.via.is_empty()
            || self.attempts.is_some()
            || !self.fields.is_empty()
            || !self.accounts.is_empty()
            || self.needs_request()
    }

    /// Returns whether the selection needs the requests of events.
    pub(super) fn needs_request(&self) -> bool {
        !self.headers.is_empty()
    }

    /// Returns whether the event matches by its attributes in the index.
    pub(super) fn lists(&self, event: &Listed) -> bool {
        let is_type = |pattern: &String| glob::fits(pattern, &event.kind);
        self.types.is_empty() || self.types.iter().any(is_type)
    }

    /// Returns whether the event matches by the headers of its request.
    pub(super) fn has_headers(&self, request: Option<&RequestContext>, row: &Row) -> bool {
        has_headers(&self.headers, request, row)
    }

    /// Returns whether the event matches by its row and body.
    pub(super) fn takes(&self, row: &Row, body: &[u8], config: &Config) -> bool {
        let shown = view(row, config);
        let error = shown.last_error.as_ref().map(|error| &error.fingerprint);
        // Mitt does not process quarantined events, so `listen` forwards them only on request.
        let status = if self.status.is_empty() {
            shown.status != State::Quarantined
        } else {
            self.status
                .contains(&Status::new(shown.status, shown.hold.is_some()))
        };
        status
            && (self.error.is_none() || self.error.as_ref() == error)
            && (self.via.is_empty() || self.via.contains(&shown.via))
            && self.attempts.is_none_or(|least| row.attempts >= least)
            && has_account(&self.accounts, row)
            && self
                .fields
                .iter()
                .all(|field| has(&field.path, body, &field.value))
    }
}

/// Returns whether one of the values at this path in the body equals `wanted`.
fn has(path: &JsonPath, body: &[u8], wanted: &str) -> bool {
    let found = path.all(body).unwrap_or_default().into_iter().flatten();
    let mut texts = found.filter_map(|raw| scalar(raw).ok().flatten());
    texts.any(|text| text == wanted)
}
