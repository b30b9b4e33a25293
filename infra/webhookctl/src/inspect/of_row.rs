//! Converts a row of the ledger to an `EventView`.

use shared::inbox::ledger::{EffectState, Moment as Stage, Row, State};
use shared::sources::Config;

use super::repeats::Repeats;
use crate::fingerprint::{Fingerprint, error_text};
use crate::inspect::{
    Account, Body, Effect, EventView, HoldSeen, LastError, Moment, Replay, RequestSeen, TrialSeen,
    later,
};

/// The processor's note on an event that was superseded by a newer event of the same entity.
const SKIPPED_STALE: &str = "skipped_stale";

/// Returns the view of an event. The configuration gives the maximum number of attempts of its
/// source.
pub(crate) fn view(row: &Row, config: &Config) -> EventView {
    let source = config.source(row.key.source());
    let last = row.history.iter().rfind(|stage| !is_a_humans(stage));
    EventView {
        id: row.id().as_str().to_owned(),
        provider: row.provider.clone(),
        source: row.key.source().to_owned(),
        event_type: row.kind.clone(),
        status: row.state,
        queue: row.pull.clone().filter(|_| row.is_pulled()),
        attempt_count: row.attempts,
        max_attempts: source
            .map_or_else(shared::base::backoff::Backoff::default, |source| {
                source.backoff.clone()
            })
            .attempts,
        dedupe_key: row.key.id().to_owned(),
        claimed_by: row
            .owner
            .clone()
            .or_else(|| last.map(|stage| stage.owner.clone())),
        // A failed attempt releases its lease. The history still stores when the lease would have
        // ended.
        claimed_until: row
            .lease_until
            .or_else(|| last.filter(|_| row.state == State::Failed)?.lease_until)
            .map(|until| until.0),
        due: row.due.map(|due| due.0),
        hold: hold(row),
        last_error: last_error(row),
        effects: effects(row),
        answers: Vec::new(),
        received_at: row.received_at.0,
        via: row.via.as_str().to_owned(),
        also: row
            .also
            .iter()
            .map(|also| (also.via.as_str().to_owned(), also.at.0))
            .collect(),
        repeats: Repeats::of(row, source),
        body: Body {
            bytes: row.body_len,
            content_type: row.content_type.clone().unwrap_or_default(),
            sha256: row.sha.map(|sha| sha.hex()).unwrap_or_default(),
        },
        proven: row.proven.as_str().to_owned(),
        secret: row.secret.clone(),
        account: row.account.as_ref().map(|account| Account {
            value: account.value.clone(),
            signed: account.is_signed,
        }),
        request: RequestSeen::NotRead,
        sources_version: None,
        source_paused: false,
        replays: replays(row),
        superseded: is_superseded(row),
        superseded_by: None,
        trial: TrialSeen::of(row),
        timeline: timeline(row),
    }
}

fn last_error(row: &Row) -> Option<LastError> {
    let text = error_text(row)?;
    let is_exhausted = row.reason.as_deref() == Some("attempts_exhausted");
    Some(LastError {
        text: text.to_owned(),
        fingerprint: Fingerprint::of(text).short().to_owned(),
        retryable: row.state == State::Failed || is_exhausted,
    })
}

fn hold(row: &Row) -> Option<HoldSeen> {
    let hold = row.hold.as_ref()?;
    Some(HoldSeen {
        id: hold.id.clone(),
        rule: hold.rule.clone(),
        effect: hold.effect.clone(),
        reason: hold.why.clone(),
        summary: hold.summary.clone(),
        expires: hold.expires.0,
    })
}

fn effects(row: &Row) -> Vec<Effect> {
    let effects = row.effects.iter().map(|(name, effect)| Effect {
        name: name.clone(),
        key: effect.key.clone(),
        state: effect.state,
        keyed: effect.keyed,
        at: effect.at.0,
        // The note of an intent is the hash of its plan.
        note: (effect.state != EffectState::Intent && !effect.note.is_empty())
            .then(|| effect.note.clone()),
    });
    effects.collect()
}

/// Returns the replays of the event. The operator and the reason are stored only in the plans.
fn replays(row: &Row) -> Vec<Replay> {
    let replayed = row.history.iter().filter(|stage| stage.what == "replayed");
    let replays = replayed.map(|stage| Replay {
        plan: stage.note.clone(),
        at: stage.at.0,
        by: None,
        through: None,
        reason: None,
    });
    replays.collect()
}

