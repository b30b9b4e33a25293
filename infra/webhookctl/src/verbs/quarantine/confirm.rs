//! In a protected context, the operator confirms how many requests enter the inbox.

use super::plural;
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

/// Checks the count of `--confirm`, or asks for it in a protected context. Other contexts need no
/// confirmation.
pub(super) fn let_in(
    count: usize,
    confirm: Option<usize>,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let requests = plural(count, "request");
    let (said, how) = match confirm {
        Some(said) => (Some(said), "--confirm says"),
        None if count == 0 || !inbox.is_protected() => return Ok(()),
        None if out.terminal.asks => {
            let question = format!(
                "{requests} would enter {} (protected). Type {count} to continue: ",
                inbox.name
            );
            let typed = out.ask(&question)?;
            (typed.replace(',', "").parse().ok(), "you typed")
        }
        None => (None, ""),
    };
    match said {
        Some(said) if said == count => Ok(()),
        Some(said) => Err(CliError::new(
            "quarantine.confirm_mismatch",
            Exit::Refused,
            format!("{requests} would enter, but {how} {said}; nothing was changed"),
        )
        .tip("review the selection with --dry-run")
        .into()),
        None => Err(CliError::new(
            "quarantine.confirm",
            Exit::Refused,
            format!("confirm the count: --confirm {count}"),
        )
        .note(format!(
            "{requests} would enter {} (protected); nothing was changed",
            inbox.name
        ))
        .into()),
    }
}
