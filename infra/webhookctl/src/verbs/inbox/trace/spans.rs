//! The spans of an event.

mod builder;

use std::time::Duration;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Row, State};
use shared::inbox::trace::{SpanId, TraceId};

use super::link::Link;
use crate::output::time::rfc3339;
use builder::Builder;

pub(super) struct Trace {
    /// The short id of the event.
    pub(super) event: String,
    pub(super) source: String,
    pub(super) event_type: String,
    pub(super) status: State,
    pub(super) id: TraceId,
    /// When the next attempt is due.
    pub(super) due: Option<i64>,
    /// The deferrals of this run.
    pub(super) deferrals: u32,
    pub(super) link: Option<Link>,
    pub(super) spans: Vec<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    Receipt,
    Wait,
    Attempt,
    Effect,
    /// What an operator did: a point without a span.
    Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) what: What,
    /// It is missing for what an operator did, and for a wait without a claim at its end.
    pub(super) id: Option<SpanId>,
    pub(super) parent: Option<SpanId>,
    pub(super) name: String,
    pub(super) start: i64,
    /// It is missing while the span lasts. A span whose start is unknown starts at its end.
    pub(super) end: Option<i64>,
    pub(super) outcome: String,
    pub(super) detail: String,
    pub(super) attempt: Option<u32>,
    pub(super) key: Option<String>,
    /// The earliest time that can belong to the span.
    from: i64,
}

impl Trace {
    pub(super) fn of(row: &Row, lease: Duration, link: Option<Link>) -> Self {
        Self {
            event: row.id().to_string(),
            source: row.key.source().to_owned(),
            event_type: row.kind.clone(),
            status: row.state,
            id: TraceId::of(&row.key),
            due: row.due.map(|due| due.0),
            deferrals: row.deferrals,
            link,
            spans: Builder::new(row, lease).spans(),
        }
    }

    /// Returns the JSON document. Later versions only add fields.
    pub(super) fn document(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct Document<'t> {
            id: &'t str,
            source: &'t str,
            r#type: &'t str,
            status: &'static str,
            trace_id: String,
            due: Option<String>,
            deferrals: u32,
            link: Option<&'t Link>,
            spans: Vec<SpanDocument<'t>>,
        }
        Document {
            id: &self.event,
            source: &self.source,
            r#type: &self.event_type,
            status: self.status.as_str(),
            trace_id: self.id.to_string(),
            due: self.due.map(rfc3339),
            deferrals: self.deferrals,
            link: self.link.as_ref(),
            spans: self.spans.iter().map(Span::document).collect(),
        }
    }
}

#[derive(Serialize)]
struct SpanDocument<'t> {
    what: What,
    name: &'t str,
    span_id: Option<String>,
    parent_span_id: Option<String>,
    started_at: String,
    ended_at: Option<String>,
    outcome: &'t str,
    detail: &'t str,
    attempt: Option<u32>,
    idempotency_key: Option<&'t str>,
}

impl Span {
    fn new(what: What, name: &str, start: UnixMillis, end: Option<UnixMillis>) -> Self {
        Self {
            what,
            id: None,
            parent: None,
            name: name.to_owned(),
            start: start.0,
            end: end.map(|end| end.0),
            outcome: String::new(),
            detail: String::new(),
            attempt: None,
            key: None,
            from: start.0,
        }
    }

    fn document(&self) -> SpanDocument<'_> {
        SpanDocument {
            what: self.what,
            name: &self.name,
            span_id: self.id.map(|id| id.to_string()),
            parent_span_id: self.parent.map(|id| id.to_string()),
            started_at: rfc3339(self.start),
            ended_at: self.end.map(rfc3339),
            outcome: &self.outcome,
            detail: &self.detail,
            attempt: self.attempt,
            idempotency_key: self.key.as_deref(),
        }
    }

    fn holds(&self, at: UnixMillis) -> bool {
        let is_attempt = self.what == What::Attempt;
        is_attempt && self.from <= at.0 && self.end.is_none_or(|end| at.0 <= end)
    }
}

#[cfg(test)]
pub(super) mod tests;
