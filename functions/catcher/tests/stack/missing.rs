//! Events that lack a value that the preset or the source names.

use aws_sdk_dynamodb::types::AttributeValue;
use local::Options;
use serde_json::Value;
use testkit::sources::SourcesFile;

use super::support::{
    DEMO_SECRET, Headers, Inbox, headers, hex, options, seconds_from_now, unique,
};

/// The locations of the provider's events before a change, and an account that the operator names.
const SOURCES: &str = r#"
schema = 1

[[source]]
name = "fireflies-main"
preset = "generic-hmac"
params = { header = "x-hub-signature", prefix = "sha256=", id = "json:meetingId", type = "json:eventType" }
action = [{ kind = "keep" }]

[[source]]
name = "generic-main"
preset = "generic-hmac"
account = ["json:tenant"]
action = [{ kind = "keep" }]

[[source]]
name = "github-main"
preset = "github"
action = [{ kind = "keep" }]

[[source]]
name = "stripe-main"
preset = "stripe"
action = [{ kind = "keep" }]
"#;

struct Running {
    inbox: Inbox,
    _sources: SourcesFile,
}

impl Running {
    async fn start() -> Self {
        let sources = SourcesFile::new("missing", SOURCES);
        let inbox = Inbox::start(Options {
            sources_file: Some(sources.path()),
            ..options()
        })
        .await;
        Self {
            inbox,
            _sources: sources,
        }
    }

    async fn post(&self, source: &str, headers: &Headers, body: &str) {
        let answer = self.inbox.post(source, headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Returns the source, use and path of each line of the log.
    fn told(&self) -> Vec<String> {
        let log = self.inbox.stack.log_file("Catcher").unwrap();
        let log = std::fs::read_to_string(log).unwrap();
        let lines = log.lines();
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines = lines.filter(|line| line["fields"]["code"] == "path_missing");
        lines
            .map(|line| {
                assert_eq!(line["level"], "WARN");
                let fields = &line["fields"];
                let text = |name: &str| fields[name].as_str().unwrap().to_owned();
                ["source", "kind", "used_for", "path"].map(text).join(" ")
            })
            .collect()
    }

    /// Returns the sort key and the count of each stored path, without the hour.
    async fn stored(&self) -> Vec<(String, String)> {
        let query = self.inbox.stack.clients().dynamodb.query();
        let query = query
            .table_name(self.inbox.stack.table().unwrap())
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S("PATHS".into()));
        let items = query.send().await.unwrap().items.unwrap();
        let stored = items.into_iter().map(|item| {
            let (_, key) = item["sk"].as_s().unwrap().split_once('#').unwrap();
            (key.to_owned(), item["n"].as_n().unwrap().clone())
        });
        stored.collect()
    }
}

fn fireflies(body: &str) -> Headers {
    let signature = hex(DEMO_SECRET.as_bytes(), &[body.as_bytes()]);
    headers(&[
        ("content-type", "application/json"),
        ("x-hub-signature", &format!("sha256={signature}")),
    ])
}

#[tokio::test]
async fn the_first_event_of_a_new_form_is_named() {
    let running = Running::start().await;
    let old = r#"{"meetingId":"m1","eventType":"Transcription completed"}"#;
    running.post("fireflies-main", &fireflies(old), old).await;
    assert_eq!(running.told(), [""; 0]);
    let canary = running.inbox.canary();
    for number in 0..30 {
        let new = format!(
            r#"{{"event":"meeting.transcribed","meeting_id":"m{number}","word":"{canary}"}}"#
        );
        running.post("fireflies-main", &fireflies(&new), &new).await;
    }
    // A flood of such events has one line and one write for each path.
    let told = ["id json:meetingId", "type json:eventType"];
    assert_eq!(
        running.told(),
        told.map(|told| format!("fireflies-main  {told}"))
    );
    let stored = ["id#json:meetingId", "type#json:eventType"];
    let stored = stored.map(|key| (format!("fireflies-main#{key}"), "1".to_owned()));
    assert_eq!(running.stored().await, stored);
    running.inbox.is_unharmed();
}

#[tokio::test]
async fn an_optional_value_is_not_missed() {
    let running = Running::start().await;
    // An event of GitHub has an installation only if an app receives it.
    let app = r#"{"installation":{"id":1}}"#;
    let github = |body: &str| running.inbox.github(&unique(), body.as_bytes());
    running.post("github-main", &github("{}"), "{}").await;
    running.post("github-main", &github(app), app).await;
    assert_eq!(running.told(), [""; 0]);
    // The type had an account before.
    running.post("github-main", &github("{}"), "{}").await;
    let mut told = vec!["github-main push account json:installation.id".to_owned()];
    assert_eq!(running.told(), told);

    let connected = |id: &str, account: &str| {
        format!(r#"{{"id":"evt_{id}","type":"charge.succeeded","created":1,"data":{{}}{account}}}"#)
    };
    for account in [r#","account":"acct_1""#, ""] {
        let body = connected(&unique(), account);
        let now = seconds_from_now(0);
        let signed = running
            .inbox
            .timed("stripe-main", "", &now, body.as_bytes());
        running.post("stripe-main", &signed, &body).await;
    }
    assert_eq!(running.told(), told);

    // The operator names this account, so every event should have it.
    let body = r#"{"id":"1"}"#;
    let signature = hex(DEMO_SECRET.as_bytes(), &[body.as_bytes()]);
    let signed = headers(&[("x-signature", &signature)]);
    running.post("generic-main", &signed, body).await;
    told.push("generic-main  account json:tenant".to_owned());
    assert_eq!(running.told().last(), told.last());
    running.inbox.is_unharmed();
}
