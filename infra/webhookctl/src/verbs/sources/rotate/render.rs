//! The messages of `rotate-secret`.

use shared::aws::secrets::{FRESH, REREAD};
use shared::inbox::ledger::OperatorFlag;
use shared::sources::Source;

use super::super::rotation::{LATELY, Rotation};
use super::{Rotated, Told};
use crate::output::CliError;
use crate::output::count::{plural, thousands};
use crate::output::time::{duration, rfc3339};

fn names(secrets: &[Told]) -> String {
    let name = |one: &Told| format!("{} {}", one.slot, one.fingerprint);
    secrets.iter().map(name).collect::<Vec<_>>().join(", ")
}

pub(super) fn begun(rotated: &Rotated) -> String {
    let within = duration(REREAD.as_secs());
    match rotated.accepted.split_first() {
        Some((new, [])) => format!(
            "  ✓ {} accepted within {within}\n",
            names(std::slice::from_ref(new))
        ),
        Some((new, old)) => format!(
            "  ✓ {} accepted within {within}; {} accepted until the rotation ends, due {}\n",
            names(std::slice::from_ref(new)),
            names(old),
            rotated.until.as_deref().unwrap_or_default()
        ),
        None => String::new(),
    }
}

pub(super) fn ended(rotated: &Rotated) -> String {
    format!(
        "  ✓ {} accepted; {} rejected within {}\n",
        names(&rotated.accepted),
        names(&rotated.gone),
        duration(FRESH.as_secs())
    )
}

/// Returns a text such as `v4 signed 212 requests in the last 10 minutes, v5 none`.
pub(super) fn counts(goes: &[String], count: u64, stays: &str, stays_count: u64) -> String {
    let other = match stays_count {
        0 => "none".to_owned(),
        count => thousands(count),
    };
    format!(
        "{} signed {} in the last {} minutes, {stays} {other}",
        goes.join(", "),
        plural(count, "request"),
        LATELY.as_secs() / 60
    )
}

pub(super) fn early(said: String, tip: &str) -> CliError {
    CliError::refused("sources.rotate_early", said)
        .note("if the rotation ends now, the catcher rejects these requests")
        .tip(tip)
}

pub(super) fn mismatch(name: &str, confirmed: &str) -> CliError {
    CliError::refused(
        "sources.confirm_mismatch",
        format!("the source is {name}, but --confirm is {confirmed}; nothing was changed"),
    )
}

/// Returns the error for a rotation that is in progress in Secrets Manager, because that rotation
/// will move the labels.
pub(super) fn pending(source: &Source) -> CliError {
    CliError::refused(
        "sources.pending",
        format!(
            "Secrets Manager is rotating the secret of {}: a version has the label AWSPENDING",
            source.name
        ),
    )
    .note("the catcher already accepts this version; nothing was changed")
    .tip(
        "let that rotation end, or cancel it (aws secretsmanager cancel-rotate-secret) and remove \
         the label that remains (update-secret-version-stage)",
    )
}

pub(super) fn under_way_already(
    source: &Source,
    rotation: &Rotation,
    notice: &OperatorFlag,
) -> CliError {
    CliError::refused(
        "sources.rotating",
        format!(
            "a rotation of {} is in progress: {} started it {}",
            source.name,
            notice.who,
            rfc3339(notice.at.0)
        ),
    )
    .note(format!(
        "the new secret is {}; the old secret is {}",
        rotation.new,
        rotation.old.join(", ")
    ))
    .tip(format!(
        "webhookctl sources rotate-secret {} --finish, or --abort",
        source.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_still_arrives_is_counted_in_words() {
        let said = counts(&["v4".into()], 212, "v5", 0);
        assert_eq!(
            said,
            "v4 signed 212 requests in the last 10 minutes, v5 none"
        );
    }
}
