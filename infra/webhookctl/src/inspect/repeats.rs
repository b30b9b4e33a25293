//! Why an event arrived or ran more than once: retries of the provider, copies of a request, or
//! replays of an operator.

use serde::Serialize;
use shared::inbox::ledger::{Repetitions, Row};
use shared::sources::Source;
use shared::webhook::event::Via;

use super::later;
use super::view::EventView;
use crate::output::count::{plural, thousands};
use crate::output::time::rfc3339;

/// The cause of the repetitions of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    None,
    /// The sender signed the event again, or its retries are copies.
    ProviderRetry,
    /// The same signed request arrived again, and the provider signs each retry anew. A proxy or
    /// the network repeated the request, or another party captured it.
    SuspiciousCopy,
    /// An operator ran the event again, or fetched it from the provider.
    OperatorReplay,
    /// There are several causes, and no copy is known to be suspicious.
    Mixed,
    /// A retry of the provider and a copy of a request look the same.
    Unknown,
}

/// What is known about the repetitions of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Repeats {
    pub counts: Repetitions,
    /// Whether the provider signs each retry anew. It is missing if the preset does not say so.
    pub resigned: Option<bool>,
    /// Whether an operator fetched the event from the provider, in addition to its webhook.
    pub fetched_by_operator: bool,
}

/// The field `repeats` of the document of an event.
#[derive(Serialize)]
pub(super) struct RepeatsDocument {
    resent: u64,
    copied: u64,
    repeated: u64,
    replays: usize,
    last_at: Option<String>,
    verdict: Verdict,
}

impl Repeats {
    pub(super) fn of(row: &Row, source: Option<&Source>) -> Self {
        let mut ways = row.also.iter().map(|also| also.via).chain([row.via]);
        Self {
            counts: row.repetitions,
            resigned: source.and_then(|source| source.verifier.preset.retry.resigned),
            fetched_by_operator: !row.also.is_empty() && ways.any(|via| via == Via::Recon),
        }
    }

    /// Returns the cause. A suspicious copy has priority over all other causes.
    fn verdict(&self, replays: usize) -> Verdict {
        let counts = &self.counts;
        let copied = counts.copied > 0;
        if copied && self.resigned == Some(true) {
            return Verdict::SuspiciousCopy;
        }
        let copies_are_retries = self.resigned == Some(false);
        let causes = [
            (
                counts.resent > 0 || copied && copies_are_retries,
                Verdict::ProviderRetry,
            ),
            (
                counts.repeated > 0 || copied && !copies_are_retries,
                Verdict::Unknown,
            ),
            (
                replays > 0 || self.fetched_by_operator,
                Verdict::OperatorReplay,
            ),
        ];
        let mut found = causes.into_iter().filter(|(is_cause, _)| *is_cause);
        match (found.next(), found.next()) {
            (None, _) => Verdict::None,
            (Some((_, verdict)), None) => verdict,
            (Some(_), Some(_)) => Verdict::Mixed,
        }
    }

    /// Explains the verdict.
    fn because(&self, verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::None => "none",
            Verdict::ProviderRetry => "retries of the provider; no unexpected copy",
            Verdict::SuspiciousCopy => {
                "suspicious: the provider signs each retry anew, so a copy is not its retry"
            }
            Verdict::OperatorReplay => "an operator ran or fetched the event again",
            Verdict::Mixed => "several causes; no copy is known to be suspicious",
            Verdict::Unknown if self.counts.copied > 0 => {
                "unknown: the preset does not say whether the provider signs a retry anew"
            }
            Verdict::Unknown => "unknown: no signed time tells a retry from a copy",
        }
    }
}

pub(super) fn document(view: &EventView) -> RepeatsDocument {
    let counts = &view.repeats.counts;
    let replays = view.replays.len();
    RepeatsDocument {
        resent: counts.resent,
        copied: counts.copied,
        repeated: counts.repeated,
        replays,
        last_at: counts.last.map(|at| rfc3339(at.0)),
        verdict: view.repeats.verdict(replays),
    }
}

