//! What can be said of a refused request today.

use shared::base::clock::UnixMillis;
use shared::inbox::rejected::{RejectedRequest, Verdict};
use shared::sources::Config;

use super::reach::Keys;
use crate::output::time::short;

/// The parameter store says when it stored something to the second.
const SECOND_MS: i64 = 1000;

/// A request, and what the catcher's own verification says of it with today's secrets.
pub(super) struct Found<'h> {
    pub(super) held: &'h RejectedRequest,
    /// `None` when nobody asked: it was released, or the secrets cannot be read.
    pub(super) verdict: Option<Verdict>,
    /// When the secret that matches was stored.
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

    /// Whether it came before the secret that matches was there: then nothing is strange about it.
    pub(super) fn came_before(&self) -> bool {
        self.added
            .is_some_and(|added| self.held.received_at.0 < added.0 + SECOND_MS)
    }

    /// The label of the secret that matches now.
    pub(super) fn secret(&self) -> Option<&str> {
        match &self.verdict {
            Some(Verdict::Genuine(event)) => Some(event.secret().unwrap_or("-")),
            _ => None,
        }
    }

    /// Whether it leaves the quarantine when it is asked to.
    pub(super) fn is_genuine(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Genuine(_) | Verdict::Handshake))
    }

    pub(super) fn text(&self) -> String {
        if let Some(released) = &self.held.released {
            return match &released.key {
                Some(key) => format!("released as {key}"),
                None => "was only a handshake".to_owned(),
            };
        }
        match &self.verdict {
            None => "not checked".to_owned(),
            Some(Verdict::Genuine(event)) => {
                format!("matches secret {}", event.secret().unwrap_or("-"))
            }
            Some(Verdict::Handshake) => "matches, but is only a handshake".to_owned(),
            Some(Verdict::Refused(reason)) => format!("still {reason}"),
            Some(Verdict::Damaged) => "damaged: what is stored is not what arrived".to_owned(),
        }
    }
}

/// `, added 09:14`, of a secret whose time is known.
pub(super) fn added(at: Option<UnixMillis>, now: UnixMillis) -> String {
    at.map_or_else(String::new, |at| format!(", added {}", short(at.0, now.0)))
}

/// A reason in words. A reason of newer code has none here.
pub(super) fn what(reason: &str) -> &'static str {
    match reason {
        "missing_header" => "a header that the scheme needs is missing",
        "missing_field" => "a field that the scheme needs is missing",
        "malformed_signature" => "the signature is not written as the scheme writes it",
        "malformed_timestamp" => "the signed time is no time",
        "malformed_body" => "the body cannot be read",
        "unknown_version" => "no signature of a version that counts",
        "bad_signature" => "the signature does not match",
        "timestamp_too_old" => "rightly signed, but too long ago",
        "timestamp_in_future" => "rightly signed, but in the future",
        "duplicate_header" => "a header that may stand once stood there twice",
        _ => "refused",
    }
}
