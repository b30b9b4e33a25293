//! Events that need an operator.

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Unknown};

pub(super) static DEAD_LETTERS: Check = Check {
    name: "event.dead_letters",
    title: "No event is a dead letter",
    why: "A dead letter was acknowledged and is not done; Mitt does not process it until an \
          operator replays it.",
    fix: "run webhookctl inbox list --status dead_letter",
    judge: dead_letters,
};

fn dead_letters(facts: &Facts) -> Result<Finding, Unknown> {
    let dead = known(&facts.dead_letters)?;
    if dead.count == 0 {
        return Ok(Finding::pass("none"));
    }
    Ok(Finding::warn(dead.of("dead letter")))
}
