//! Shows an event as text: the seven lines, and all details.

use shared::inbox::ledger::{State, Through};

use super::repeats;
use super::request::{account_line, section};
use super::trial::route_section;
use super::view::EventView;
use crate::inspect::next_action::next_action;
use crate::output::count::thousands;
use crate::output::safe::capped;
use crate::output::table::aligned;
use crate::output::time::{age, clock, duration, rfc3339};

/// The maximum length of a line. A sender can choose the length of a value, and a longer line would
/// not fit on one or two screens.
const LINE_CAP: usize = 1000;

/// Returns exactly seven lines: identity, state, and what to do next.
pub(crate) fn seven_lines(view: &EventView, now_millis: i64) -> String {
    let claimed_until = match view.claimed_until {
        None => "-".to_owned(),
        Some(until) if until > now_millis => {
            format!("{} left", duration(seconds_up(until - now_millis)))
        }
        Some(until) => format!("expired {} ago", duration((now_millis - until) / 1000)),
    };
    let last_error = view
        .last_error
        .as_ref()
        .map_or("-", |error| error.text.as_str());
    let attempt_count = view.attempt_count.to_string();
    let next = next_action(view, now_millis);
    let status = status(view);
    let lines = [
        ("provider", view.provider.as_str()),
        ("status", &status),
        ("attempt_count", &attempt_count),
        ("dedupe_key", &view.dedupe_key),
        ("claimed_until", &claimed_until),
        ("last_error", last_error),
        ("next_action", &next.text),
    ];
    lines.iter().fold(String::new(), |text, (name, value)| {
        text + &format!("{name:<13}  {}\n", capped(value, LINE_CAP))
    })
}

/// Returns the seven lines, then arrival, side effects, answers and lineage (if there are any), and
/// the timeline.
pub(crate) fn full(view: &EventView, now_millis: i64) -> String {
    let lineage = match lineage(view, now_millis).as_str() {
        "" => String::new(),
        lines => format!("\nLineage\n{lines}"),
    };
    let answers = match super::answer_lines(&view.answers, now_millis).as_str() {
        "" => String::new(),
        lines => format!("\nAnswers of destinations\n{lines}"),
    };
    let route = route_section(view.trial.as_ref(), now_millis);
    format!(
        "{}\nReceived\n{}{}{}{}{}\nSide effects\n{}{answers}{route}{lineage}\nTimeline\n{}",
        seven_lines(view, now_millis),
        received(view, now_millis),
        repeats::line(view),
        account_line(view.account.as_ref()),
        version_line(view.sources_version),
        section(&view.request),
        effects(view, now_millis),
        timeline(view, now_millis),
    )
}

/// Returns the status. An event that is done without its actions says why, and an event that waits
/// for a worker says for which.
fn status(view: &EventView) -> String {
    let word = view.status_word();
    match (&view.trial, &view.queue) {
        (Some(trial), _) if trial.is_done_by_trial => "done (tee)".to_owned(),
        (_, Some(queue)) if view.status != State::Processing && view.hold.is_none() => {
            format!("{word} · waiting for a worker of {queue}")
        }
        _ => word.to_owned(),
    }
}

/// Returns the seven lines, then the timeline.
pub(crate) fn with_timeline(view: &EventView, now_millis: i64) -> String {
    let (lines, timeline) = (seven_lines(view, now_millis), timeline(view, now_millis));
    format!("{lines}\nTimeline\n{timeline}")
}

fn received(view: &EventView, now_millis: i64) -> String {
    let safe = |text| capped(text, LINE_CAP);
    let body = &view.body;
    format!(
        "  {} ({} ago)  by {}\n  id {}\n  source {}  type {}\n  body {} bytes  {}  sha256 {}\n  \
         {}\n",
        rfc3339(view.received_at),
        age(view.received_at, now_millis),
        safe(&ways(view)),
        safe(&view.id),
        safe(&view.source),
        safe(&view.event_type),
        thousands(body.bytes),
        safe(&body.content_type),
        short_hash(&body.sha256),
        safe(&proof(view)),
    )
}

fn version_line(version: Option<u64>) -> String {
    version.map_or(String::new(), |version| {
        format!("  sources version {version}\n")
    })
}

