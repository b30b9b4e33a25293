//! Asks the operator to confirm the changes of the sources.

use super::changes::Changes;
use crate::confirm::Confirmation;
use crate::output::count::plural;
use crate::output::{CliError, Printer};
use crate::target::Deployment;

/// Checks the count of `--confirm`, or asks for it on a terminal. Without a terminal, only a
/// protected context needs `--confirm`.
pub(super) fn confirmed(
    changes: &Changes,
    confirm: Option<u64>,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let count = changes.count();
    if confirm.is_none() && !out.terminal.asks && !inbox.is_protected() {
        return Ok(());
    }
    let what = format!(
        "{} would be in force in {}",
        plural(count, "change"),
        inbox.name
    );
    let question = format!("{what} within a minute.");
    let error = match Confirmation::ask(confirm, count, &question, out)? {
        Confirmation::Given => return Ok(()),
        Confirmation::Mismatch(number, how) => CliError::refused(
            "sources.confirm_count",
            format!("{what}, but {how} {number}; nothing was changed"),
        ),
        Confirmation::Invalid => CliError::refused(
            "sources.confirm_count",
            "the answer is not a number; nothing was changed",
        ),
        Confirmation::Missing => CliError::refused(
            "sources.confirm_count",
            format!(
                "{what} (protected), and {}",
                out.terminal.why_it_asks_nothing()
            ),
        ),
    };
    Err(error.tip(format!("pass --confirm {count}")).into())
}
