//! The request and the account of an event: what each destination gets, and the filters on them.

use serde_json::{Value, json};
use shared::webhook::event::EventKey;

use super::super::support::{failures, record, s, unique, with, work_message};
use super::World;

const LAMBDA: &str = "/2015-03-31/functions/context/invocations";

impl World {
    /// Posts an event to the source `context`, and processes it. `at` is a path and a query.
    async fn posted(&self, at: &str, more: &[(&str, &str)], body: &Value) -> EventKey {
        let id = unique();
        let body = body.to_string();
        let mut headers = self.inbox.github(&id, body.as_bytes());
        headers = with(headers, "content-type", "application/json");
        for (name, value) in more {
            headers = with(headers, name, value);
        }
        let to = format!("context{at}");
        let answer = self.inbox.post(&to, &headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        self.server.forget();
        let key = EventKey::new("context", &id);
        self.ring(&[&key]).await;
        self.fate(&key).await.is("done", 1, 0);
        key
    }

    fn calls(&self, action: &str) -> usize {
        self.server.all(&format!("/context/{action}")).len()
    }
}

#[tokio::test]
async fn destinations_get_the_request_and_the_account() {
    let world = World::start(&["SQS"]).await;
    let headers = [
        ("x-tenant", "one"),
        ("x-vault-token", "a credential"),
        ("x-forwarded-for", "203.0.113.9"),
    ];
    let path = "/a/b?plan=pro&access_token=t";
    world
        .posted(path, &headers, &json!({ "a": unique() }))
        .await;
    let account = json!({ "value": "one", "signed": false });
    let lambda = world.server.only(LAMBDA).json();
    let started = world.server.only("AWSStepFunctions.StartExecution").json();
    let put = world.server.only("AWSEvents.PutEvents").json();
    let parsed = |text: &Value| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap();
    for document in [
        &lambda,
        &parsed(&started["input"]),
        &parsed(&put["Entries"][0]["Detail"]),
    ] {
        assert_eq!(document["event"]["account"], account);
        let request = &document["request"];
        assert_eq!(request["method"], "POST");
        assert_eq!(request["path"], "/in/context/a/b");
        assert_eq!(request["query"], "plan=pro");
        let headers = &request["headers"];
        assert_eq!(headers["x-tenant"], "one");
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["x-github-event"], "push");
        assert!(headers["x-hub-signature-256"].is_string());
        for left_out in ["x-vault-token", "x-forwarded-for", "host"] {
            assert_eq!(headers[left_out], Value::Null, "{left_out}");
        }
        assert_eq!(document["requestOmitted"], Value::Null);
    }
    let sent = world.server.only("AmazonSQS.SendMessage").json();
    let attributes = &sent["MessageAttributes"];
    assert_eq!(attributes["Mitt-Account-Unsigned"]["StringValue"], "one");
    assert_eq!(attributes["Mitt-Account"], Value::Null);
    assert!(attributes.as_object().unwrap().len() <= 10);
    world.inbox.must_not_log("a credential");
    world.inbox.is_unharmed();
}

#[tokio::test]
async fn conditions_on_the_request_select_the_action() {
    let world = World::start(&["SQS"]).await;
    for (at, headers, header, account, query) in [
        ("?plan=pro", vec![("x-tenant", "one")], 1, 0, 1),
        ("?tenant=two&plan=free", vec![], 0, 1, 0),
        // The first location with a value counts.
        ("/two?tenant=three", vec![("x-tenant", "one")], 1, 0, 0),
        ("/two", vec![], 0, 1, 0),
        ("", vec![], 0, 0, 0),
    ] {
        world.posted(at, &headers, &json!({ "a": unique() })).await;
        let calls = ["header", "account", "query"].map(|action| world.calls(action));
        assert_eq!(calls, [header, account, query], "{at} {headers:?}");
    }
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_left_out_and_not_the_event() {
    let world = World::start(&["SQS"]).await;
    let value = "v".repeat(1_000);
    let headers = [
        ("x-one", value.as_str()),
        ("x-two", &value),
        ("x-three", &value),
    ];
    // The document has 1 MiB at most, and about 600 bytes beside the body.
    let body = json!({ "a": "x".repeat(1_048_576 - 2_000) });
    world.posted("", &headers, &body).await;
    let put = world.server.only("AWSEvents.PutEvents").json();
    let detail = put["Entries"][0]["Detail"].as_str().unwrap();
    let detail: Value = serde_json::from_str(detail).unwrap();
    assert_eq!(detail["request"], Value::Null);
    assert_eq!(detail["requestOmitted"], true);
    assert_eq!(detail["body"], body);
    let lambda = world.server.only(LAMBDA).json();
    assert_eq!(lambda["request"]["headers"]["x-one"], value, "it fits 6 MB");
}

/// A processor that was updated before the catcher, or an event of an older release.
#[tokio::test]
async fn an_event_without_a_request_is_processed() {
    let world = World::start(&["SQS"]).await;
    let id = unique();
    let body = json!({ "a": unique() }).to_string();
    let headers = world.inbox.github(&id, body.as_bytes());
    let headers = with(headers, "x-tenant", "one");
    world.inbox.post("context", &headers, body.as_bytes()).await;
    let key = EventKey::new("context", &id);
    let mut row = world.inbox.row(&key).await;
    assert_eq!(row.get("acc"), Some(&s("-one")));
    row.remove("acc");
    assert!(row.remove("rq").is_some(), "the body is in the row");
    world.inbox.put(row).await;
    world.server.forget();
    let records = [record("0", &work_message(&key))];
    assert_eq!(failures(&world.inbox, &records).await, [""; 0]);
    world.fate(&key).await.is("done", 1, 0);
    let lambda = world.server.only(LAMBDA).json();
    assert_eq!(lambda["request"], Value::Null);
    assert_eq!(lambda["event"]["account"], Value::Null);
    assert_eq!(world.calls("header"), 0);
}
