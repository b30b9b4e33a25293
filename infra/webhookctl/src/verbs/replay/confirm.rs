//! The operator confirms how many events are replayed.

use shared::inbox::ledger::Plan;

use super::{events, short};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

/// Checks that the given or typed count is the count of the plan.
pub(super) fn confirmed(
    plan: &Plan,
    confirm: Option<u64>,
    who: &str,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let count = plan.count as u64;
    if let Some(said) = confirm {
        return Ok(fits(plan, said, "--confirm says")?);
    }
    if plan.facts.committed > 0 {
        let message = format!(
            "plan {} runs {} whose side effect is committed; that needs --confirm {count}",
            plan.id,
            events(plan.facts.committed)
        );
        return Err(CliError::new("replay.force", Exit::Refused, message).into());
    }
    let place = if inbox.is_protected() {
        format!("{} (protected)", inbox.name)
    } else {
        inbox.name.clone()
    };
    if !out.terminal.asks {
        let message = format!(
            "plan {} replays {} in {place} and {}",
            plan.id,
            events(count),
            out.terminal.why_it_asks_nothing()
        );
        return Err(
            CliError::new("replay.confirm_needed", Exit::Refused, message)
                .tip(format!(
                    "webhookctl replay apply {} --confirm {count}",
                    plan.id
                ))
                .into(),
        );
    }
    let typed = out.ask(&format!(
        "This runs {} again in {place}, as {}. Type {count} to continue: ",
        events(count),
        short(who)
    ))?;
    match typed.replace(',', "").parse() {
        Ok(said) => Ok(fits(plan, said, "you typed")?),
        Err(_) => Err(CliError::new(
            "replay.not_confirmed",
            Exit::Refused,
            "not a number; nothing was replayed",
        )
        .into()),
    }
}

/// `how` completes the message "but … 12".
fn fits(plan: &Plan, said: u64, how: &str) -> Result<(), CliError> {
    if said == plan.count as u64 {
        return Ok(());
    }
    let message = format!(
        "plan {} has {}, but {how} {said}; nothing was replayed",
        plan.id,
        events(plan.count as u64)
    );
    let error = CliError::new("replay.confirm_mismatch", Exit::Refused, message);
    Err(error.tip(format!(
        "review it with `webhookctl replay show {}`, then pass the count it shows",
        plan.id
    )))
}
