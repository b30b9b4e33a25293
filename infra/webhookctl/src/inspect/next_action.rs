//! Computes the next action of an operator for an event. No other module computes it.

use serde::Serialize;
use shared::inbox::ledger::{EffectState, State};

use crate::inspect::{Effect, EventView};
use crate::output::time::duration;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NextAction {
    pub code: Code,
    pub text: String,
    /// The command for the action, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    None,
    Wait,
    AutoRetry,
    Reclaim,
    RetrySafe,
    RetryGuarded,
    CheckDownstream,
    Replay,
    FixSecret,
    Decide,
    Paused,
}

/// Returns the next action. The first matching rule applies. Actions that Mitt takes automatically
/// come before actions of an operator.
pub(crate) fn next_action(view: &EventView, now_millis: i64) -> NextAction {
    let live = view.claimed_until.is_some_and(|until| until > now_millis);
    let due_in = view
        .due
        .map(|due| due.saturating_sub(now_millis))
        .filter(|millis| *millis > 0);
    let (code, text) = match view.status {
        State::Done => (Code::None, "none".to_owned()),
        State::Quarantined => quarantined(view),
        State::Processing if live => {
            let left = view.claimed_until.map_or(0, |until| until - now_millis);
            (
                Code::Wait,
                format!("wait, lease {}", duration(seconds_up(left))),
            )
        }
        State::Received | State::Processing | State::Failed if view.source_paused => {
            (Code::Paused, "resume the source".to_owned())
        }
        State::Processing => (Code::Reclaim, reclaim(view)),
        State::Received => (Code::Wait, wait(view)),
        State::Failed => match due_in {
            Some(millis) => (Code::AutoRetry, auto_retry(view, millis)),
            None if view.queue.is_some() => (Code::Wait, wait(view)),
            None => by_effects(view),
        },
        State::DeadLetter => by_effects(view),
    };
    NextAction {
        code,
        text,
        command: command(code, view),
    }
}

fn reclaim(view: &EventView) -> String {
    match &view.queue {
        Some(queue) => format!("none, lease expired; another worker of {queue} takes it"),
        None => "none, lease expired; SQS delivers the message again within 6m".to_owned(),
    }
}

fn wait(view: &EventView) -> String {
    match &view.queue {
        Some(queue) => format!("wait, a worker of {queue} takes it"),
        None => "wait, no attempt yet".to_owned(),
    }
}

fn quarantined(view: &EventView) -> (Code, String) {
    if view.proven == "nothing" {
        (Code::FixSecret, "fix the secret, then reverify".to_owned())
    } else {
        // The event was verified, but another event has the same id or the same body.
        (
            Code::Decide,
            "release or discard it; last_error says why it is quarantined".to_owned(),
        )
    }
}

fn auto_retry(view: &EventView, millis: i64) -> String {
    let wait = duration(seconds_up(millis));
    let next = view.attempt_count.saturating_add(1);
    if next > view.max_attempts {
        // A circuit breaker deferred the event, so no attempt was made. The text must not count
        // beyond the maximum, as in `11 of 10`.
        return format!("auto retry in {wait}");
    }
    format!("auto retry {next} of {} in {wait}", view.max_attempts)
}

/// No worker has the event, and no attempt is scheduled. Whether a replay is safe depends on the
/// side effects.
fn by_effects(view: &EventView) -> (Code, String) {
    let unknown =
        |effect: &&Effect| matches!(effect.state, EffectState::Unknown | EffectState::Intent);
    let mut open = view.effects.iter().filter(unknown).peekable();
    if open.peek().is_some() {
        return if open.all(|effect| effect.keyed) {
            let text = "retry with the same idempotency key, effect may have happened";
            (Code::RetryGuarded, text.to_owned())
        } else {
            (
                Code::CheckDownstream,
                "check downstream, effect unknown".to_owned(),
            )
        };
    }
    // A dead letter needs a fix first if it has no attempts left or if its error is permanent.
    let dead = view.status == State::DeadLetter;
    let worth_a_try = view
        .last_error
        .as_ref()
        .is_some_and(|error| error.retryable)
        && view.attempt_count < view.max_attempts;
    if dead && !worth_a_try {
        return (Code::Replay, "replay after fix".to_owned());
    }
    let any_committed = view.effects.iter().any(|e| e.state == EffectState::Done);
    let text = if any_committed {
        "retry-safe, committed side effects are skipped"
    } else {
        "retry-safe, side effect not committed"
    };
    (Code::RetrySafe, text.to_owned())
}

