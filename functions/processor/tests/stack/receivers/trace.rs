//! Tests that receivers with the stock SDKs of OpenTelemetry continue the trace of an event.

use std::fmt::Write as _;
use std::time::Duration;

use local::Options;
use serde_json::{Value, json};
use shared::aws::outbound::to_this_machine;
use shared::delivery::effects::idempotency_key;
use shared::inbox::trace::{SpanId, TraceId};
use shared::webhook::event::EventKey;
use testkit::sources::SourcesFile;

use super::app::{App, Driver, NODE, PYTHON};
use crate::support::{Inbox, failures, options, record, unique, with, work_message};

const RECEIVERS: [(&str, Driver, &str); 2] = [
    ("node", NODE, "otel.mjs"),
    ("python", PYTHON, "otel_app.py"),
];

#[tokio::test]
#[ignore = "needs the SDKs, which `make receivers` installs"]
async fn receivers_with_opentelemetry_continue_the_trace() {
    let mut file = "schema = 1\n[forward]\nallow_loopback = true\n".to_owned();
    let mut apps = Vec::new();
    for (source, driver, script) in RECEIVERS {
        let app = App::start(driver, script, "not used").await;
        write!(
            file,
            "[[source]]\nname = \"{source}\"\npreset = \"github\"\nsecret = \"github-main\"\n\
             [[source.action]]\nkind = \"http\"\nname = \"app\"\nsign = \"none\"\n\
             url = \"http://127.0.0.1:{}/webhook\"\n",
            app.port
        )
        .unwrap();
        apps.push(app);
    }
    let sources = SourcesFile::new("traced", &file);
    let inbox = Inbox::start(Options {
        sources_file: Some(sources.path()),
        ..options()
    })
    .await;
    for ((source, _, script), app) in RECEIVERS.iter().zip(&apps) {
        let key = sent(&inbox, source).await;
        let span = SpanId::of_effect(&key, &idempotency_key(&key, "app", 0), 0);
        let expected = json!({
            "method": "POST",
            "trace": TraceId::of(&key).to_string(),
            "parent": span.to_string(),
        });
        assert_eq!(exported(app).await, [expected], "{script}");
    }
    inbox.is_unharmed();
}

/// Sends an event whose sender names another trace, and processes it.
async fn sent(inbox: &Inbox, source: &str) -> EventKey {
    let id = unique();
    let body = json!({ "word": unique() }).to_string();
    let headers = inbox.github(&id, body.as_bytes());
    let headers = with(headers, "x-github-event", "push");
    let theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = with(headers, "traceparent", theirs);
    let answer = inbox.post(source, &headers, body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let key = EventKey::new(source, &id);
    let records = [record("1", &work_message(&key))];
    assert_eq!(failures(inbox, &records).await, [""; 0]);
    assert_eq!(inbox.row(&key).await["st"].as_s().unwrap(), "done");
    key
}

/// Returns the spans that the receiver exported, without those of this call.
async fn exported(app: &App) -> Vec<Value> {
    let url = format!("http://127.0.0.1:{}/spans", app.port);
    let client = to_this_machine(&url, Duration::from_secs(15)).unwrap();
    let answer = client.get(&url).send().await.unwrap();
    let spans: Vec<Value> = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    spans
}
