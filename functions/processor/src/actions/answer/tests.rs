//! Every status, with and without `Retry-After`, also as a stored response.

use super::*;

const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

fn answer(status: u16, retry_after: Option<u64>, replayed: bool) -> Answer {
    Answer {
        status,
        retry_after: retry_after.map(Duration::from_secs),
        replayed,
        ..Answer::default()
    }
}

fn of(answer: Answer, rules: &AnswerRules, first: u64) -> Effect {
    let call = Call {
        rules,
        now: NOW,
        first: Some(NOW - Duration::from_secs(first)),
        jitter: 0.0,
    };
    effect(Ok(answer), &call)
}

/// The meaning of a response in one word, and the wait in seconds that it asks for.
fn word(effect: Effect) -> (&'static str, u64) {
    let secs = |after: Option<Duration>| after.unwrap_or_default().as_secs();
    match effect {
        Effect::Done { .. } => ("done", 0),
        Effect::NotApplied(Outcome::Permanent { .. }) => ("permanent", 0),
        Effect::NotApplied(Outcome::Retry { after, .. }) => ("not applied", secs(after)),
        Effect::NotApplied(Outcome::Refused { after, within, .. }) => {
            assert_eq!(within, Duration::from_secs(3 * 3600));
            ("refused", secs(after))
        }
        Effect::NotApplied(Outcome::Deferred { until, asked, .. }) => {
            assert!(asked);
            ("deferred", until.since(NOW).as_secs())
        }
        Effect::Failed {
            replayed, after, ..
        } => (if replayed { "stored" } else { "failed" }, secs(after)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_status_has_one_meaning() {
    let rules = AnswerRules::default();
    for status in 0..=999 {
        let of = |after, replayed| word(of(answer(status, after, replayed), &rules, 0));
        let (plain, asked, stored, stored_asked) = match status {
            200..=299 => (("done", 0), ("done", 0), ("done", 0), ("done", 0)),
            410 | 413 | 422 => {
                let permanent = ("permanent", 0);
                (permanent, permanent, permanent, permanent)
            }
            429 => (
                ("not applied", 0),
                ("deferred", 60),
                ("not applied", 0),
                ("not applied", 60),
            ),
            503 => (
                ("not applied", 0),
                ("deferred", 60),
                ("stored", 0),
                ("stored", 0),
            ),
            408 | 409 | 425 => (
                ("not applied", 0),
                ("not applied", 60),
                ("not applied", 0),
                ("not applied", 60),
            ),
            300..=499 => (
                ("refused", 0),
                ("deferred", 60),
                ("permanent", 0),
                ("permanent", 0),
            ),
            _ => (("failed", 0), ("failed", 60), ("stored", 0), ("stored", 60)),
        };
        assert_eq!(of(None, false), plain, "{status}");
        assert_eq!(of(Some(60), false), asked, "{status} with Retry-After");
        assert_eq!(of(None, true), stored, "stored {status}");
        assert_eq!(
            of(Some(60), true),
            stored_asked,
            "stored {status} with Retry-After"
        );
    }
}

#[test]
fn the_settings_change_the_meaning_of_a_status() {
    let config = shared::sources::Config::parse(
        "schema = 1\n[forward]\nallow_hosts = [\"a.example\"]\n[[source]]\nname = \"s\"\n\
         preset = \"github\"\n[[source.action]]\nkind = \"http\"\nurl = \"https://a.example/\"\n\
         secret = \"s\"\nsuccess = [200, 409, 410, 503]\npermanent = [404, \"5xx\", 429, 202]\n",
    );
    let error = format!("{:#}", config.unwrap_err());
    assert!(
        error.contains("status 503 is in success and in permanent"),
        "{error}"
    );
    let config = shared::sources::Config::parse(
        "schema = 1\n[forward]\nallow_hosts = [\"a.example\"]\n[[source]]\nname = \"s\"\n\
         preset = \"github\"\n[[source.action]]\nkind = \"http\"\nurl = \"https://a.example/\"\n\
         secret = \"s\"\nsuccess = [200, 409, 410]\npermanent = [404, \"5xx\", 429, 202]\n",
    );
    let config = config.unwrap();
    let rules = &config.source("s").unwrap().actions[0].answers;
    for (status, expected) in [
        (200, "done"),
        (409, "done"),
        (410, "done"),
        (202, "permanent"),
        (404, "permanent"),
        (429, "permanent"),
        (500, "permanent"),
        (503, "permanent"),
        // The receiver may have processed the request.
        (201, "failed"),
        (413, "refused"),
    ] {
        let found = word(of(answer(status, Some(60), true), rules, 0));
        let stored = match expected {
            "failed" => "stored",
            "refused" => "permanent",
            other => other,
        };
        assert_eq!(found.0, stored, "{status}");
        let found = word(of(answer(status, None, false), rules, 0));
        assert_eq!(found.0, expected, "{status}");
        let healthy = heard(&Ok(answer(status, None, false)), rules, &key("1"));
        assert_eq!(healthy, CallResult::Success, "{status}");
    }
}

#[test]
fn a_destination_can_ask_for_ten_seconds_to_two_hours() {
    let rules = AnswerRules::default();
    for (asked, expected) in [(0, 10), (10, 10), (7_200, 7_200), (86_400, 7_200)] {
        for status in [429, 503, 403] {
            let found = word(of(answer(status, Some(asked), false), &rules, 0));
            assert_eq!(found, ("deferred", expected), "{status}");
        }
    }
    let call = Call {
        rules: &rules,
        now: NOW,
        first: None,
        jitter: 1.0,
    };
    let Effect::NotApplied(Outcome::Deferred { until, why, .. }) =
        effect(Ok(answer(429, Some(100), false)), &call)
    else {
        panic!()
    };
    assert_eq!(until.since(NOW).as_secs(), 120, "spread, and never early");
    assert_eq!(why, "the destination answered 429 and asked to wait 100 s");
}

#[test]
fn a_destination_that_asks_for_more_than_a_day_refuses() {
    const DAY: u64 = 24 * 3600;
    let rules = AnswerRules::default();
    for status in [429, 503, 403, 301] {
        let after = |first| word(of(answer(status, Some(60), false), &rules, first));
        assert_eq!(after(DAY - 60), ("deferred", 60), "{status}");
        assert_eq!(after(DAY - 59), ("refused", 60), "{status}");
    }
}

#[test]
fn a_call_without_a_response_is_not_sent_or_unknown() {
    let rules = AnswerRules::default();
    let call = Call {
        rules: &rules,
        now: NOW,
        first: None,
        jitter: 0.0,
    };
    let not_sent = effect(Err(SendError::NotSent("refused".into())), &call);
    assert_eq!(not_sent, Effect::NotApplied(Outcome::retry("refused")));
    let cut_off = effect(Err(SendError::OutcomeUnknown("timeout".into())), &call);
    assert!(matches!(cut_off, Effect::Unknown { .. }));
}

fn key(id: &str) -> EventKey {
    EventKey::new("s", id)
}

#[test]
fn a_destination_is_unwell_when_it_cannot_work_and_not_when_it_will_not() {
    let rules = AnswerRules::default();
    let of = |status, id: &str| heard(&Ok(answer(status, None, false)), &rules, &key(id));
    for status in [408, 429, 500, 503, 599] {
        assert_eq!(of(status, "1"), CallResult::Failure, "{status}");
    }
    for status in [100, 200, 402, 409, 410, 413, 422, 425, 451] {
        assert_eq!(of(status, "1"), CallResult::Success, "{status}");
    }
    for status in [300, 301, 399, 400, 401, 403, 404, 405] {
        let CallResult::Refused {
            status: told,
            event,
        } = of(status, "1")
        else {
            panic!("{status}")
        };
        assert_eq!(told, status);
        let CallResult::Refused { event: other, .. } = of(status, "2") else {
            panic!("{status}")
        };
        assert_ne!(event, other);
        // The stored response says nothing about the destination now.
        let stored = heard(&Ok(answer(status, None, true)), &rules, &key("1"));
        assert_eq!(stored, CallResult::Success);
    }
    let not_sent = Err(SendError::NotSent("refused".into()));
    assert_eq!(heard(&not_sent, &rules, &key("1")), CallResult::Failure);
}