/// Returns the command for an action. A test parses each command.
fn command(code: Code, view: &EventView) -> Option<String> {
    let (id, source) = (&view.id, &view.source);
    match code {
        Code::RetrySafe | Code::Replay if is_plain(id) => {
            Some(format!("webhookctl replay plan --id {id}"))
        }
        Code::RetryGuarded if is_plain(id) => {
            Some(format!("webhookctl replay plan --id {id} --mode guarded"))
        }
        Code::CheckDownstream if is_plain(id) => {
            Some(format!("webhookctl inbox inspect {id} --full"))
        }
        Code::FixSecret if is_plain(source) => Some(format!(
            "webhookctl quarantine reverify --source {source} --dry-run"
        )),
        Code::Paused if is_plain(source) => Some(format!("webhookctl sources resume {source}")),
        _ => None,
    }
}

/// Returns whether the word is safe in a shell. All ids and names that Mitt creates have this form.
fn is_plain(word: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain)
}

fn seconds_up(millis: i64) -> i64 {
    millis.saturating_add(999) / 1000
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::inspect::tests::{NOW, example};

    fn view(change: impl FnOnce(&mut EventView)) -> (Code, String) {
        let mut view = example();
        change(&mut view);
        let next = next_action(&view, NOW);
        (next.code, next.text)
    }

    fn is(code: Code, text: &str) -> (Code, String) {
        (code, text.to_owned())
    }

    #[test]
    fn none_when_done() {
        assert_eq!(view(|v| v.status = State::Done), is(Code::None, "none"));
    }

    #[test]
    fn wait_while_the_lease_lives_or_nobody_has_begun() {
        let live = view(|v| {
            v.status = State::Processing;
            v.claimed_until = Some(NOW + 117_000);
            v.source_paused = true;
        });
        assert_eq!(live, is(Code::Wait, "wait, lease 1m57s"));
        let new = view(|v| v.status = State::Received);
        assert_eq!(new, is(Code::Wait, "wait, no attempt yet"));
    }

    #[test]
    fn an_event_in_a_queue_waits_for_its_workers() {
        let of = |status, due| {
            view(move |v| {
                (v.status, v.due) = (status, due);
                v.queue = Some("triage".into());
            })
        };
        let waits = is(Code::Wait, "wait, a worker of triage takes it");
        assert_eq!(of(State::Received, None), waits);
        assert_eq!(of(State::Failed, Some(NOW - 1)), waits);
        let expired = "none, lease expired; another worker of triage takes it";
        assert_eq!(of(State::Processing, None), is(Code::Reclaim, expired));
        let later = of(State::Failed, Some(NOW + 130_000));
        assert_eq!(later, is(Code::AutoRetry, "auto retry 4 of 10 in 2m10s"));
    }

    #[test]
    fn auto_retry_while_it_is_due_later() {
        let later = |v: &mut EventView| v.due = Some(NOW + 130_000);
        assert_eq!(
            view(later),
            is(Code::AutoRetry, "auto retry 4 of 10 in 2m10s")
        );
        let unknown = view(|v| {
            later(v);
            v.effects[0].state = EffectState::Unknown;
            v.attempt_count = 10;
        });
        assert_eq!(unknown, is(Code::AutoRetry, "auto retry in 2m10s"));
    }

    #[test]
    fn reclaim_when_a_worker_went_away() {
        let text = "none, lease expired; SQS delivers the message again within 6m";
        let gone = |until| {
            move |v: &mut EventView| {
                v.status = State::Processing;
                v.claimed_until = until;
            }
        };
        assert_eq!(view(gone(Some(NOW))), is(Code::Reclaim, text));
        assert_eq!(view(gone(None)), is(Code::Reclaim, text));
    }

    #[test]
    fn retry_safe_when_nothing_happened() {
        let text = "retry-safe, side effect not committed";
        assert_eq!(view(|_| ()), is(Code::RetrySafe, text));
        assert_eq!(view(|v| v.due = None), is(Code::RetrySafe, text));
        assert_eq!(view(|v| v.effects.clear()), is(Code::RetrySafe, text));
        assert_eq!(
            view(|v| v.status = State::DeadLetter),
            is(Code::RetrySafe, text)
        );
        let some = view(|v| v.effects[0].state = EffectState::Done);
        assert_eq!(
            some,
            is(
                Code::RetrySafe,
                "retry-safe, committed side effects are skipped"
            )
        );
    }

    #[test]
    fn retry_guarded_when_a_key_protects_what_is_unknown() {
        let text = "retry with the same idempotency key, effect may have happened";
        for state in [EffectState::Unknown, EffectState::Intent] {
            for status in [State::Failed, State::DeadLetter] {
                let keyed = view(|v| (v.effects[0].state, v.status) = (state, status));
                assert_eq!(keyed, is(Code::RetryGuarded, text));
            }
        }
    }

    #[test]
    fn check_downstream_when_one_unknown_effect_has_no_key() {
        let one = view(|v| {
            v.effects[0].state = EffectState::Unknown;
            let without = Effect {
                keyed: false,
                ..v.effects[0].clone()
            };
            v.effects.push(without);
        });
        assert_eq!(
            one,
            is(Code::CheckDownstream, "check downstream, effect unknown")
        );
    }

    #[test]
    fn replay_after_fix_when_more_attempts_would_not_help() {
        let spent = view(|v| (v.status, v.attempt_count) = (State::DeadLetter, 10));
        assert_eq!(spent, is(Code::Replay, "replay after fix"));
        let permanent = view(|v| {
            v.status = State::DeadLetter;
            v.last_error.as_mut().unwrap().retryable = false;
        });
        assert_eq!(permanent, is(Code::Replay, "replay after fix"));
    }

    #[test]
    fn fix_secret_when_none_matched() {
        let forged = view(|v| {
            (v.status, v.proven) = (State::Quarantined, "nothing".into());
        });
        assert_eq!(forged, is(Code::FixSecret, "fix the secret, then reverify"));
    }

    #[test]
    fn decide_when_it_is_genuine_and_kept_apart() {
        let apart = view(|v| v.status = State::Quarantined);
        let text = "release or discard it; last_error says why it is quarantined";
        assert_eq!(apart, is(Code::Decide, text));
    }

    #[test]
    fn paused_when_the_source_is() {
        let paused = view(|v| (v.due, v.source_paused) = (Some(NOW + 1000), true));
        assert_eq!(paused, is(Code::Paused, "resume the source"));
    }

    #[test]
    fn every_command_can_be_run() {
        use Code::*;
        let codes = [
            None,
            Wait,
            AutoRetry,
            Reclaim,
            RetrySafe,
            RetryGuarded,
            CheckDownstream,
            Replay,
            FixSecret,
            Decide,
            Paused,
        ];
        let mut commands = 0;
        for code in codes {
            if let Some(line) = command(code, &example()) {
                Cli::try_parse_from(line.split(' ')).unwrap();
                commands += 1;
            }
        }
        assert_eq!(commands, 6);
    }

    #[test]
    fn a_hostile_id_never_becomes_a_command() {
        for text in ["x; rm -rf ~", "--confirm", "", "a$(b)", "a\nb"] {
            let view = EventView {
                id: text.into(),
                source: text.into(),
                ..example()
            };
            for code in [
                Code::CheckDownstream,
                Code::Replay,
                Code::FixSecret,
                Code::Paused,
            ] {
                assert_eq!(command(code, &view), None, "{text}");
            }
        }
    }
}
