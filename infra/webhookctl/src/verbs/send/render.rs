//! The text output of `send`.

use std::fmt::Write as _;

use super::Told;
use super::target::Target;
use crate::cli::Tamper;
use crate::output::count::{plural, thousands};
use crate::output::safe::capped;
use crate::output::table::aligned;
use crate::preset_text as words;
use crate::samples::Signer;

/// The maximum number of characters of a response in the output.
const SHOWN: usize = 300;

/// Describes how the webhooks of one command are signed.
pub(super) struct Words {
    signed: String,
}

impl Words {
    pub(super) fn new(target: &Target, tamper: Option<Tamper>) -> Self {
        let scheme = target.scheme().ok();
        let message = scheme.map(words::message).unwrap_or_default();
        let after = match (tamper, &target.signer) {
            (None, Signer::Secret(secret)) => {
                format!(" with secret {} ({})", secret.label(), secret.fingerprint())
            }
            (None, Signer::KeyPair(pair)) => format!(" with a private key of {}", pair.algorithm()),
            (None, Signer::Unsigned) => " (no signature)".to_owned(),
            (Some(Tamper::Body), _) => ", then one byte of the body changed".to_owned(),
            (Some(Tamper::Signature), _) => {
                ", then one character of the signature changed".to_owned()
            }
            (Some(Tamper::Timestamp), _) => " with a timestamp that is too old".to_owned(),
            (Some(Tamper::Secret), Signer::KeyPair(_)) => " with another private key".to_owned(),
            (Some(Tamper::Secret), _) => " with another secret".to_owned(),
        };
        Self {
            signed: format!("signed {message}{after}"),
        }
    }

    /// Uses a description that the caller gives.
    pub(super) fn said(signed: String) -> Self {
        Self { signed }
    }

    pub(super) fn text(&self, told: &Told) -> String {
        let mut text = aligned(&[vec![
            format!("POST {}", told.url),
            told.preset.clone(),
            told.kind.clone(),
            format!("{}{}", told.provider_id, told.note),
        ]]);
        let bytes = thousands(told.bytes);
        let _ = writeln!(text, "  {}, {bytes} bytes", self.signed);
        let reason = reason(told.status);
        let mut answer = vec![format!("{}{reason} in {}ms", told.status, told.took_ms)];
        answer.extend(told.id.clone());
        let kept = told.quarantined.as_ref();
        answer.extend(kept.map(|id| format!("stored in the quarantine as {id}")));
        let response = told.response.as_deref().map(str::trim);
        let response = response.filter(|text| !text.is_empty());
        answer.extend(response.map(|text| capped(text, SHOWN).into_owned()));
        let _ = writeln!(text, "{}", answer.join("  ").trim_end());
        if let (Some(outcome), Some(attempts)) = (&told.outcome, told.attempts) {
            let attempts = plural(attempts, "attempt");
            let took = told.outcome_ms.unwrap_or_default();
            let mark = match outcome.as_str() {
                "done" => "●",
                "failed" => "▲",
                "dead_letter" => "■",
                _ => "◐",
            };
            let _ = writeln!(text, "{mark} {outcome} in {took}ms, {attempts}");
        }
        text
    }
}

/// Returns the HTTP reason phrase of a status.
fn reason(status: u16) -> String {
    let known = reqwest::StatusCode::from_u16(status).ok();
    let reason = known.and_then(|status| status.canonical_reason());
    reason.map_or_else(String::new, |reason| format!(" {reason}"))
}
