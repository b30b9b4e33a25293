//! The input and the report of a sync run.

use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// The input of a sync run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct SyncRequest {
    /// The only source to sync. `None` means all sources.
    pub source: Option<String>,
    /// Whether to only report what a run would find. A dry run writes nothing, and requests no
    /// redelivery.
    #[serde(default)]
    pub dry_run: bool,
    /// The start of the window in seconds before now. It applies only if it is earlier than the
    /// cursor.
    pub lookback_s: Option<u64>,
}

impl SyncRequest {
    pub(crate) fn of(source: &str) -> Self {
        Self {
            source: Some(source.to_owned()),
            ..Self::default()
        }
    }
}

/// A missing event that a dry run found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// The result of a run for one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SyncReport {
    pub source: String,
    pub pages: u64,
    /// Events that the provider listed.
    pub listed: u64,
    /// Events that were missing in the ledger (gaps).
    pub found: u64,
    /// Missing events whose redelivery was requested.
    pub asked: u64,
    /// Missing events that the provider no longer has.
    pub gone: u64,
    /// Whether the whole window was requested. If not, the next run continues where this one
    /// stopped.
    pub complete: bool,
    /// Whether another run held the lease.
    pub skipped: bool,
    /// Seconds since the last sync that the provider's list no longer covers.
    pub unreachable_s: u64,
    /// The first hundred missing events, in a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Named>,
}

impl SyncReport {
    /// Adds the result of a later turn in the same run.
    pub(super) fn go_on(&mut self, later: &Self) {
        self.pages += later.pages;
        self.listed += later.listed;
        self.found += later.found;
        self.asked += later.asked;
        self.gone += later.gone;
        self.complete = later.complete;
        self.unreachable_s = self.unreachable_s.max(later.unreachable_s);
    }
}

/// Logs the sources for which no time was left. The next run begins with them.
pub(super) fn say_left(sources: &[&str]) {
    let (left, names) = (sources.len(), sources.join(" "));
    tracing::warn!(
        left,
        sources = names,
        "no time was left in this run to sync {names}; the next run begins with these sources"
    );
}

pub(super) fn say_done(report: &SyncReport, order: &SyncRequest) {
    let but = if order.dry_run {
        "; the dry run added no event"
    } else {
        ""
    };
    tracing::info!(
        source = report.source,
        pages = report.pages,
        listed = report.listed,
        found = report.found,
        complete = report.complete,
        "synced {}: {} of {} events were missing{but}",
        report.source,
        report.found,
        report.listed,
    );
}

/// Logs the line from which the template creates a metric.
pub(super) fn say_failed(source: &str, error: &anyhow::Error) {
    tracing::error!(
        source,
        sync_failed = 1,
        fault = Fault::name_of(error),
        error = format!("{error:#}"),
        "could not sync {source}"
    );
}
