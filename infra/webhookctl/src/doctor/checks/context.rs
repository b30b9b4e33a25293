//! Checks whether the context names the intended account and all resources.

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Unknown};

pub(super) static ACCOUNT: Check = Check {
    name: "context.account",
    title: "The credentials belong to the account of the context",
    why: "Stacks of two accounts can have the same names, and a change would go to the wrong \
          stack.",
    fix: "pass --profile NAME with a profile of this account, or correct `account` of the context",
    judge: account,
};

pub(super) static NAMES: Check = Check {
    name: "context.names",
    title: "The context names every resource of the stack",
    why: "`doctor` and other commands cannot read or call a resource that the context \
          does not name.",
    fix: "run webhookctl context add NAME --refresh after an update of the stack",
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

/// The names that a context can lack. Only stacks with the parameter `SecretsManagerPrefix` have the
/// first, only stacks with long actions the next two, and no local stack the last.
const OPTIONAL: [&str; 4] = [
    "secrets_manager_prefix",
    "long_queue_url",
    "long_processor",
    "version",
];

fn names(facts: &Facts) -> Finding {
    let mut names = facts.names.clone();
    let has_long = facts.reported_long_actions() == Some(true);
    let (named, unnamed): (Vec<_>, Vec<_>) = names
        .fields()
        .into_iter()
        .partition(|(_, _, name)| name.is_some());
    let missing: Vec<&str> = unnamed
        .iter()
        .map(|(word, _, _)| *word)
        .filter(|word| !OPTIONAL.contains(word) || has_long && word.starts_with("long_"))
        .collect();
    if missing.is_empty() {
        return Finding::pass(format!("all {}", named.len()));
    }
    Finding::warn(format!("missing: {}", missing.join(", ")))
}
