//! The table of the ledger.

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Unknown, Verdict};

/// The indexes that the ledger queries.
const INDEXES: [&str; 2] = ["time", "work"];

/// The TTL attribute of a row.
const TTL_BY: &str = "ttl";

pub(super) static ACTIVE: Check = Check {
    name: "table.active",
    title: "The table and its indexes are active",
    why: "Without the index `work`, the sweep finds no retries that are due. Without the index \
          `time`, neither the sweep nor a command finds events by their time of receipt.",
    fix: "wait while an index is being built; if an index is missing, deploy the template again",
    judge: active,
};

pub(super) static TTL: Check = Check {
    name: "table.ttl",
    title: "DynamoDB deletes expired rows",
    why: "Without time to live, the table grows without limit, and expired data is kept.",
    fix: "aws dynamodb update-time-to-live --table-name … --time-to-live-specification \
          Enabled=true,AttributeName=ttl",
    judge: ttl,
};

pub(super) static RECOVERY: Check = Check {
    name: "table.recovery",
    title: "The table can be restored to any second of the last 35 days",
    why: "Without point-in-time recovery, you cannot undo wrong changes by Mitt or by an operator.",
    fix: "aws dynamodb update-continuous-backups --table-name … --point-in-time-recovery-specification \
          PointInTimeRecoveryEnabled=true",
    judge: recovery,
};

pub(super) static PROTECTED: Check = Check {
    name: "table.protected",
    title: "The table cannot be deleted by mistake",
    why: "The table contains acknowledged events that are not done yet, and no provider sends them \
          again.",
    fix: "aws dynamodb update-table --table-name … --deletion-protection-enabled",
    judge: protected,
};

fn active(facts: &Facts) -> Result<Finding, Unknown> {
    let table = known(&facts.table)?;
    let mut lines = Vec::new();
    if !matches!(table.status.as_str(), "ACTIVE" | "UPDATING") {
        lines.push(format!("the table is {}", table.status.to_lowercase()));
    }
    for index in INDEXES {
        match table.indexes.get(index).map(String::as_str) {
            None => lines.push(format!("the index {index} is missing")),
            Some("ACTIVE" | "UPDATING") => {}
            Some(status) => lines.push(format!("the index {index} is {}", status.to_lowercase())),
        }
    }
    let well = format!("with {} indexes", INDEXES.len());
    Ok(Finding::of_each(Verdict::Fail, lines, well))
}

fn ttl(facts: &Facts) -> Result<Finding, Unknown> {
    Ok(match known(&facts.ttl)?.as_deref() {
        Some(TTL_BY) => Finding::pass(format!("attribute {TTL_BY}")),
        Some(other) => {
            Finding::fail(format!("attribute {other}")).want(format!("attribute {TTL_BY}"))
        }
        None => Finding::fail("off").want(format!("attribute {TTL_BY}")),
    })
}

fn recovery(facts: &Facts) -> Result<Finding, Unknown> {
    Ok(if *known(&facts.recovery)? {
        Finding::pass("on")
    } else {
        Finding::fail("off").want("on")
    })
}

fn protected(facts: &Facts) -> Result<Finding, Unknown> {
    Ok(match known(&facts.table)?.deletion_protection {
        Some(true) => Finding::pass("deletion protection is on"),
        Some(false) => Finding::warn("deletion protection is off"),
        None => return Err(Unknown::NotHere),
    })
}
