//! Stores a report, and repairs its drift if the comparison allows it.

use shared::inbox::ledger::{AuditAction, Through};
use shared::monitoring::reconcile::{Repair, Report};
use shared::sources::{Reconcile, Source};

use crate::BackupSync;

/// Who repairs, for the audit log and the report.
const WHO: &str = "backup-sync";

const WHY: &str = "repair = \"auto\"";

impl BackupSync {
    /// Stores the report. With `repairs`, then adds an event for each drifted object to the inbox, as
    /// `webhookctl reconcile repair` does. If more objects drifted than the cap allows, repairs
    /// nothing, and the report says so.
    pub(super) async fn keep_and_repair(
        &self,
        mut report: Report,
        (source, reconcile): (&Source, &Reconcile),
        repairs: bool,
    ) -> anyhow::Result<Report> {
        let ledger = &self.services.inbox.ledger;
        let repairs = repairs && report.repairable().next().is_some();
        if repairs && report.is_over(reconcile.cap) {
            report.unrepaired = Some(format!(
                "{:.1}% of the objects drifted, which is more than the cap of {}%",
                report.counts.percent(),
                reconcile.cap
            ));
        }
        ledger.provider_reports().keep_report(&report).await?;
        if !repairs || report.unrepaired.is_some() {
            return Ok(report);
        }
        let now = (self.clock)();
        let action = AuditAction {
            what: "reconcile.repair",
            who: WHO.to_owned(),
            through: Through::Schedule,
            why: WHY.to_owned(),
            selection: format!("{} of {}/{}", report.id, report.source, report.name),
            count: report.repairable().count(),
        };
        ledger.operations().log(&action, now).await?;
        let noted = Repair::new(now, WHO, WHY);
        let config = self.services.sources.config();
        let of = (source, config.hash());
        let inbox = &self.services.inbox;
        let repaired = report.repair(of, inbox, noted, self.clock).await?;
        report.repair = Some(repaired.noted);
        Ok(report)
    }
}
