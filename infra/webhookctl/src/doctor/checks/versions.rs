//! Checks whether the functions use the sources that operators have applied.

use shared::base::timing::BACKUP_SYNC;
use shared::inbox::current_sources::REREAD;

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Unknown};

pub(super) static IN_FORCE: Check = Check {
    name: "source.in_force",
    title: "The functions use the sources that were applied last",
    why: "A version in the table has no effect if the stack uses only its built-in file, or if the \
          functions cannot read the version.",
    fix: "for a version that is not used, deploy with Sources=table; for a version that cannot be \
          used, deploy a newer release or run webhookctl sources rollback N -m WHY",
    judge: in_force,
};

fn in_force(facts: &Facts) -> Result<Finding, Unknown> {
    let versions = known(&facts.versions)?;
    let applied = versions.applied.as_ref();
    let Some((at, report)) = &versions.report else {
        return match applied {
            None => Ok(Finding::pass("no version is applied")),
            Some(_) => Err(Unknown::Skipped(
                "backup-sync has not reported its sources yet",
            )),
        };
    };
    let used = match report.version {
        Some(version) => format!("version {version}"),
        None => format!("the built-in file ({})", report.hash),
    };
    let Some(applied) = applied else {
        return Ok(Finding::pass(used));
    };
    let want = format!("version {}", applied.version);
    if !report.from_table {
        let found = format!("the stack uses only its built-in file ({})", report.hash);
        return Ok(Finding::warn(found).want(want));
    }
    // A task that began before the change reports the version before.
    if *at < applied.at + REREAD + BACKUP_SYNC {
        return Ok(Finding::pass(format!(
            "{used}; {want} was applied after the last report"
        )));
    }
    if report.version == Some(applied.version) {
        return Ok(Finding::pass(used));
    }
    let why = if report.failed {
        "which cannot be read or used"
    } else {
        "which was not read"
    };
    Ok(Finding::fail(format!("{used} instead of {want}, {why}")).want(want))
}
