//! Reports what an operator decided about a quarantined or held event.

use serde::Serialize;
use shared::inbox::ledger::{By, Row};

use crate::output::{CliError, Exit, Printer};

/// A decision that is stored.
pub(super) struct Decision<'d> {
    /// The name of the document.
    pub(super) document: &'static str,
    /// The decision in the past tense, such as `released`.
    pub(super) what: &'static str,
    /// The hold that the decision is about, if it is about one.
    pub(super) hold: Option<&'d str>,
    pub(super) by: By<'d>,
}

#[derive(Serialize)]
struct Report<'d> {
    id: String,
    /// The key of the event, as `source:event-id`.
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<&'d str>,
    /// The current state of the event.
    status: &'d str,
    by: &'d str,
    reason: &'d str,
}

impl Decision<'_> {
    /// Prints the decision about an event. `row` is its row after the decision.
    pub(super) fn report(&self, row: &Row, out: &mut Printer) -> anyhow::Result<Exit> {
        self.report_as(row, row.state.as_str(), out)
    }

    /// Like `report`. `status` is the state of the event after the decision, and `row` may be older.
    pub(super) fn report_as(
        &self,
        row: &Row,
        status: &str,
        out: &mut Printer,
    ) -> anyhow::Result<Exit> {
        let report = Report {
            id: row.id().to_string(),
            key: row.key.to_string(),
            hold: self.hold,
            status,
            by: self.by.who,
            reason: self.by.why,
        };
        let text = format!(
            "{} {} by {}; its state is {}\n",
            report.key, self.what, report.by, report.status
        );
        out.document(self.document, &report, &report.id, &text)?;
        out.tip(&format!("webhookctl inbox inspect {} --full", report.id));
        Ok(Exit::Done)
    }
}

/// Returns the error for an event that was removed after the command had found it.
pub(super) fn removed(row: &Row) -> CliError {
    let message = format!("{} no longer exists", row.key);
    CliError::not_found("inbox.not_found", message)
}
