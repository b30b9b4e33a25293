//! Checks the permissions of the operator. The checks try each action in a way that changes
//! nothing.

use crate::doctor::{Check, Facts, Finding, Unknown};

pub(super) static READ: Check = Check {
    name: "iam.read",
    title: "You may read everything that doctor checks",
    why: "If you may not read a resource, `doctor` does not check it, and commands that read it \
          fail.",
    fix: "add the actions that the check names to your IAM policy",
    judge: |facts| Ok(read(facts)),
};

pub(super) static WRITE: Check = Check {
    name: "iam.write",
    title: "You may change rows",
    why: "Replays, redrives, releases and erasures need this permission. `doctor` tries a write \
          with a condition that never holds, so nothing changes.",
    fix: "add dynamodb:UpdateItem on the table to your IAM policy; commands that only read do not \
          need it",
    judge: write,
};

fn read(facts: &Facts) -> Finding {
    let denied = facts.denied();
    if denied.is_empty() {
        return Finding::pass("all actions allowed");
    }
    let denied: Vec<&str> = denied.into_iter().collect();
    let actions = denied.iter().map(|action| format!("\"{action}\""));
    let actions = actions.collect::<Vec<_>>().join(", ");
    Finding::fail(format!("not allowed: {}", denied.join(", ")))
        .fix(format!("allow {actions} on the stack"))
}

/// A missing write permission is not a fault: many operators only read.
fn write(facts: &Facts) -> Result<Finding, Unknown> {
    match &facts.may_write {
        Ok(()) => Ok(Finding::pass("dynamodb:UpdateItem")),
        Err(Unknown::Denied(action)) => Ok(Finding::not_checked(format!(
            "{action} is missing; commands that only read do not need it"
        ))),
        Err(unknown) => Err(unknown.clone()),
    }
}
