//! The answers of destinations to the attempts of an event.

use std::fmt::Write as _;

use serde::Serialize;
use shared::delivery::answers::KeptAnswer;

use crate::output::safe::capped;
use crate::output::table::aligned;
use crate::output::time::{as_rfc3339, clock};

/// What stands in the place of a text that is not shown.
const HIDDEN: &str = "hidden; --reveal shows it";

/// The maximum length of a text. A kept text is shorter.
const LINE_CAP: usize = 1000;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answer {
    pub effect: String,
    pub run: u64,
    pub attempt: u32,
    #[serde(serialize_with = "as_rfc3339")]
    pub at: i64,
    pub took_ms: u64,
    /// It is missing if the destination did not answer.
    pub status: Option<u16>,
    pub request_id: Option<String>,
    pub content_type: Option<String>,
    /// It is missing without `--reveal`, and if no text was kept.
    pub text: Option<String>,
    /// Whether `--reveal` would show a text.
    pub text_hidden: bool,
}

impl Answer {
    pub(crate) fn of(kept: KeptAnswer, reveal: bool) -> Self {
        Self {
            effect: kept.effect,
            run: kept.run,
            attempt: kept.attempt,
            at: kept.at.0,
            took_ms: u64::try_from(kept.took.as_millis()).unwrap_or(u64::MAX),
            status: kept.status,
            request_id: kept.request_id,
            content_type: kept.content_type,
            text_hidden: kept.text.is_some() && !reveal,
            text: kept.text.filter(|_| reveal),
        }
    }
}

/// Returns two lines for each answer: its facts, and its text.
pub(crate) fn lines(answers: &[Answer], now_millis: i64) -> String {
    let facts = answers.iter().map(|answer| {
        let status = answer
            .status
            .map_or("no answer".to_owned(), |status| status.to_string());
        vec![
            format!("  {}", answer.effect),
            format!("attempt {}", answer.attempt),
            status,
            format!("{} ms", answer.took_ms),
            clock(answer.at, now_millis),
            answer.content_type.clone().unwrap_or_default(),
            answer
                .request_id
                .as_ref()
                .map(|id| format!("id {id}"))
                .unwrap_or_default(),
        ]
    });
    let facts = aligned(&facts.collect::<Vec<_>>());
    let mut text = String::new();
    for (line, answer) in facts.lines().zip(answers) {
        let _ = writeln!(text, "{line}");
        let said = match &answer.text {
            Some(said) => capped(said, LINE_CAP),
            None if answer.text_hidden => HIDDEN.into(),
            None => continue,
        };
        let _ = writeln!(text, "    {said}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shared::base::clock::UnixMillis;

    use super::*;
    use crate::inspect::tests::NOW;

    fn kept(attempt: u32, status: Option<u16>, text: Option<&str>) -> KeptAnswer {
        KeptAnswer {
            effect: "orders".into(),
            run: 0,
            attempt,
            at: UnixMillis(NOW - 60_000),
            took: Duration::from_millis(31),
            status,
            request_id: status.map(|_| "req_1".into()),
            content_type: status.map(|_| "text/plain".into()),
            text: text.map(str::to_owned),
        }
    }

    fn shown(reveal: bool) -> String {
        let answers = [
            kept(1, Some(404), Some("Cannot POST\u{1b}[31m /hooks")),
            kept(2, None, None),
        ];
        lines(&answers.map(|kept| Answer::of(kept, reveal)), NOW)
    }

    #[test]
    fn the_text_of_an_answer_is_shown_only_when_asked_for() {
        let hidden = shown(false);
        assert!(hidden.contains("attempt 1"), "{hidden}");
        assert!(hidden.contains("404"), "{hidden}");
        assert!(
            hidden.contains("\n    hidden; --reveal shows it\n"),
            "{hidden}"
        );
        assert!(!hidden.contains("Cannot POST"), "{hidden}");
        let revealed = shown(true);
        assert!(
            revealed.contains("\n    Cannot POST␛[31m /hooks\n"),
            "{revealed}"
        );
        assert!(revealed.contains("no answer"), "{revealed}");
        let json = serde_json::to_value(Answer::of(kept(1, Some(404), Some("x")), false)).unwrap();
        assert_eq!(
            (&json["text"], &json["text_hidden"]),
            (&None::<&str>.into(), &true.into())
        );
    }
}