/// Describes what the verification proved.
fn proof(view: &EventView) -> String {
    let proof = match view.proven.as_str() {
        "body" => "signature ok",
        "fields" => "signature ok, covers only some fields",
        "token" => "token ok, the body is not signed",
        "origin" => "sender proven, the body is not signed",
        "nothing" => "nothing is proven",
        other => other,
    };
    match &view.secret {
        Some(kid) => format!("{proof}  secret {kid}"),
        None => format!("{proof}  no secret"),
    }
}

/// Describes the deliveries of the event, in order.
fn ways(view: &EventView) -> String {
    let also = view
        .also
        .iter()
        .map(|(via, at)| format!("; also seen via {via}, {}", later(*at, view.received_at)));
    also.fold(view.via.clone(), |ways, also| ways + &also)
}

fn effects(view: &EventView, now_millis: i64) -> String {
    let row = |effect: &super::Effect| {
        let fixed = [
            format!("  {}", effect.name),
            effect.key.clone(),
            effect.text().to_owned(),
            format!("last checked {}", clock(effect.at, now_millis)),
        ];
        fixed.into_iter().chain(effect.note.clone()).collect()
    };
    if view.effects.is_empty() {
        return "  none started\n".to_owned();
    }
    aligned(&view.effects.iter().map(row).collect::<Vec<_>>())
}

/// Lists the replays of the event, and the event that superseded it.
fn lineage(view: &EventView, now_millis: i64) -> String {
    let replayed = view.replays.iter().map(|replay| {
        let through = match replay.through {
            None | Some(Through::Cli) => String::new(),
            Some(other) => format!(" through {other}"),
        };
        let by = replay.by.as_ref().map(|by| format!("by {by}{through}"));
        let because = replay.reason.as_ref().map(|reason| format!(": {reason}"));
        vec![
            "  replayed from".to_owned(),
            replay.plan.clone(),
            clock(replay.at, now_millis),
            by.unwrap_or_default() + &because.unwrap_or_default(),
        ]
    });
    let mut rows: Vec<Vec<String>> = replayed.collect();
    if view.superseded {
        let (newest, said) = match view.superseded_by.as_deref() {
            Some(newest) => (
                newest,
                "its actions were skipped; this is the newest event of the entity",
            ),
            None => ("a newer event", "its actions were skipped"),
        };
        rows.push(vec![
            "  superseded by".to_owned(),
            newest.to_owned(),
            said.to_owned(),
        ]);
    }
    aligned(&rows)
}

fn timeline(view: &EventView, now_millis: i64) -> String {
    let row = |moment: &super::Moment| {
        let at = format!("  {}", clock(moment.at, now_millis));
        vec![at, moment.what.clone(), moment.detail.clone()]
    };
    let mut rows: Vec<Vec<String>> = view.timeline.iter().map(row).collect();
    if let (State::Processing, Some(until)) = (view.status, view.claimed_until)
        && until <= now_millis
    {
        let ago = duration((now_millis - until) / 1000);
        rows.push(vec![
            format!("  {}", clock(until, now_millis)),
            "lease expired".to_owned(),
            format!("{ago} ago; SQS delivers the message again within 6m"),
        ]);
    }
    if rows.is_empty() {
        return "  nothing recorded\n".to_owned();
    }
    aligned(&rows)
}

/// Returns a text such as `12m later` or `3s earlier`.
pub(crate) fn later(at_millis: i64, than_millis: i64) -> String {
    let apart = at_millis.saturating_sub(than_millis) / 1000;
    let word = if apart < 0 { "earlier" } else { "later" };
    format!("{} {word}", duration(apart.saturating_abs()))
}

/// Converts milliseconds to seconds. Rounds up, so that a lease of 0.4 s does not show as `0s`.
fn seconds_up(millis: i64) -> i64 {
    millis.saturating_add(999) / 1000
}

