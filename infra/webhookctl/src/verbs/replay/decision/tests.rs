use aws_sdk_dynamodb::types::AttributeValue;
use shared::inbox::ledger::{EffectRow, Item, Moment, NEWEST_SCHEMA, TRIAL_SCHEMA};

use super::*;

const RECEIVED: UnixMillis = UnixMillis(1_795_165_924_118);
const BODIES: Duration = Duration::from_secs(30 * 24 * 3600);
const AT: AtSource = AtSource {
    bodies: BODIES,
    overtaken: false,
    stale: false,
};
const MINUTE: Duration = Duration::from_secs(60);

const STATES: [State; 6] = [
    State::Received,
    State::Processing,
    State::Done,
    State::Failed,
    State::DeadLetter,
    State::Quarantined,
];

const MODES: [ReplayMode; 3] = [ReplayMode::Safe, ReplayMode::Guarded, ReplayMode::Force];

fn row(state: State) -> Row {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: i64| AttributeValue::N(number.to_string());
    let row = Item::from([
        ("pk".to_owned(), text("E#stripe-main#evt_1")),
        ("sv".to_owned(), number(1)),
        ("st".to_owned(), text(state.as_str())),
        ("epoch".to_owned(), number(3)),
        ("run".to_owned(), number(0)),
        ("att".to_owned(), number(3)),
        ("cr".to_owned(), number(0)),
        ("rcv".to_owned(), number(RECEIVED.0)),
        ("due".to_owned(), number(RECEIVED.0)),
        ("lu".to_owned(), number(RECEIVED.0)),
        ("bref".to_owned(), text("d")),
        ("fx".to_owned(), AttributeValue::M(Item::new())),
    ]);
    Row::read(&row).unwrap()
}

fn with(state: State, effects: &[(EffectState, bool)]) -> Row {
    let mut row = row(state);
    for (number, (state, keyed)) in effects.iter().enumerate() {
        let effect = EffectRow {
            state: *state,
            key: "wh_key".to_owned(),
            keyed: *keyed,
            at: RECEIVED,
            run: 0,
            note: String::new(),
            lease: None,
        };
        row.effects.insert(format!("effect-{number}"), effect);
    }
    row
}

fn policy(mode: ReplayMode) -> Policy {
    Policy {
        mode,
        ..Policy::default()
    }
}

fn soon(row: &Row, policy: Policy) -> Fate {
    fate(row, policy, Some(AT), RECEIVED + MINUTE)
}

const RUNS: Fate = Fate::Runs {
    why: Runs::NotCommitted,
    until: None,
};

const COMMITTED: Fate = Fate::Runs {
    why: Runs::Committed,
    until: None,
};

#[test]
fn only_what_is_settled_or_waits_for_a_retry_can_run_again() {
    for mode in MODES {
        for state in STATES {
            let expected = match state {
                State::Received => Fate::LeftOut(LeftOut::Queued),
                State::Processing => Fate::LeftOut(LeftOut::AtWork),
                State::Quarantined => Fate::LeftOut(LeftOut::Quarantined),
                State::Failed | State::DeadLetter => RUNS,
                State::Done if mode == ReplayMode::Force => COMMITTED,
                State::Done => Fate::LeftOut(LeftOut::Done),
            };
            assert_eq!(
                soon(&row(state), policy(mode)),
                expected,
                "{state} {mode:?}"
            );
        }
    }
}

