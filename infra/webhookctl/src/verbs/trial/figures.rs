//! Counts the findings of a trial, and names their events.

use std::collections::BTreeMap;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Cost, Row};
use shared::monitoring::trial::{Finding, TrialLimits, TrialReport, findings, is_refused};

/// The maximum number of events that the report names for each finding.
const MOST_NAMED: usize = 1000;

/// The result of a trial.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) report: TrialReport,
    /// The first events of each finding.
    named: BTreeMap<&'static str, Vec<Named>>,
    /// The events that Mitt would accept and that the route refused.
    pub(super) refused: u64,
    pub(super) refused_named: Vec<Named>,
    /// The ids of the requests that Mitt would have rejected, and that the route accepted.
    pub(super) rejected_and_accepted: Vec<String>,
    pub(super) cost: Cost,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Named {
    pub(super) id: String,
    pub(super) dedupe_key: String,
}

impl Figures {
    pub(super) fn add(&mut self, row: &Row, limits: TrialLimits, now: UnixMillis) {
        if !self.report.add(row, limits, now) {
            return;
        }
        for finding in findings(row, limits, now) {
            keep(self.named.entry(finding.as_str()).or_default(), row);
        }
        if is_refused(row) {
            self.refused += 1;
            keep(&mut self.refused_named, row);
        }
    }

    /// Returns the number of events with a finding.
    pub(super) fn count(&self, finding: Finding) -> usize {
        self.report.with(finding).len()
    }

    /// Returns the first events with a finding.
    pub(super) fn named(&self, finding: Finding) -> &[Named] {
        let named = self.named.get(finding.as_str());
        named.map(Vec::as_slice).unwrap_or_default()
    }
}

fn keep(named: &mut Vec<Named>, row: &Row) {
    if named.len() < MOST_NAMED {
        named.push(Named {
            id: row.id().as_str().to_owned(),
            dedupe_key: row.key.id().to_owned(),
        });
    }
}
