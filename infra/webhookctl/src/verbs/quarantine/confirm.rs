//! Asks the operator of a protected context to confirm how many requests enter the inbox.

use crate::confirm::Confirmation;
use crate::output::count::plural;
use crate::output::{CliError, Printer};
use crate::target::Deployment;

/// Checks the count of `--confirm`. In a protected context, asks for the count if it is missing.
/// Other contexts need no confirmation.
pub(super) fn let_in(
    count: usize,
    confirm: Option<usize>,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<()> {
    if confirm.is_none() && (count == 0 || !inbox.is_protected()) {
        return Ok(());
    }
    let requests = plural(count, "request");
    let would = format!("{requests} would enter {} (protected)", inbox.name);
    let confirm = confirm.map(|confirm| confirm as u64);
    let error = match Confirmation::ask(confirm, count as u64, &format!("{would}."), out)? {
        Confirmation::Given => return Ok(()),
        Confirmation::Mismatch(number, how) => CliError::refused(
            "quarantine.confirm_mismatch",
            format!("{requests} would enter the inbox, but {how} {number}; nothing was changed"),
        )
        .tip("review the selection with --dry-run"),
        Confirmation::Invalid | Confirmation::Missing => CliError::refused(
            "quarantine.confirm",
            format!("confirm the count: --confirm {count}"),
        )
        .note(format!("{would}; nothing was changed")),
    };
    Err(error.into())
}
