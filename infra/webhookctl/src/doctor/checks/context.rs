//! Whether we talk to what we think we do.

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Unknown};

pub(super) static ACCOUNT: Check = Check {
    name: "context.account",
    title: "The credentials are those of the context's account",
    why: "Stacks of two accounts can have the same names, and a change would go to the wrong one.",
    fix: "name the profile of the account, --profile NAME, or mend `account` of the context",
    judge: account,
};

pub(super) static NAMES: Check = Check {
    name: "context.names",
    title: "The context names every part of the stack",
    why: "What has no name here cannot be looked at, nor be asked to work.",
    fix: "webhookctl context add NAME --refresh, after an update of the stack",
    judge: |facts| Ok(names(facts)),
};

fn account(facts: &Facts) -> Result<Finding, Unknown> {
    let caller = known(&facts.caller)?;
    Ok(match &facts.expected_account {
        Some(expected) if *expected != caller.account => {
            Finding::fail(format!("account {}, as {}", caller.account, caller.arn))
                .want(format!("account {expected}"))
        }
        _ => Finding::pass(format!("{}, as {}", caller.account, caller.arn)),
    })
}

/// What a stack has only where it was asked for.
const OPTIONAL: &str = "secrets_manager_prefix";

fn names(facts: &Facts) -> Finding {
    let mut names = facts.names.clone();
    let missing: Vec<&str> = names
        .fields()
        .into_iter()
        .filter(|(word, _, name)| name.is_none() && *word != OPTIONAL)
        .map(|(word, _, _)| word)
        .collect();
    if missing.is_empty() {
        return Finding::pass("all 12");
    }
    Finding::warn(format!("no {}", missing.join(", ")))
}