fn timeline(row: &Row) -> Vec<Moment> {
    let received = Moment {
        at: row.received_at.0,
        what: "stored".into(),
        detail: format!("by {}", row.via),
    };
    // The timeline of a drained event begins with two entries, because the event arrived while
    // DynamoDB was unavailable.
    let received = match row.drained_at {
        None => vec![received],
        Some(drained_at) => vec![
            Moment {
                what: "spilled".into(),
                ..received.clone()
            },
            Moment {
                at: drained_at.0,
                what: "stored".into(),
                detail: "drained from the spill queue".into(),
            },
        ],
    };
    let stages = row.history.iter().map(stage_moment);
    let mut timeline: Vec<Moment> = received.into_iter().chain(stages).collect();
    // The last entry of a dead letter has only the reason, such as `attempts_exhausted`.
    let is_dead = row
        .history
        .last()
        .is_some_and(|last| last.what == "dead_letter");
    if let (true, Some(last)) = (is_dead, timeline.last_mut()) {
        last.detail = with_error(&last.detail, row);
    }
    quarantined(row, &mut timeline);
    for also in &row.also {
        let behind = timeline.iter().position(|moment| moment.at > also.at.0);
        let seen = Moment {
            at: also.at.0,
            what: "also seen".into(),
            detail: format!("via {}, {}", also.via, later(also.at.0, row.received_at.0)),
        };
        timeline.insert(behind.unwrap_or(timeline.len()), seen);
    }
    timeline
}

/// Returns the reason for a dead letter and the last error.
pub(crate) fn with_error(reason: &str, row: &Row) -> String {
    match row.error.as_deref().filter(|error| !reason.contains(error)) {
        Some(error) => format!("{reason}: {error}"),
        None => reason.to_owned(),
    }
}

/// Adds why the event is quarantined, and the other event. The history has the reason only after a
/// decision.
fn quarantined(row: &Row, timeline: &mut Vec<Moment>) {
    if row.state == State::Quarantined && !timeline.iter().any(|it| it.what == "quarantined") {
        let stored = timeline.iter().rposition(|it| it.what == "stored");
        let at = row.drained_at.unwrap_or(row.received_at).0;
        let moment = Moment {
            at,
            what: "quarantined".to_owned(),
            detail: row.reason.clone().unwrap_or_default(),
        };
        timeline.insert(stored.map_or(0, |stored| stored + 1), moment);
    }
    let Some(other) = &row.conflicts_with else {
        return;
    };
    let moments = timeline.iter_mut();
    for moment in moments.filter(|it| it.what == "quarantined") {
        moment.detail = format!("{}, of {other}", moment.detail);
    }
}

/// Converts an entry of the history. Entries of workers show the attempt. Entries of operators show
/// the action and the operator.
fn stage_moment(stage: &Stage) -> Moment {
    let some = |before: &str, text: &str| match text {
        "" => String::new(),
        text => format!("{before}{text}"),
    };
    let (owner, note) = (some("by ", &stage.owner), some(": ", &stage.note));
    let (what, detail) = match stage.what.as_str() {
        "kept_apart" => ("quarantined".to_owned(), stage.note.clone()),
        // The note is the plan id. The operator is stored only in the plan.
        "replayed" => ("replayed".to_owned(), format!("by {}", stage.note)),
        what @ ("released" | "discarded" | "erased" | "approved" | "rejected") => {
            (what.to_owned(), [owner, note].concat())
        }
        "approval_expired" => ("approval expired".to_owned(), String::new()),
        what => (
            format!("attempt {}", stage.attempt),
            [what, &some(" ", &owner), &note].concat(),
        ),
    };
    Moment {
        at: stage.at.0,
        what,
        detail,
    }
}

fn is_a_humans(stage: &Stage) -> bool {
    let what = stage.what.as_str();
    matches!(
        what,
        "kept_apart"
            | "released"
            | "discarded"
            | "erased"
            | "replayed"
            | "approved"
            | "rejected"
            | "approval_expired"
    )
}

