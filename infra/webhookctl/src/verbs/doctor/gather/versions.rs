//! Reads the applied version of the sources, and what the functions report about their sources.

use shared::inbox::source_versions::{Consistency, SourceVersions};

use crate::doctor::{Known, Versions};
use crate::target::{DEV, Deployment};
use crate::verbs::doctor::probe::told;

pub(super) async fn versions(inbox: &Deployment) -> Known<Versions> {
    let versions = SourceVersions::beside(&inbox.ledger);
    let report = inbox.ledger.operations().sources_report().await;
    let applied = versions.current(Consistency::Strong).await;
    Ok(Versions {
        report: told("dynamodb:Query", report)?,
        applied: told("dynamodb:GetItem", applied)?.filter(|facts| facts.by != DEV),
    })
}