/// The effects of a row and the expected decision in each mode. The `bool` of an effect is true if
/// it has an idempotency key.
type Case = (&'static [(EffectState, bool)], [Fate; 3]);

#[test]
fn what_is_known_of_the_effects_decides() {
    use EffectState::{Done, Intent, Not, Refused, Unknown};
    let until = Some(RECEIVED + KEY_AGE);
    let same_key = Fate::Runs {
        why: Runs::SameKey,
        until,
    };
    let unknown = Fate::LeftOut(LeftOut::EffectUnknown);
    let no_key = Fate::LeftOut(LeftOut::NoKey);
    let cases: &[Case] = &[
        (&[], [RUNS; 3]),
        (&[(Not, true)], [RUNS; 3]),
        (&[(Not, false)], [RUNS; 3]),
        (&[(Refused, false)], [RUNS; 3]),
        // A replay skips effects that have happened.
        (&[(Done, true), (Not, true)], [RUNS; 3]),
        (&[(Unknown, true)], [unknown, same_key, same_key]),
        (&[(Intent, true)], [unknown, same_key, same_key]),
        (
            &[(Done, true), (Intent, true)],
            [unknown, same_key, same_key],
        ),
        (&[(Unknown, false)], [no_key; 3]),
        (&[(Intent, false)], [no_key; 3]),
        (&[(Unknown, true), (Intent, false)], [no_key; 3]),
        (&[(Unknown, false), (Intent, true)], [no_key; 3]),
    ];
    for (effects, expected) in cases {
        for state in [State::Failed, State::DeadLetter] {
            for (mode, expected) in MODES.into_iter().zip(expected) {
                let seen = soon(&with(state, effects), policy(mode));
                assert_eq!(seen, *expected, "{state} {effects:?} {mode:?}");
            }
        }
    }
}

#[test]
fn a_worker_that_died_may_have_done_it() {
    let mut row = with(State::DeadLetter, &[(EffectState::Not, true)]);
    // A deferral resets `crashes`. `died` still has the number of crashes before it.
    row.died = 1;
    assert_eq!(
        soon(&row, policy(ReplayMode::Safe)),
        Fate::LeftOut(LeftOut::EffectUnknown)
    );
    (row.crashes, row.died) = (1, 0);
    assert_eq!(
        soon(&row, policy(ReplayMode::Safe)),
        Fate::LeftOut(LeftOut::EffectUnknown)
    );
    assert!(matches!(
        soon(&row, policy(ReplayMode::Guarded)),
        Fate::Runs {
            why: Runs::SameKey,
            until: Some(_)
        }
    ));
}

#[test]
fn a_key_protects_for_twenty_hours_unless_somebody_answers_for_it() {
    let row = with(State::DeadLetter, &[(EffectState::Unknown, true)]);
    let at = |policy, now| fate(&row, policy, Some(AT), now);
    let guarded = policy(ReplayMode::Guarded);
    let last = RECEIVED + KEY_AGE;
    assert!(matches!(
        at(guarded, UnixMillis(last.0 - 1)),
        Fate::Runs { .. }
    ));
    assert_eq!(at(guarded, last), Fate::LeftOut(LeftOut::KeyTooOld));
    assert_eq!(
        at(policy(ReplayMode::Force), last),
        Fate::LeftOut(LeftOut::KeyTooOld)
    );
    let risky = Policy {
        duplicate_risk: true,
        ..guarded
    };
    assert_eq!(
        at(risky, last),
        Fate::Runs {
            why: Runs::SameKey,
            until: None
        }
    );
    // Effects that are known not to have happened need no key.
    let clean = with(State::DeadLetter, &[(EffectState::Not, true)]);
    assert_eq!(fate(&clean, policy(ReplayMode::Safe), Some(AT), last), RUNS);
}

#[test]
fn a_new_effect_is_made_by_force_alone() {
    for effects in [(EffectState::Unknown, false), (EffectState::Intent, true)] {
        let row = with(State::DeadLetter, &[effects]);
        for mode in MODES {
            let asked = Policy {
                new_effects: true,
                ..policy(mode)
            };
            let runs = fate(&row, asked, Some(AT), RECEIVED + KEY_AGE) == COMMITTED;
            assert_eq!(runs, mode == ReplayMode::Force, "{effects:?} {mode:?}");
        }
    }
}

#[test]
fn without_its_body_it_cannot_run() {
    let force = policy(ReplayMode::Force);
    let expired = Fate::LeftOut(LeftOut::BodyExpired);
    let end = RECEIVED + BODIES;
    let mut done = row(State::Done);
    assert_eq!(
        fate(&done, force, Some(AT), UnixMillis(end.0 - 1)),
        COMMITTED
    );
    assert_eq!(fate(&done, force, Some(AT), end), expired);
    // The event was done late. Its body was stored until then, and is stored for another day.
    done.done_at = Some(end);
    assert_eq!(fate(&done, force, Some(AT), end), COMMITTED);
    assert_eq!(fate(&done, force, Some(AT), end + DAY), expired);
    done.body_at = BodyAt::Inline;
    assert_eq!(fate(&done, force, Some(AT), end + DAY), COMMITTED);
    // The body of a dead letter does not expire.
    assert_eq!(
        fate(&row(State::DeadLetter), force, Some(AT), end + DAY),
        RUNS
    );
    let mut erased = row(State::DeadLetter);
    erased.erased_at = Some(RECEIVED);
    assert_eq!(soon(&erased, force), Fate::LeftOut(LeftOut::Erased));
    let mut discarded = row(State::DeadLetter);
    discarded.reason = Some("discarded".to_owned());
    let left_out = Fate::LeftOut(LeftOut::Discarded);
    assert_eq!(soon(&discarded, force), left_out);
}

#[test]
fn what_a_newer_event_has_overtaken_says_so() {
    let mut row = row(State::Done);
    let moment = |note: &str| Moment {
        at: RECEIVED,
        what: "done".to_owned(),
        attempt: 1,
        lease_until: None,
        owner: String::new(),
        note: note.to_owned(),
    };
    row.history.push(moment("skipped_stale"));
    assert_eq!(
        soon(&row, policy(ReplayMode::Safe)),
        Fate::LeftOut(LeftOut::Superseded)
    );
    assert_eq!(soon(&row, policy(ReplayMode::Force)), COMMITTED);
    // The processor would skip the event again with any policy.
    let overtaken = Some(AtSource {
        overtaken: true,
        ..AT
    });
    for state in [State::Done, State::Failed, State::DeadLetter] {
        for mode in MODES {
            let seen = fate(&with(state, &[]), policy(mode), overtaken, RECEIVED);
            assert_eq!(seen, Fate::LeftOut(LeftOut::Superseded), "{state} {mode:?}");
        }
    }
    let held = fate(
        &with(State::Processing, &[]),
        policy(ReplayMode::Safe),
        overtaken,
        RECEIVED,
    );
    assert_eq!(held, Fate::LeftOut(LeftOut::AtWork));
    // The decision depends only on the effects of the last run.
    row.history.push(moment(""));
    assert_eq!(
        soon(&row, policy(ReplayMode::Safe)),
        Fate::LeftOut(LeftOut::Done)
    );
}

#[test]
fn what_this_version_cannot_judge_is_left() {
    let force = policy(ReplayMode::Force);
    let mut newer = row(State::DeadLetter);
    newer.schema = NEWEST_SCHEMA;
    assert_eq!(soon(&newer, force), RUNS);
    newer.schema += 1;
    assert_eq!(soon(&newer, force), Fate::LeftOut(LeftOut::TooNew));
    let nobody = fate(&row(State::DeadLetter), force, None, RECEIVED);
    assert_eq!(nobody, Fate::LeftOut(LeftOut::NoSource));
}

#[test]
fn an_event_with_a_stale_signature_does_not_run_again() {
    let stale = Some(AtSource { stale: true, ..AT });
    for mode in MODES {
        for state in [State::Failed, State::DeadLetter] {
            let seen = fate(&with(state, &[]), policy(mode), stale, RECEIVED);
            assert_eq!(
                seen,
                Fate::LeftOut(LeftOut::StaleSignature),
                "{state} {mode:?}"
            );
        }
    }
    // An event that would not run anyway keeps its own reason.
    let done = fate(
        &with(State::Done, &[]),
        policy(ReplayMode::Safe),
        stale,
        RECEIVED,
    );
    assert_eq!(done, Fate::LeftOut(LeftOut::Done));
}

#[test]
fn every_reason_is_read_back() {
    for why in LeftOut::ALL {
        assert_eq!(LeftOut::parse(why.word()), Some(why));
    }
    assert_eq!(LeftOut::parse("nothing"), None);
}

/// Returns a row of a trial whose route gave these answers.
fn of_trial(answers: &[RouteOutcome]) -> Row {
    let mut row = row(State::Done);
    row.schema = TRIAL_SCHEMA;
    row.reason = Some("tee".to_owned());
    for outcome in answers {
        let answer = RouteAnswer::new(RECEIVED, *outcome, MINUTE, None, "new");
        row.trial.requests += 1;
        if answer.is_accepted() {
            row.trial.accepted += 1;
            row.trial.first_accepted = Some(RECEIVED);
        }
        row.trial.answers.push(answer);
    }
    row
}

#[test]
fn an_event_that_the_route_did_not_accept_runs_by_its_answers() {
    let not_committed = Fate::Runs {
        why: Runs::NotCommitted,
        until: None,
    };
    let same_key = Fate::Runs {
        why: Runs::SameKey,
        until: Some(RECEIVED + KEY_AGE),
    };
    let committed = Fate::Runs {
        why: Runs::Committed,
        until: None,
    };
    let (done, unknown) = (
        Fate::LeftOut(LeftOut::Done),
        Fate::LeftOut(LeftOut::EffectUnknown),
    );
    let status = RouteOutcome::Status;
    let refused = of_trial(&[status(500), status(404)]);
    let timeout = of_trial(&[status(500), RouteOutcome::Timeout]);
    let reset = of_trial(&[RouteOutcome::Unreachable]);
    let killed = of_trial(&[]);
    let mut more = of_trial(&[status(500)]);
    more.trial.requests += 1;
    let accepted = of_trial(&[RouteOutcome::Timeout, status(204)]);
    for (row, expected) in [
        (&refused, [not_committed; 3]),
        (&timeout, [unknown, same_key, same_key]),
        (&reset, [unknown, same_key, same_key]),
        (&killed, [unknown, same_key, same_key]),
        (&more, [unknown, same_key, same_key]),
        (&accepted, [done, done, committed]),
    ] {
        let fates = MODES.map(|mode| {
            let policy = Policy {
                mode,
                ..Policy::default()
            };
            fate(row, policy, Some(AT), RECEIVED + MINUTE)
        });
        assert_eq!(fates, expected, "{:?}", row.trial);
    }
}
