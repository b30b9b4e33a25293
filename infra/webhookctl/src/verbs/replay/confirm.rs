//! Asks the operator to confirm how many events are replayed.

use shared::inbox::ledger::{Plan, Through};

use super::short;
use crate::cli::ReplayApplyArgs;
use crate::confirm::Confirmation;
use crate::output::count::plural;
use crate::output::{CliError, Printer};
use crate::target::Deployment;

/// Checks that the operator has given or typed the count of the plan.
pub(super) fn confirmed(
    plan: &Plan,
    args: &ReplayApplyArgs,
    who: &str,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let count = plan.count as u64;
    let confirm = args.confirm;
    if confirm.is_some() && !args.accept_proposed && needs_a_person(plan, inbox) {
        return Err(proposed(plan).into());
    }
    if confirm.is_none() && plan.facts.committed > 0 {
        let message = format!(
            "plan {} runs {} whose side effect is committed; this requires --confirm {count}",
            plan.id,
            plural(plan.facts.committed, "event")
        );
        return Err(CliError::refused("replay.force", message).into());
    }
    let place = if inbox.is_protected() {
        format!("{} (protected)", inbox.name)
    } else {
        inbox.name.clone()
    };
    let question = format!(
        "This command replays {} in {place}, as {}.",
        plural(count, "event"),
        short(who)
    );
    let error = match Confirmation::ask(confirm, count, &question, out)? {
        Confirmation::Given => return Ok(()),
        Confirmation::Mismatch(number, how) => CliError::refused(
            "replay.confirm_mismatch",
            format!(
                "plan {} has {}, but {how} {number}; nothing was replayed",
                plan.id,
                plural(count, "event")
            ),
        )
        .tip(format!("webhookctl replay show {}", plan.id)),
        Confirmation::Invalid => CliError::refused(
            "replay.not_confirmed",
            "the answer is not a number; nothing was replayed",
        ),
        Confirmation::Missing => CliError::refused(
            "replay.confirm_needed",
            format!(
                "plan {} replays {} in {place} and {}",
                plan.id,
                plural(count, "event"),
                out.terminal.why_it_asks_nothing()
            ),
        )
        .tip(format!(
            "webhookctl replay apply {} --confirm {count}",
            plan.id
        )),
    };
    Err(error.into())
}

/// Returns whether the count must be typed, because an agent proposed the plan. In the console, the
/// operator has typed it.
fn needs_a_person(plan: &Plan, inbox: &Deployment) -> bool {
    plan.facts.through == Through::Mcp && inbox.through() != Through::Console
}

fn proposed(plan: &Plan) -> CliError {
    let message = format!(
        "an agent proposed plan {}; a person must apply it; nothing was replayed",
        plan.id
    );
    CliError::refused("replay.proposed", message)
        .note("--confirm alone could come from the agent")
        .tip(format!(
            "at a terminal: webhookctl replay apply {}; in a script, also pass --accept-proposed",
            plan.id
        ))
}
