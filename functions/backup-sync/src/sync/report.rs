//! What a run is asked to do, and what it says of itself.

use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// What is to be synced, and how.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct SyncRequest {
    /// Only this source.
    pub source: Option<String>,
    /// Only look what a run would find: nothing is written, and no redelivery is asked for.
    #[serde(default)]
    pub dry_run: bool,
    /// Seconds before now from which on to ask, where that is earlier than the cursor.
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

/// An event that a run which only looked found to be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// What a run of one source did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SyncReport {
    pub source: String,
    pub pages: u64,
    /// Events that the provider listed.
    pub listed: u64,
    /// Of them, those that we did not have: gaps.
    pub found: u64,
    /// Of them, those that the provider was asked to deliver again.
    pub asked: u64,
    /// Of them, those that the provider does not have any more.
    pub gone: u64,
    /// The whole span was asked for. If not, the next run goes on where this one stopped.
    pub complete: bool,
    /// Another run was at it.
    pub skipped: bool,
    /// Seconds of our absence that the provider's list no longer reaches back to.
    pub unreachable_s: u64,
    /// The first hundred that are missing, where a run only looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Named>,
}

impl SyncReport {
    /// Adds what a later turn in the same run did.
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

/// Sources for which no time was left. The next run begins with them.
pub(super) fn say_left(sources: &[&str]) {
    let (left, names) = (sources.len(), sources.join(" "));
    tracing::warn!(
        left,
        sources = names,
        "no time is left in this run to sync {names}; the next one begins there"
    );
}

pub(super) fn say_done(report: &SyncReport, order: &SyncRequest) {
    let but = if order.dry_run {
        "; nothing was added"
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

/// The line of which the metric is made.
pub(super) fn say_failed(source: &str, error: &anyhow::Error) {
    tracing::error!(
        source,
        sync_failed = 1,
        fault = Fault::name_of(error),
        error = format!("{error:#}"),
        "could not sync {source}"
    );
}