/// Returns the line for an event that arrived or ran more than once. Otherwise empty.
pub(super) fn line(view: &EventView) -> String {
    let (repeats, replays) = (&view.repeats, view.replays.len());
    let verdict = repeats.verdict(replays);
    if verdict == Verdict::None {
        return String::new();
    }
    let counts = &repeats.counts;
    let all = [
        (counts.resent, "resent"),
        (counts.copied, "copied"),
        (counts.repeated, "repeated"),
    ];
    let found = all.iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = found
        .map(|(count, word)| format!("{} {word}", thousands(*count)))
        .collect();
    if let Some(last) = counts.last {
        parts.push(format!("last {}", later(last.0, view.received_at)));
    }
    if replays > 0 {
        parts.push(plural(replays, "replay"));
    }
    let because = repeats.because(verdict);
    if parts.is_empty() {
        return format!("  repeats {because}\n");
    }
    format!("  repeats {}: {because}\n", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use shared::base::clock::UnixMillis;

    use super::super::view::tests::example;
    use super::*;

    fn repeats([resent, copied, repeated]: [u64; 3], resigned: Option<bool>) -> Repeats {
        Repeats {
            counts: Repetitions {
                resent,
                copied,
                repeated,
                last: None,
            },
            resigned,
            fetched_by_operator: false,
        }
    }

    #[test]
    fn the_counts_and_the_preset_decide_the_verdict() {
        use Verdict::{Mixed, None, OperatorReplay, ProviderRetry, SuspiciousCopy, Unknown};
        let (unsaid, same, anew) = (Option::None, Some(false), Some(true));
        for (counts, resigned, replays, verdict) in [
            ([0, 0, 0], unsaid, 0, None),
            ([0, 0, 0], anew, 0, None),
            ([3, 0, 0], unsaid, 0, ProviderRetry),
            ([3, 0, 0], anew, 0, ProviderRetry),
            ([0, 2, 0], unsaid, 0, Unknown),
            ([0, 2, 0], same, 0, ProviderRetry),
            ([0, 2, 0], anew, 0, SuspiciousCopy),
            ([3, 2, 0], unsaid, 0, Mixed),
            ([3, 2, 0], same, 0, ProviderRetry),
            ([3, 1, 1], anew, 2, SuspiciousCopy),
            ([0, 0, 4], unsaid, 0, Unknown),
            ([0, 0, 4], anew, 0, Unknown),
            ([1, 0, 4], anew, 0, Mixed),
            ([0, 0, 0], unsaid, 1, OperatorReplay),
            ([1, 0, 0], anew, 1, Mixed),
        ] {
            let found = repeats(counts, resigned).verdict(replays);
            assert_eq!(found, verdict, "{counts:?} {resigned:?} {replays}");
        }
        let fetched = Repeats {
            fetched_by_operator: true,
            ..Repeats::default()
        };
        assert_eq!(fetched.verdict(0), OperatorReplay);
    }

    #[test]
    fn a_line_has_the_counts_and_the_reason() {
        let mut view = example();
        assert_eq!(line(&view), "");
        view.repeats = repeats([3, 0, 0], Some(true));
        view.repeats.counts.last = Some(UnixMillis(view.received_at + 7_860_000));
        assert_eq!(
            line(&view),
            "  repeats 3 resent, last 2h11m later: retries of the provider; no unexpected copy\n"
        );
        view.repeats.counts.copied = 1200;
        let text = line(&view);
        assert!(
            text.starts_with("  repeats 3 resent, 1,200 copied, last 2h11m later: suspicious: "),
            "{text}"
        );
    }

    #[test]
    fn the_document_has_the_counts_and_the_verdict() {
        let mut view = example();
        view.repeats = repeats([0, 2, 0], Some(true));
        let json = serde_json::to_value(document(&view)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"resent": 0, "copied": 2, "repeated": 0, "replays": 0,
                "last_at": null, "verdict": "suspicious_copy"})
        );
    }
}
