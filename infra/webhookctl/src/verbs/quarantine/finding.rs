//! Verifies rejected requests with the current secrets.

use shared::base::clock::UnixMillis;
use shared::inbox::rejected::{RejectedRequest, Verdict};
use shared::sources::Config;

use super::reach::Keys;
use crate::output::time::short;

/// The precision of times in Parameter Store is one second.
const SECOND_MS: i64 = 1000;

/// A rejected request, and what the catcher's verification returns with the current secrets.
pub(super) struct Found<'h> {
    pub(super) held: &'h RejectedRequest,
    /// The result. It is `None` if the request was released before, if its source is no longer
    /// configured, or if the secrets cannot be read.
    pub(super) verdict: Option<Verdict>,
    /// The time when the matching secret was stored.
    pub(super) added: Option<UnixMillis>,
}

impl<'h> Found<'h> {
    pub(super) fn new(held: &'h RejectedRequest, config: &Config, keys: Option<&Keys>) -> Self {
        let source = config.source(&held.source);
        let verdict = match (source, keys) {
            (Some(source), Some(keys)) if held.released.is_none() => {
                Some(held.verdict(&source.verifier, keys.of(&held.source)))
            }
            _ => None,
        };
        let added = match (&verdict, keys) {
            (Some(Verdict::Genuine(event)), Some(keys)) => {
                let label = event.secret();
                label.and_then(|label| keys.added(&held.source, label))
            }
            _ => None,
        };
        Self {
            held,
            verdict,
            added,
        }
    }

    /// Returns whether the request arrived before the matching secret was stored. This explains why
    /// the catcher rejected it.
    pub(super) fn came_before(&self) -> bool {
        self.added
            .is_some_and(|added| self.held.received_at.0 < added.0 + SECOND_MS)
    }

    /// Returns the label of the matching secret.
    pub(super) fn secret(&self) -> Option<&str> {
        match &self.verdict {
            Some(Verdict::Genuine(event)) => Some(event.secret().unwrap_or("-")),
            _ => None,
        }
    }

    /// Returns whether `reverify` accepts the request.
    pub(super) fn is_genuine(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Genuine(_) | Verdict::Handshake))
    }

    pub(super) fn text(&self) -> String {
        if let Some(released) = &self.held.released {
            return match &released.key {
                Some(key) => format!("released as {key}"),
                None => "released as a handshake".to_owned(),
            };
        }
        match &self.verdict {
            None => "not checked".to_owned(),
            Some(Verdict::Genuine(event)) => {
                format!("matches secret {}", event.secret().unwrap_or("-"))
            }
            Some(Verdict::Handshake) => "matches, but is only a handshake".to_owned(),
            Some(Verdict::Refused(reason)) => format!("still {reason}"),
            Some(Verdict::Damaged) => {
                "damaged: the stored body differs from the received body".to_owned()
            }
        }
    }
}

/// Returns a text such as `, added 09:14`, if the time is known.
pub(super) fn added(at: Option<UnixMillis>, now: UnixMillis) -> String {
    at.map_or_else(String::new, |at| format!(", added {}", short(at.0, now.0)))
}

/// Describes a reason. A reason that newer code has stored gets a general text.
pub(super) fn what(reason: &str) -> &'static str {
    match reason {
        "missing_header" => "a header that the scheme needs is missing",
        "missing_field" => "a field that the scheme needs is missing",
        "malformed_signature" => "the signature does not have the format of the scheme",
        "malformed_timestamp" => "the signed timestamp is invalid",
        "malformed_body" => "the body cannot be read",
        "unknown_version" => "no signature has a supported version",
        "bad_signature" => "the signature does not match",
        "timestamp_too_old" => "the signature is valid, but the timestamp is too old",
        "timestamp_in_future" => "the signature is valid, but the timestamp is in the future",
        "duplicate_header" => "a header that may occur only once occurs twice",
        _ => "rejected",
    }
}
