use serde_json::json;
use shared::base::clock::UnixMillis;
use shared::webhook::event::EventKey;

use super::*;
use crate::work::caller::Caller;
use crate::work::token::owner_of;

fn lease() -> String {
    let caller = Caller::of("arn:aws:iam::111122223333:role/triage").unwrap();
    let owner = owner_of(&caller, "a", UnixMillis(1_795_169_681_000));
    let key = EventKey::new("github-org", "1");
    let token = LeaseToken::new(key, 1, &format!("{owner}/0123456789ab")).unwrap();
    token.encode()
}

fn read(op: &str, body: &Value) -> Result<Op, Refusal> {
    Op::read(op, body.to_string().as_bytes())
}

fn refused(op: &str, body: &Value) -> String {
    let refusal = read(op, body).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (400, "invalid_request"));
    refusal.message
}

#[test]
fn next_needs_no_field() {
    for body in [b"".as_slice(), b"{}", b"{\"later\": 1}", b"{\"max\": null}"] {
        let Ok(Op::Next(next)) = Op::read("next", body) else {
            panic!("{body:?}");
        };
        assert_eq!((next.lease, next.most), (None, 1));
        assert_eq!(next.worker, UNNAMED);
    }
    let body = json!({ "lease_s": 300, "worker": "a-1", "max": 10 });
    let Ok(Op::Next(next)) = read("next", &body) else {
        panic!("not read");
    };
    assert_eq!(next.lease, Some(Duration::from_secs(300)));
    assert_eq!((next.worker.as_str(), next.most), ("a-1", 10));
}

/// Requests with one wrong field, and what the refusal says.
fn wrong() -> Vec<(&'static str, Value, &'static str)> {
    let mut wrong = wrong_claims();
    wrong.extend([
        ("extend", json!({}), "lease must be"),
        ("extend", json!({ "lease": "e30" }), "lease must be"),
        (
            "begin",
            json!({ "lease": lease(), "effect": "a" }),
            "keys must be",
        ),
        (
            "begin",
            json!({ "lease": lease(), "effect": "A b", "keys": "ask" }),
            "effect must have",
        ),
        (
            "begin",
            json!({ "lease": lease(), "effect": "a", "keys": "ask", "asked": "yes" }),
            "asked must be",
        ),
        (
            "end",
            json!({ "lease": lease(), "effect": "a", "result": "ok" }),
            "result must be",
        ),
        (
            "end",
            json!({ "lease": lease(), "effect": "a", "result": "done", "note": 1 }),
            "note must be",
        ),
        (
            "finish",
            json!({ "lease": lease(), "outcome": "ok" }),
            "outcome must be",
        ),
        (
            "finish",
            json!({ "lease": lease(), "outcome": "retry", "after_s": -1 }),
            "after_s must be",
        ),
        (
            "finish",
            json!({ "lease": lease(), "outcome": "done", "effects": { "a": "done" } }),
            "each effect must be an object",
        ),
        (
            "finish",
            json!({ "lease": lease(), "outcome": "done", "destination_failed": "no" }),
            "destination_failed must be",
        ),
    ]);
    wrong
}

fn wrong_claims() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("next", json!([]), "JSON object"),
        (
            "next",
            json!({ "lease_s": 29 }),
            "lease_s must be a whole number from 30 to 900",
        ),
        ("next", json!({ "lease_s": "2m" }), "lease_s"),
        (
            "next",
            json!({ "max": 11 }),
            "max must be a whole number from 1 to 10",
        ),
        ("next", json!({ "worker": "a/b" }), "worker"),
        ("next", json!({ "worker": 7 }), "worker must be a text"),
    ]
}

#[test]
fn a_refusal_names_the_field_and_what_it_takes() {
    for (op, body, word) in wrong() {
        let message = refused(op, &body);
        assert!(message.contains(word), "{op} {body}: {message}");
    }
}

#[test]
fn a_refusal_repeats_no_value() {
    for (op, body) in [
        ("next", json!("hunter2")),
        ("next", json!({ "worker": "hunter2 " })),
        ("extend", json!({ "lease": "hunter2" })),
        ("end", json!({ "lease": lease(), "effect": "hunter2!" })),
        (
            "finish",
            json!({ "lease": lease(), "outcome": "done", "effects": { "hunter2!": {} } }),
        ),
    ] {
        let refusal = read(op, &body).unwrap_err();
        assert!(!refusal.answer().body().contains("hunter2"), "{op} {body}");
    }
    let refusal = read("hunter2", &json!({})).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (404, "unknown_operation"));
    assert!(!refusal.message.contains("hunter2"));
}

#[test]
fn long_texts_are_shortened_and_long_requests_refused() {
    let long = "ä".repeat(1_000);
    let body = json!({
        "lease": lease(), "outcome": "retry", "error": long, "after_s": 60,
        "effects": { "open-ticket": { "result": "done", "note": long } },
    });
    let Ok(Op::Finish(finish)) = read("finish", &body) else {
        panic!("not read");
    };
    assert_eq!(finish.error.chars().count(), LONGEST_ERROR);
    assert_eq!(finish.after, Some(Duration::from_secs(60)));
    let ended = &finish.effects["open-ticket"];
    assert_eq!(ended.result, EffectResult::Done);
    assert_eq!(ended.note.chars().count(), LONGEST_NOTE);
    let refusal = Op::read("next", &vec![b' '; LARGEST + 1]).unwrap_err();
    assert_eq!(refusal.status, 413);
    let many: Map<_, _> = (0..=MOST_EFFECTS)
        .map(|number| (format!("e-{number}"), json!({ "result": "done" })))
        .collect();
    let body = json!({ "lease": lease(), "outcome": "done", "effects": many });
    assert!(refused("finish", &body).contains("at most 20"));
}

#[test]
fn an_answer_has_the_version() {
    let answer = Refusal::lease_lost().answer();
    let body: Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!(answer.status(), 409);
    assert_eq!(
        (&body["v"], &body["error"]),
        (&json!(1), &json!("lease_lost"))
    );
}

/// The fields of all requests.
const NAMES: [&str; 14] = [
    "lease",
    "lease_s",
    "worker",
    "max",
    "effect",
    "keys",
    "asked",
    "result",
    "note",
    "outcome",
    "error",
    "after_s",
    "effects",
    "destination_failed",
];

/// Every value in every field is read or refused.
#[test]
fn any_json_gets_an_answer() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e308),
        json!(u64::MAX),
        json!(""),
        json!("done"),
        json!("did_not"),
        json!("a\u{0}b\u{202e}"),
        json!(lease()),
        json!([]),
        json!({}),
        json!({ "": {} }),
        json!({ "a": { "result": "done", "note": null } }),
        json!({ "a": { "result": 1 } }),
    ];
    let mut sound = Map::new();
    for (name, value) in [
        ("lease", json!(lease())),
        ("effect", json!("a")),
        ("keys", json!("ask")),
        ("result", json!("done")),
        ("outcome", json!("done")),
    ] {
        sound.insert(name.to_owned(), value);
    }
    for op in ["next", "extend", "begin", "end", "finish"] {
        assert!(read(op, &Value::Object(sound.clone())).is_ok(), "{op}");
        assert!(Op::read(op, deep.as_bytes()).is_err());
        assert!(Op::read(op, b"\xff\xfe{").is_err());
        for name in NAMES {
            for value in &values {
                let mut body = sound.clone();
                body.insert(name.to_owned(), value.clone());
                let read = read(op, &Value::Object(body));
                if let Err(refusal) = read {
                    assert!((400..500).contains(&refusal.status), "{op} {name} {value}");
                }
            }
        }
    }
}
