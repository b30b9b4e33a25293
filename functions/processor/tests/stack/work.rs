//! Workers outside of Lambda with the real functions: two roles call the API of a queue through the
//! gateway, and each event has one worker at a time.

mod approval;

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::{Value, json};
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Ledger;
use shared::webhook::event::EventKey;
use testkit::sources::SourcesFile;

use super::support::{Inbox, failures, options, record, work_message};

const SOURCES: &str = r#"
schema = 1

[[source]]
name = "github-main"
preset = "github"

[[source.action]]
kind = "keep"
name = "all"

[[source.action]]
kind = "pull"
name = "triage"
queue = "triage"
lease = "30s"
max_hold = "2m"
destination = "tracker"
workers = [
  "arn:aws:iam::000000000000:role/agents/one",
  "arn:aws:iam::000000000000:role/two",
]

[[source]]
name = "stripe-main"
preset = "stripe"
action = [{ kind = "pull", queue = "closed" }]
"#;

pub(super) struct World {
    pub(super) inbox: Inbox,
    // The file is deleted when the test ends.
    _sources: SourcesFile,
}

impl World {
    async fn start(name: &str) -> Self {
        Self::with(name, SOURCES).await
    }

    pub(super) async fn with(name: &str, sources: &str) -> Self {
        let sources = SourcesFile::new(name, sources);
        let inbox = Inbox::start(Options {
            sources_file: Some(sources.path()),
            parameters: [("WorkerApi".to_owned(), "true".to_owned())].into(),
            ..options()
        })
        .await;
        Self {
            inbox,
            _sources: sources,
        }
    }

    /// Stores an event, and lets the processor run its other action.
    pub(super) async fn parked(&self) -> EventKey {
        let key = self.inbox.new_event().await;
        let message = record("1", &work_message(&key));
        assert_eq!(failures(&self.inbox, &[message]).await, [""; 0]);
        let row = self.inbox.row(&key).await;
        assert_eq!(row["st"].as_s().unwrap(), "received");
        assert_eq!(row["pul"].as_s().unwrap(), "triage");
        key
    }

    pub(super) async fn call(&self, role: &str, path: &str, body: &Value) -> (u16, Value) {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={role}/20261128/us-east-1/execute-api/aws4_request, \
             SignedHeaders=host, Signature=0a1b"
        );
        let headers = [
            ("authorization".to_owned(), authorization),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        let body = body.to_string();
        let target = format!("/work/{path}");
        let answer = self
            .inbox
            .request("POST", &target, &headers, body.as_bytes());
        let answer = answer.await;
        let body = serde_json::from_slice(&answer.body).unwrap();
        (answer.status, body)
    }

    /// Calls an operation that must succeed.
    pub(super) async fn ok(&self, role: &str, op: &str, body: &Value) -> Value {
        self.ok_in("triage", role, op, body).await
    }

    async fn ok_in(&self, queue: &str, role: &str, op: &str, body: &Value) -> Value {
        let (status, answer) = self.call(role, &format!("{queue}/{op}"), body).await;
        assert_eq!((status, &answer["v"]), (200, &json!(1)), "{op}: {answer}");
        answer
    }

    /// Calls an operation that must fail. Returns the status and the code.
    pub(super) async fn refused(&self, role: &str, op: &str, body: &Value) -> (u16, String) {
        let (status, answer) = self.call(role, &format!("triage/{op}"), body).await;
        assert_eq!(answer["v"], 1, "{op}: {answer}");
        assert!(answer["message"].is_string(), "{op}: {answer}");
        (
            status,
            answer["error"].as_str().unwrap_or_default().to_owned(),
        )
    }

    /// Claims the only event.
    pub(super) async fn claimed(&self, role: &str) -> Value {
        let mut answer = self.ok(role, "next", &json!({ "worker": role })).await;
        let event = answer["events"][0].take();
        assert!(event.is_object(), "{answer}");
        event
    }

    /// Ends the lease of an event, as time would.
    async fn expire(&self, key: &EventKey) {
        let mut row = self.inbox.row(key).await;
        let over = UnixMillis::now() - Duration::from_secs(60);
        for name in ["lu", "gsk"] {
            row.insert(name.to_owned(), AttributeValue::N(over.0.to_string()));
        }
        self.inbox.put(row).await;
    }

    async fn state(&self, key: &EventKey) -> String {
        self.inbox.row(key).await["st"].as_s().unwrap().clone()
    }

