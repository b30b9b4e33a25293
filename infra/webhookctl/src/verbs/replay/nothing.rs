//! The error of a redrive that ran nothing, and the command that can help.

use std::collections::BTreeMap;

use super::decision::LeftOut;
use crate::cli::ReplayMode;
use crate::output::CliError;
use crate::output::count::plural;
use crate::target::Deployment;

/// Returns the error: nothing was selected that can run, or the mode excluded all of it. `flags` is
/// the selection as arguments, if it can be repeated.
pub(super) fn to_redrive(
    left: &BTreeMap<LeftOut, u64>,
    mode: ReplayMode,
    flags: Option<&str>,
    inbox: &Deployment,
) -> CliError {
    let details = left
        .iter()
        .map(|(why, count)| format!("{count}  {}", why.text()));
    let details: Vec<String> = details.collect();
    let guarded = left.keys().filter(|why| is_guarded(**why));
    let Some(why) = guarded.min_by_key(|why| rank(**why)) else {
        let message = if left.is_empty() {
            format!("no dead letter in {} matches", inbox.name)
        } else {
            let count = plural(
                usize::try_from(left.values().sum::<u64>()).unwrap_or(usize::MAX),
                "selected dead letter",
            );
            format!("none of the {count} can run again")
        };
        return CliError::not_found("dlq.nothing", message)
            .details(details)
            .note("nothing was replayed")
            .tip("webhookctl dlq list");
    };
    let message = format!(
        "--mode {} excludes every selected dead letter",
        mode.as_str()
    );
    let error = CliError::refused("dlq.guarded", message)
        .details(details)
        .note("nothing was replayed");
    match (why, flags) {
        (LeftOut::EffectUnknown, Some(flags)) => error.tip(format!(
            "webhookctl dlq redrive {flags} --mode guarded -m 'why'"
        )),
        (LeftOut::KeyTooOld, Some(flags)) => error.tip(format!(
            "webhookctl replay plan {flags} --mode guarded --accept-duplicate-risk"
        )),
        (_, Some(flags)) => error.tip(format!("webhookctl inbox list {flags}")),
        (_, None) => error.tip("webhookctl dlq list"),
    }
}

/// Whether a dead letter is left out to protect the destination from a repeated effect.
fn is_guarded(why: LeftOut) -> bool {
    matches!(
        why,
        LeftOut::EffectUnknown | LeftOut::NoKey | LeftOut::KeyTooOld
    )
}

/// The reason for which a command helps most comes first.
fn rank(why: LeftOut) -> u8 {
    match why {
        LeftOut::EffectUnknown => 0,
        LeftOut::KeyTooOld => 1,
        _ => 2,
    }
}
