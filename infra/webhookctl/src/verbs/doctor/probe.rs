//! Converts failed calls to [`Unknown`] facts.

use std::error::Error;

use crate::doctor::{Known, Unknown};
use crate::output::aws::{Place, rewrite};

/// Returns the answer of a call, or the reason why the fact is unknown. `action` is the IAM action
/// that the call needs.
pub(super) fn asked<T, E>(action: &'static str, answer: Result<T, E>) -> Known<T>
where
    E: Error + Send + Sync + 'static,
{
    answer.map_err(|error| unknown(action, &anyhow::Error::new(error)))
}

/// Like [`asked`], for a call of the ledger.
pub(in crate::verbs) fn told<T>(action: &'static str, answer: anyhow::Result<T>) -> Known<T> {
    answer.map_err(|error| unknown(action, &error))
}

fn unknown(action: &'static str, error: &anyhow::Error) -> Unknown {
    // An emulator answers with one of these codes if it does not implement a call.
    let text = format!("{error:#}");
    let is_strange = [
        "UnknownOperation",
        "InvalidAction",
        "does not have the action",
    ];
    if is_strange.iter().any(|word| text.contains(word)) {
        return Unknown::NotHere;
    }
    let ours = rewrite(error, &Place::default());
    if ours.code == "auth.denied" {
        return Unknown::Denied(action.to_owned());
    }
    Unknown::Failed(format!("{action}: {}", ours.message))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_refusal_is_told_from_a_call_that_is_not_there() {
        let said = |text: &str| unknown("sqs:GetQueueAttributes", &anyhow!("{text}"));
        assert_eq!(
            said("unhandled error (AccessDenied)"),
            Unknown::Denied("sqs:GetQueueAttributes".to_owned())
        );
        assert_eq!(
            said("unhandled error (UnknownOperationException)"),
            Unknown::NotHere
        );
        let failed = Unknown::Failed("sqs:GetQueueAttributes: disk is full".to_owned());
        assert_eq!(said("disk is full"), failed);
    }
}