    /// Declares an effect and ends it, and then the work. Repeats some requests, as a worker does
    /// whose answer was lost.
    async fn finishes(&self, key: &EventKey, event: &Value) {
        let begin = with(
            event,
            json!({ "effect": "open-ticket", "keys": "honoured" }),
        );
        let begun = self.ok("one", "begin", &begin).await;
        assert_eq!(begun["go"], true, "{begun}");
        // A repeated request gets the same answer.
        let again = self.ok("one", "begin", &begin).await;
        assert_eq!((&again["go"], &again["key"]), (&begun["go"], &begun["key"]));
        let done = with(event, json!({ "outcome": "done" }));
        assert_eq!(
            self.refused("one", "finish", &done).await,
            (422, "open_effects".into())
        );
        let end = with(
            event,
            json!({ "effect": "open-ticket", "result": "done", "note": "T-1" }),
        );
        assert_eq!(self.ok("one", "end", &end).await, json!({ "v": 1 }));
        let begun = self.ok("one", "begin", &begin).await;
        assert_eq!(
            (&begun["done"], &begun["note"]),
            (&json!(true), &json!("T-1"))
        );
        for _ in 0..2 {
            let finished = self.ok("one", "finish", &done).await;
            assert_eq!(finished["status"], "done", "{finished}");
        }
        let row = self.inbox.row(key).await;
        assert_eq!(row["st"].as_s().unwrap(), "done");
        assert!(!row.contains_key("pul") && !row.contains_key("gpk"));
        let effects = row["fx"].as_m().unwrap();
        for name in ["open-ticket", "triage"] {
            let state = &effects[name].as_m().unwrap()["s"];
            assert_eq!(state.as_s().unwrap(), "done", "{name}");
        }
        assert_eq!(
            self.refused("one", "extend", &with(event, json!({}))).await,
            (409, "lease_lost".into())
        );
    }
}

pub(super) fn with(event: &Value, fields: Value) -> Value {
    let mut body = fields;
    body["lease"] = event["lease"].clone();
    body
}

