//! The trace as text: one line for each span, effects below their attempt.

use super::spans::{Span, Trace, What};
use crate::output::count::plural;
use crate::output::safe::capped;
use crate::output::table::aligned;
use crate::output::time::{clock, duration};

/// The maximum length of a text from outside.
const LONGEST: usize = 200;

pub(super) fn text(trace: &Trace, now_millis: i64) -> String {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let cut = |text: &str| capped(text, LONGEST).into_owned();
    let event = [
        trace.event.clone(),
        cut(&trace.source),
        cut(&trace.event_type),
        trace.status.to_string(),
    ];
    let mut head = vec![
        row("trace", trace.id.to_string()),
        row("event", event.join("  ")),
    ];
    if trace.deferrals > 0 {
        let times = plural(u64::from(trace.deferrals), "deferral");
        head.push(row("deferred", format!("{times} in this run")));
    }
    if let Some(link) = &trace.link {
        let sent = format!(
            "{}-{}  sent by the provider, not signed",
            link.trace_id, link.span_id
        );
        head.push(row("link", sent));
    }
    let spans: Vec<Vec<String>> = trace
        .spans
        .iter()
        .filter(|span| span.what != What::Wait || span.end != Some(span.start))
        .map(|span| line(span, trace, now_millis))
        .collect();
    format!("{}\n{}", aligned(&head), aligned(&spans))
}

fn line(span: &Span, trace: &Trace, now_millis: i64) -> Vec<String> {
    let indent = match span.what {
        What::Receipt => "",
        What::Effect if span.parent != trace.spans[0].id => "    ",
        What::Wait | What::Attempt | What::Effect | What::Operator => "  ",
    };
    let said = match (span.what, span.end, trace.due) {
        (What::Wait, None, Some(due)) => format!("until {}", clock(due, now_millis)),
        _ => span.outcome.clone(),
    };
    let detail = match (said.as_str(), span.detail.as_str()) {
        (said, "") => said.to_owned(),
        ("", detail) => capped(detail, LONGEST).into_owned(),
        (said, detail) => format!("{said}: {}", capped(detail, LONGEST)),
    };
    vec![
        format!("  {}", clock(span.start, now_millis)),
        match span.end {
            Some(end) if end > span.start => took(end - span.start),
            _ => String::new(),
        },
        format!("{indent}{}", capped(&span.name, LONGEST)),
        span.id.map(|id| id.to_string()).unwrap_or_default(),
        detail,
    ]
}

/// Returns a time span, such as `33ms`, `12.4s` or `1h02m`.
fn took(millis: i64) -> String {
    match millis {
        ..1000 => format!("{millis}ms"),
        1000..60_000 => format!("{}.{}s", millis / 1000, millis % 1000 / 100),
        _ => duration(millis / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::super::spans::tests::{NOW, retried};
    use super::*;
    use crate::output::safe::tests::{corpus, is_inert};

    #[test]
    fn a_trace_is_these_lines() {
        let text = text(&retried(), NOW);
        let expected = [
            "trace  001f89d7ca2ca83e415e661b0eed1325",
            "event  evt_",
            "",
            "  10:14:41.000         receipt      e83486e0a7562551  by webhook",
            "  10:14:41.000  33ms     wait       ",
            "  10:14:41.033  12.4s    attempt 1  ",
            "  10:14:53.433  10.0s    wait       ",
            "  10:15:03.433  500ms    attempt 2  021cccfb26504b13  done",
            "  10:15:03.900             orders   1e80fbd3c3225e67  committed: 200",
        ];
        assert_eq!(text.lines().count(), expected.len(), "{text}");
        for (line, expected) in text.lines().zip(expected) {
            assert!(line.starts_with(expected), "{line:?}\n{text}");
        }
        assert!(text.contains("failed: orders: answered 502"), "{text}");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let all = [0, 999, 1000, 12_449, 59_999, 60_000, 3_720_000].map(took);
        assert_eq!(
            all,
            ["0ms", "999ms", "1.0s", "12.4s", "59.9s", "1m", "1h02m"]
        );
    }

    #[test]
    fn a_hostile_event_stays_inert() {
        for text in corpus() {
            let mut trace = retried();
            trace.source.clone_from(&text);
            trace.event_type.clone_from(&text);
            for span in &mut trace.spans {
                span.name.clone_from(&text);
                span.detail.clone_from(&text);
            }
            let shown = super::text(&trace, NOW);
            assert_eq!(shown.lines().count(), 9);
            assert!(shown.lines().all(is_inert));
        }
    }
}
