//! The text output of `send`.

use std::collections::BTreeMap;
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
    /// Whether the text of a webhook is one line.
    short: bool,
}

/// The results of all webhooks of one command.
#[derive(Default)]
pub(super) struct Sum {
    /// The number of webhooks by the status of the response.
    statuses: BTreeMap<u16, u32>,
    duplicates: u32,
}

impl Sum {
    pub(super) fn add(&mut self, told: &Told) {
        *self.statuses.entry(told.status).or_default() += 1;
        self.duplicates += u32::from(told.duplicate);
    }

    /// Returns the counts, such as `20 sent · 200 OK: 18 · 429 Too Many Requests: 2`.
    pub(super) fn text(&self) -> String {
        let all: u32 = self.statuses.values().sum();
        let mut parts = vec![format!("{} sent", thousands(all))];
        let statuses = self.statuses.iter();
        parts.extend(
            statuses.map(|(status, count)| {
                format!("{status}{}: {}", reason(*status), thousands(*count))
            }),
        );
        if self.duplicates > 0 {
            parts.push(plural(self.duplicates, "duplicate"));
        }
        parts.join(" · ")
    }
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
            short: false,
        }
    }

    /// Describes each webhook on one line if `short` is true.
    pub(super) fn short(self, short: bool) -> Self {
        Self { short, ..self }
    }

    /// Uses a description that the caller gives.
    pub(super) fn said(signed: String) -> Self {
        Self {
            signed,
            short: false,
        }
    }

    pub(super) fn text(&self, told: &Told) -> String {
        let mut text = String::new();
        if !self.short {
            text = aligned(&[vec![
                format!("POST {}", told.url),
                told.preset.clone(),
                told.kind.clone(),
                format!("{}{}", told.provider_id, told.note),
            ]]);
            let bytes = thousands(told.bytes);
            let _ = writeln!(text, "  {}, {bytes} bytes", self.signed);
        }
        let reason = reason(told.status);
        let mut answer = vec![format!("{}{reason} in {}ms", told.status, told.took_ms)];
        answer.extend(told.id.clone());
        let kept = told.quarantined.as_ref();
        answer.extend(kept.map(|id| format!("stored in the quarantine as {id}")));
        let response = told.response.as_deref().map(str::trim);
        let response = response.filter(|text| !text.is_empty());
        answer.extend(response.map(|text| capped(text, SHOWN).into_owned()));
        text.push_str(answer.join("  ").trim_end());
        text.push_str(if self.short { "  " } else { "\n" });
        text.push_str(&outcome(told));
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}

/// Describes what happened to the event.
fn outcome(told: &Told) -> String {
    if told.duplicate {
        return "○ duplicate: the inbox has this event, so no action runs again".to_owned();
    }
    let (Some(outcome), Some(attempts)) = (&told.outcome, told.attempts) else {
        return String::new();
    };
    let attempts = plural(attempts, "attempt");
    let took = told.outcome_ms.unwrap_or_default();
    let mark = match outcome.as_str() {
        "done" => "●",
        "failed" => "▲",
        "dead_letter" => "■",
        _ => "◐",
    };
    format!("{mark} {outcome} in {took}ms, {attempts}")
}

/// Returns the HTTP reason phrase of a status.
fn reason(status: u16) -> String {
    let known = reqwest::StatusCode::from_u16(status).ok();
    let reason = known.and_then(|status| status.canonical_reason());
    reason.map_or_else(String::new, |reason| format!(" {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_counts_statuses_and_duplicates() {
        let mut sum = Sum::default();
        for (status, duplicate) in [(200, false), (200, true), (429, false)] {
            sum.add(&Told {
                status,
                duplicate,
                ..Told::default()
            });
        }
        let text = "3 sent · 200 OK: 2 · 429 Too Many Requests: 1 · 1 duplicate";
        assert_eq!(sum.text(), text);
    }

    #[test]
    fn a_duplicate_is_named_and_many_webhooks_have_one_line_each() {
        let words = Words::said("signed".to_owned());
        let told = Told {
            status: 200,
            id: Some("evt_1".to_owned()),
            outcome: Some("done".to_owned()),
            attempts: Some(1),
            duplicate: true,
            ..Told::default()
        };
        let text = words.text(&told);
        assert!(
            text.contains("○ duplicate") && !text.contains("● done"),
            "{text}"
        );
        let short = words.short(true).text(&told);
        assert_eq!(short.lines().count(), 1, "{short}");
    }
}