#[tokio::test]
async fn a_worker_claims_an_event_declares_its_effect_and_ends_it() {
    let world = World::start("work").await;
    let key = world.parked().await;
    let event = world.claimed("one").await;
    assert_eq!(event["source"], "github-main");
    assert_eq!(
        (&event["attempt"], &event["takeover"]),
        (&json!(1), &json!(false))
    );
    let body = world.inbox.kept(&key).await.unwrap();
    assert_eq!(event["body"].as_str().unwrap().as_bytes(), &body[..]);
    let (id, run) = (
        event["id"].as_str().unwrap(),
        event["run_id"].as_str().unwrap(),
    );
    assert!(run.starts_with(&format!("{id}.0.")), "{run}");
    assert_eq!(event["thread"], format!("{id}.0"));
    assert!(event["trace"].as_str().unwrap().starts_with("00-"));
    assert_eq!(world.state(&key).await, "processing");
    // No other worker gets it, and a second answer says when to ask again.
    let empty = world.ok("two", "next", &json!({})).await;
    assert_eq!(
        (&empty["events"], &empty["reason"]),
        (&json!([]), &json!("empty"))
    );
    assert!(empty["retry_after_ms"].as_u64().unwrap() >= 1_000);

    let extended = world
        .ok("one", "extend", &with(&event, json!({ "lease_s": 60 })))
        .await;
    assert!(
        (55_000..=60_000).contains(&extended["lease_ms"].as_u64().unwrap()),
        "{extended}"
    );
    world.finishes(&key, &event).await;
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn another_worker_takes_over_and_the_first_one_is_told() {
    let world = World::start("work-takeover").await;
    let key = world.parked().await;
    let first = world.claimed("one").await;
    let begin = json!({ "effect": "open-ticket", "keys": "ask" });
    let begun = world.ok("one", "begin", &with(&first, begin.clone())).await;
    assert_eq!(begun["go"], true);
    world.expire(&key).await;
    let second = world.claimed("two").await;
    assert_eq!(
        (&second["attempt"], &second["takeover"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(second["effects"]["open-ticket"]["state"], "intent");
    assert_ne!(second["run_id"], first["run_id"]);
    assert_eq!(second["thread"], first["thread"]);
    // What the first worker does now changes nothing.
    for (op, body, code) in [
        ("extend", json!({}), "lease_lost"),
        (
            "begin",
            json!({ "effect": "other", "keys": "ask" }),
            "lease_lost",
        ),
        (
            "end",
            json!({ "effect": "open-ticket", "result": "not" }),
            "lease_lost",
        ),
        ("finish", json!({ "outcome": "done" }), "stale"),
    ] {
        assert_eq!(
            world.refused("one", op, &with(&first, body)).await,
            (409, code.into()),
            "{op}"
        );
    }
    // The second one has to ask the other system, and cannot be sure yet.
    let doubt = world.ok("two", "begin", &with(&second, begin)).await;
    assert_eq!(
        (&doubt["in_doubt"], &doubt["key"]),
        (&json!(true), &begun["key"])
    );
    let asked = json!({ "effect": "open-ticket", "keys": "ask", "asked": "did_not" });
    let doubt = world.ok("two", "begin", &with(&second, asked)).await;
    assert_eq!(
        doubt["in_doubt"], true,
        "a call of the first worker can still arrive"
    );
    let found = json!({ "effect": "open-ticket", "result": "done", "note": "T-7" });
    world.ok("two", "end", &with(&second, found)).await;
    let done = world
        .ok(
            "two",
            "finish",
            &with(&second, json!({ "outcome": "done" })),
        )
        .await;
    assert_eq!(done["status"], "done");
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_worker_cannot_end_the_doubt_of_an_earlier_attempt() {
    let world = World::start("work-doubt").await;
    let key = world.parked().await;
    let first = world.claimed("one").await;
    let begin = json!({ "effect": "open-ticket", "keys": "ask" });
    world.ok("one", "begin", &with(&first, begin)).await;
    world.expire(&key).await;
    let second = world.claimed("two").await;
    // A call of the first one may still be under way.
    let ended = json!({ "effect": "open-ticket", "result": "not" });
    let refused = world.refused("two", "end", &with(&second, ended)).await;
    assert_eq!(refused, (422, "effect_in_doubt".into()));
    let with_end =
        json!({ "outcome": "done", "effects": { "open-ticket": { "result": "refused" } } });
    let with_end = with(&second, with_end);
    let refused = world.refused("two", "finish", &with_end).await;
    assert_eq!(refused, (422, "effect_in_doubt".into()));
    let found = json!({ "effect": "open-ticket", "result": "done" });
    world.ok("two", "end", &with(&second, found)).await;
    // Records of actions are not the worker's.
    let of_action = json!({ "effect": "all", "result": "done" });
    let refused = world.refused("two", "end", &with(&second, of_action)).await;
    assert_eq!(refused, (422, "effect_of_action".into()));
}

#[tokio::test]
async fn only_the_roles_of_the_queue_get_events_and_only_their_own() {
    let world = World::start("work-roles").await;
    let key = world.parked().await;
    let not_allowed = (403, "not_allowed".to_owned());
    assert_eq!(
        world.refused("three", "next", &json!({})).await,
        not_allowed
    );
    // A queue without `workers` accepts no role.
    let (status, answer) = world.call("one", "closed/next", &json!({})).await;
    assert_eq!((status, &answer["error"]), (403, &json!("not_allowed")));
    let (status, answer) = world.call("one", "other/next", &json!({})).await;
    assert_eq!((status, &answer["error"]), (404, &json!("unknown_queue")));
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.ends_with("the queues of this role: triage"),
        "{message}"
    );
    let (_, answer) = world.call("three", "other/next", &json!({})).await;
    let message = answer["message"].as_str().unwrap();
    assert!(message.ends_with("this role has no queue"), "{message}");
    let (status, answer) = world.call("one", "triage/steal", &json!({})).await;
    assert_eq!(
        (status, &answer["error"]),
        (404, &json!("unknown_operation"))
    );
    let event = world.claimed("one").await;
    for (op, body) in [
        ("extend", json!({})),
        ("begin", json!({ "effect": "a", "keys": "ask" })),
        ("end", json!({ "effect": "a", "result": "done" })),
        ("finish", json!({ "outcome": "done" })),
    ] {
        let stolen = with(&event, body);
        assert_eq!(world.refused("two", op, &stolen).await, not_allowed, "{op}");
    }
    assert_eq!(world.state(&key).await, "processing");
    // An effect must not have the name of an action: the other action would be skipped.
    let taken = with(&event, json!({ "effect": "all", "keys": "ask" }));
    assert_eq!(
        world.refused("one", "begin", &taken).await,
        (422, "effect_of_action".into())
    );
    let unknown = with(&event, json!({ "effect": "a", "result": "done" }));
    assert_eq!(
        world.refused("one", "end", &unknown).await,
        (422, "not_begun".into())
    );
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_worker_retries_releases_and_gives_up() {
    let world = World::start("work-outcomes").await;
    let key = world.parked().await;
    let secret = world.inbox.canary();
    let event = world.claimed("one").await;
    let retry = with(
        &event,
        json!({ "outcome": "retry", "error": secret, "after_s": 600 }),
    );
    let answer = world.ok("one", "finish", &retry).await;
    assert_eq!(answer["status"], "failed");
    let row = world.inbox.row(&key).await;
    let error = row["err"].as_s().unwrap();
    assert!(error.ends_with(&secret), "{error}");
    let (due, again) = (row["due"].as_n().unwrap(), row["gsk"].as_n().unwrap());
    assert_eq!(due, again, "a worker can take it when it is due");
    let empty = world.ok("one", "next", &json!({})).await;
    assert_eq!(empty["reason"], "empty");

    let key = world.parked().await;
    let event = world.claimed("two").await;
    let release = with(&event, json!({ "outcome": "release" }));
    world.ok("two", "finish", &release).await;
    let event = world.claimed("one").await;
    assert_eq!(event["attempt"], 1, "a release is not an attempt");
    let give_up = with(&event, json!({ "outcome": "permanent", "error": secret }));
    let answer = world.ok("one", "finish", &give_up).await;
    assert_eq!(
        (&answer["status"], &answer["reason"]),
        (&json!("dead_letter"), &json!("permanent"))
    );
    assert_eq!(world.state(&key).await, "dead_letter");
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn nothing_is_handed_out_while_the_destination_is_down() {
    let world = World::start("work-down").await;
    let mut down = false;
    // A process counts failures, and opens the breaker after some of them.
    for _ in 0..30 {
        world.parked().await;
        let answer = world.ok("one", "next", &json!({})).await;
        if answer["reason"] == "down" {
            assert!(
                answer["retry_after_ms"].as_u64().unwrap() > 1_000,
                "{answer}"
            );
            down = true;
            break;
        }
        let event = &answer["events"][0];
        let failed = json!({ "outcome": "retry", "after_s": 600, "destination_failed": true });
        world.ok("one", "finish", &with(event, failed)).await;
    }
    assert!(down, "the breaker never opened");
    world.inbox.tells_nothing();
}

#[tokio::test]
async fn a_paused_source_hands_out_no_event() {
    use shared::inbox::ledger::{FlagKind, OperatorFlag};
    let world = World::start("work-paused").await;
    let key = world.parked().await;
    let clients = world.inbox.stack.clients();
    let ledger = Ledger::new(clients.dynamodb, world.inbox.stack.table().unwrap(), None);
    let flag = OperatorFlag::new("anna", "a bad release", "", UnixMillis::now()).unwrap();
    let kind = FlagKind::Pause("github-main");
    ledger.operations().set_flag(kind, &flag).await.unwrap();
    // A process can have read the flag five seconds ago.
    let mut answer = world.ok("one", "next", &json!({})).await;
    for _ in 0..100 {
        if answer["reason"] == "paused" {
            break;
        }
        if answer["events"][0].is_object() {
            let release = with(&answer["events"][0], json!({ "outcome": "release" }));
            world.ok("one", "finish", &release).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = world.ok("one", "next", &json!({})).await;
    }
    assert_eq!(answer["reason"], "paused", "{answer}");
    assert_ne!(world.state(&key).await, "processing");
}

/// Each payload gets an answer, and the process stays alive.
#[tokio::test]
async fn any_request_gets_an_answer() {
    let world = World::start("work-fuzz").await;
    let iam = |arn: Value| json!({ "authorizer": { "iam": { "userArn": arn } } });
    let role = "arn:aws:sts::000000000000:assumed-role/one/s";
    for (request, status) in [
        (json!({}), 404),
        (json!({ "rawPath": "/work/triage/next" }), 403),
        (
            json!({ "rawPath": "/work/triage/next", "requestContext": iam(json!(null)) }),
            403,
        ),
        (
            json!({ "rawPath": "/work/triage/next", "requestContext": iam(json!("x")) }),
            403,
        ),
        (
            json!({ "rawPath": "/work/triage/next", "requestContext": iam(json!(role)), "body": "%", "isBase64Encoded": true }),
            400,
        ),
        (
            json!({ "rawPath": "/work/triage/next", "requestContext": iam(json!(role)), "body": "[1" }),
            400,
        ),
        (
            json!({ "rawPath": "/work/triage/next", "requestContext": iam(json!(role)), "body": null }),
            200,
        ),
        (
            json!({ "rawPath": "/work/triage/finish", "requestContext": iam(json!(role)), "body": "{\"lease\":\"e30\"}" }),
            400,
        ),
    ] {
        let answer = world.inbox.invoke("Processor", &request).await;
        let answer: Value = answer.json().unwrap();
        assert_eq!(answer["statusCode"], status, "{request}: {answer}");
    }
    world.inbox.tells_nothing();
}