/// Returns whether the event is done without its actions, because a newer event of its entity was
/// processed first.
pub(crate) fn is_superseded(row: &Row) -> bool {
    let ended = row.history.iter().rfind(|moment| moment.what == "done");
    ended.is_some_and(|moment| moment.note.contains(SKIPPED_STALE))
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;
    use shared::inbox::ledger::Item;
    use shared::sources::EMBEDDED;

    use super::*;
    use crate::inspect::seven_lines;

    /// Returns a row after the third failed attempt. The lease is released, the history has its
    /// end, and the next attempt is due.
    fn row() -> Item {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let number = |number: i64| AttributeValue::N(number.to_string());
        let effect = Item::from([
            ("s".to_owned(), text("not")),
            ("k".to_owned(), text("wh_key")),
            ("h".to_owned(), number(1)),
            ("at".to_owned(), number(1_795_169_638_000)),
        ]);
        let failed = "1795169638000|failed|3|1795169640000|processor/7f3c|GitHub API 502";
        Item::from([
            ("pk".to_owned(), text("E#example-provider#evt_01JX9M9M7S7")),
            ("sk".to_owned(), text("M")),
            ("sv".to_owned(), number(1)),
            ("st".to_owned(), text("failed")),
            ("epoch".to_owned(), number(3)),
            ("run".to_owned(), number(0)),
            ("att".to_owned(), number(3)),
            ("cr".to_owned(), number(0)),
            ("rcv".to_owned(), number(1_795_165_924_118)),
            ("due".to_owned(), number(1_795_169_680_000)),
            ("bref".to_owned(), text("d")),
            ("pvd".to_owned(), text("example-provider")),
            (
                "err".to_owned(),
                text("GitHub API 502 during issue creation"),
            ),
            (
                "fx".to_owned(),
                AttributeValue::M(Item::from([(
                    "open-issue".to_owned(),
                    AttributeValue::M(effect),
                )])),
            ),
            ("h".to_owned(), AttributeValue::L(vec![text(failed)])),
        ])
    }

    #[test]
    fn a_row_is_told_in_these_seven_lines() {
        let config = Config::parse(EMBEDDED).unwrap();
        let event = view(&Row::read(&row()).unwrap(), &config);
        let expected = "\
provider       example-provider
status         failed
attempt_count  3
dedupe_key     evt_01JX9M9M7S7
claimed_until  expired 41s ago
last_error     GitHub API 502 during issue creation
next_action    retry-safe, side effect not committed
";
        assert_eq!(seven_lines(&event, 1_795_169_681_000), expected);
    }

    #[test]
    fn an_effect_has_its_note_except_while_the_call_runs() {
        let config = Config::parse(EMBEDDED).unwrap();
        let noted = |state| {
            let mut row = Row::read(&row()).unwrap();
            let effect = row.effects.get_mut("open-issue").unwrap();
            (effect.state, effect.note) = (state, "issue 7".to_owned());
            view(&row, &config).effects[0].note.clone()
        };
        assert_eq!(noted(EffectState::Done).as_deref(), Some("issue 7"));
        assert_eq!(noted(EffectState::Intent), None);
        let unchanged = view(&Row::read(&row()).unwrap(), &config);
        assert_eq!(unchanged.effects[0].note, None);
    }

    #[test]
    fn the_timeline_of_a_dead_letter_ends_with_its_error() {
        let config = Config::parse(EMBEDDED).unwrap();
        let ended = "1795169638000|dead_letter|3||processor/7f3c|attempts_exhausted";
        let mut dead = row();
        let ended = AttributeValue::L(vec![AttributeValue::S(ended.to_owned())]);
        dead.insert("h".to_owned(), ended);
        let event = view(&Row::read(&dead).unwrap(), &config);
        let last = event.timeline.last().unwrap();
        let expected = "attempts_exhausted: GitHub API 502 during issue creation";
        assert!(last.detail.ends_with(expected), "{}", last.detail);
    }

    #[test]
    fn an_event_that_came_a_second_way_says_so_in_its_place() {
        let mut row = row();
        let received = 1_795_165_924_118_i64;
        let late = AttributeValue::N((received + 12 * 60_000).to_string());
        row.insert("via".into(), AttributeValue::S("backup_sync".into()));
        row.insert("also_webhook".into(), late);
        let config = Config::parse(EMBEDDED).unwrap();
        let event = view(&Row::read(&row).unwrap(), &config);
        let whats: Vec<&str> = event.timeline.iter().map(|m| m.what.as_str()).collect();
        assert_eq!(whats, ["stored", "also seen", "attempt 3"]);
        assert_eq!(event.timeline[1].detail, "via webhook, 12m later");
        let text = crate::inspect::full(&event, received);
        assert!(
            text.contains("by backup_sync; also seen via webhook, 12m later\n"),
            "{text}"
        );
        let json = serde_json::to_value(crate::inspect::document(&event, received)).unwrap();
        assert_eq!(json["also_seen"][0]["later_s"], 720);
        assert_eq!(json["repeats"]["verdict"], "none");
    }

    #[test]
    fn a_copy_is_suspicious_only_if_the_provider_signs_retries_anew() {
        let config = Config::parse(EMBEDDED).unwrap();
        let number = |number: i64| AttributeValue::N(number.to_string());
        for (pk, verdict) in [
            ("E#stripe-main#evt_1", "suspicious_copy"),
            ("E#github-main#evt_1", "unknown"),
            ("E#removed#evt_1", "unknown"),
        ] {
            let mut row = row();
            row.insert("pk".into(), AttributeValue::S(pk.to_owned()));
            row.insert("dc".into(), number(2));
            row.insert("dat".into(), number(1_795_165_925_118));
            let event = view(&Row::read(&row).unwrap(), &config);
            let json = serde_json::to_value(crate::inspect::document(&event, 0)).unwrap();
            assert_eq!(json["repeats"]["verdict"], verdict, "{pk}");
            let text = crate::inspect::full(&event, 0);
            assert!(
                text.contains("  repeats 2 copied, last 1s later: "),
                "{text}"
            );
        }
    }
}
