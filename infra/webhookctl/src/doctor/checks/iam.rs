//! What you may do. Each action is tried, in a way that changes nothing.

use crate::doctor::{Check, Facts, Finding, Unknown};

pub(super) static READ: Check = Check {
    name: "iam.read",
    title: "You may read everything that is looked at here",
    why: "What you may not read is not checked, and commands that read it fail.",
    fix: "add the actions that are named to your IAM policy",
    judge: |facts| Ok(read(facts)),
};

pub(super) static WRITE: Check = Check {
    name: "iam.write",
    title: "You may change rows",
    why: "Replays, redrives, releases and erasures need it. It is tried with a condition that never holds, so \
          that nothing changes.",
    fix: "add dynamodb:UpdateItem on the table to your IAM policy; reading does without",
    judge: write,
};

fn read(facts: &Facts) -> Finding {
    let denied = facts.denied();
    if denied.is_empty() {
        return Finding::pass("all that was tried");
    }
    let denied: Vec<&str> = denied.into_iter().collect();
    let actions = denied.iter().map(|action| format!("\"{action}\""));
    let actions = actions.collect::<Vec<_>>().join(", ");
    Finding::fail(format!("not allowed: {}", denied.join(", ")))
        .fix(format!("allow {actions} on the stack"))
}

/// Not being allowed to is no fault: many only look.
fn write(facts: &Facts) -> Result<Finding, Unknown> {
    match &facts.may_write {
        Ok(()) => Ok(Finding::pass("dynamodb:UpdateItem")),
        Err(Unknown::Denied(action)) => Ok(Finding::not_checked(format!(
            "{action} is missing; reading does without"
        ))),
        Err(unknown) => Err(unknown.clone()),
    }
}