fn short_hash(hash: &str) -> String {
    match (hash.get(..8), hash.get(hash.len().saturating_sub(4)..)) {
        (Some(start), Some(end)) if hash.len() > 16 => capped(&format!("{start}…{end}"), 20).into(),
        _ => capped(hash, 20).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::{NOW, example};
    use super::*;
    use crate::output::safe::tests::{corpus, is_inert};

    #[test]
    fn the_seven_lines_are_these_bytes() {
        assert_eq!(
            seven_lines(&example(), NOW),
            "provider       example-provider\n\
             status         failed\n\
             attempt_count  3\n\
             dedupe_key     evt_01JX9M9M7S7\n\
             claimed_until  expired 41s ago\n\
             last_error     GitHub API 502 during issue creation\n\
             next_action    retry-safe, side effect not committed\n"
        );
    }

    #[test]
    fn an_event_in_a_queue_says_who_takes_it() {
        let mut view = example();
        view.status = State::Received;
        view.queue = Some("triage".into());
        let text = seven_lines(&view, NOW);
        let waits = "status         received · waiting for a worker of triage\n";
        assert!(text.contains(waits), "{text}");
        view.status = State::Processing;
        let text = seven_lines(&view, NOW);
        assert!(text.contains("status         processing\n"), "{text}");
    }

    #[test]
    fn a_live_lease_says_what_is_left_and_no_lease_is_a_dash() {
        let mut view = example();
        view.status = State::Processing;
        view.claimed_until = Some(NOW + 117_000);
        view.last_error = None;
        let text = seven_lines(&view, NOW);
        assert!(text.contains("claimed_until  1m57s left\n"), "{text}");
        assert!(text.contains("last_error     -\n"), "{text}");
        view.claimed_until = None;
        assert!(seven_lines(&view, NOW).contains("claimed_until  -\n"));
    }

    #[test]
    fn everything_is_shown_in_three_sections() {
        let text = full(&example(), NOW);
        let below = text.split_once("\n\n").unwrap().1;
        assert_eq!(
            below,
            "Received\n  \
             2026-11-20T09:12:04.118Z (1h02m ago)  by webhook\n  \
             id evt_01M7W3MARPR8V5D1C6H9E4KTBX\n  \
             source example-provider  type job.completed\n  \
             body 1,284 bytes  application/json  sha256 7d8f6c7a…6c7a\n  \
             signature ok  secret v3\n\n\
             Side effects\n  \
             open-issue  issue:evt_01JX9M9M7S7  not committed  last checked 10:13:58.000\n\n\
             Timeline\n  \
             09:12:04.118  stored     202 in 4 ms\n  \
             09:12:04.151  attempt 1  GitHub API 502 during issue creation\n"
        );
    }

    #[test]
    fn an_effect_says_what_was_recorded_with_its_state() {
        let mut view = example();
        view.effects[0].note = Some("dry run (large): refund the order, plan 0a".into());
        let text = full(&view, NOW);
        let note = "last checked 10:13:58.000  dry run (large): refund the order, plan 0a\n";
        assert!(text.contains(note), "{text}");
    }

    #[test]
    fn a_lease_that_is_over_ends_the_timeline() {
        let mut view = example();
        view.status = State::Processing;
        let text = with_timeline(&view, NOW);
        assert!(text.starts_with(&seven_lines(&view, NOW)));
        let last =
            "  10:14:00.000  lease expired  41s ago; SQS delivers the message again within 6m\n";
        assert!(text.ends_with(last), "{text}");
    }

    #[test]
    fn a_hostile_event_stays_seven_inert_lines() {
        for text in corpus() {
            let mut view = example();
            view.provider.clone_from(&text);
            view.dedupe_key.clone_from(&text);
            view.last_error.as_mut().unwrap().text.clone_from(&text);
            assert_eq!(seven_lines(&view, NOW).lines().count(), 7);
            view.id.clone_from(&text);
            view.source.clone_from(&text);
            view.event_type.clone_from(&text);
            view.via.clone_from(&text);
            view.proven.clone_from(&text);
            view.secret = Some(text.clone());
            view.body.content_type.clone_from(&text);
            view.body.sha256.clone_from(&text);
            view.effects[0].name.clone_from(&text);
            view.effects[0].key.clone_from(&text);
            view.effects[0].note = Some(text.clone());
            view.timeline[0].what.clone_from(&text);
            view.timeline[0].detail.clone_from(&text);
            let shown = full(&view, NOW);
            assert_eq!(shown.lines().count(), 21);
            assert!(shown.lines().all(is_inert));
            assert!(shown.len() < 200_000);
        }
    }
}
