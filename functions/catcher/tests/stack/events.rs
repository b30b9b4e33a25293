//! The sample events in `infra/events`, and the README that describes them.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use shared::sources;
use shared::webhook::event::EventKey;

use super::root;
use super::support::{Answer, DEMO_SECRET, Inbox, hex, seconds_from_now};

fn file(name: &str) -> Value {
    let path = root().join("infra/events").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the cells next to each file name in the tables of the README.
fn documented() -> BTreeMap<String, Vec<String>> {
    let readme = std::fs::read_to_string(root().join("infra/events/README.md")).unwrap();
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, rest) = row.split_once("` | ").unwrap();
        let cells = rest.trim_end_matches(" |").split(" | ");
        (
            name.to_owned(),
            cells
                .map(|cell| cell.trim_matches('`').to_owned())
                .collect(),
        )
    })
    .collect()
}

fn source(event: &Value) -> &str {
    event["rawPath"]
        .as_str()
        .unwrap()
        .strip_prefix("/in/")
        .unwrap()
}

fn body(event: &Value) -> Vec<u8> {
    let body = event["body"].as_str().unwrap();
    if event["isBase64Encoded"] == true {
        STANDARD.decode(body).unwrap()
    } else {
        body.into()
    }
}

/// Returns the event as its provider would sign it at this time. With `None`, the event keeps its
/// own time.
fn signed(inbox: &Inbox, event: &Value, at: Option<&str>) -> Value {
    let mut event = event.clone();
    let body = body(&event);
    let given = event["headers"].clone();
    let text = |name: &str| given[name].as_str().unwrap_or_default();
    let source = source(&event).to_owned();
    let own = match source.as_str() {
        "stripe-main" => text("stripe-signature")[2..12].to_owned(),
        "slack-main" => text("x-slack-request-timestamp").to_owned(),
        _ => text("webhook-timestamp").to_owned(),
    };
    let at = at.unwrap_or(&own);
    let proof = match source.as_str() {
        "stripe-main" | "slack-main" | "standard-main" => {
            inbox.timed(&source, text("webhook-id"), at, &body)
        }
        _ => {
            let name = if source == "fireflies-main" {
                "x-hub-signature"
            } else {
                "x-hub-signature-256"
            };
            let signature = format!("sha256={}", hex(DEMO_SECRET.as_bytes(), &[&body]));
            vec![(name.to_owned(), signature)]
        }
    };
    for (name, value) in proof.iter().filter(|(name, _)| name != "content-type") {
        assert!(event["headers"][name].is_string(), "{source} has no {name}");
        event["headers"][name] = json!(value);
    }
    event
}

#[test]
fn every_sample_is_documented_and_nothing_else() {
    let folder = std::fs::read_dir(root().join("infra/events")).unwrap();
    let files: BTreeSet<String> = folder
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    assert_eq!(files, documented().into_keys().collect());
    let readme = std::fs::read_to_string(root().join("infra/events/README.md")).unwrap();
    assert!(readme.contains(DEMO_SECRET));
}

/// The samples that the catcher stores: source, id and file.
const STORED: [[&str; 3]; 5] = [
    [
        "github-main",
        "0b989ba4-242f-11e5-81e1-c7b6966d2516",
        "catcher-github.json",
    ],
    [
        "stripe-main",
        "evt_1SkVdC2eZvKYlo2C8zQ4demo",
        "catcher-stripe.json",
    ],
    [
        "slack-main",
        "13345224609.738474920.8088930838d88f008e0",
        "catcher-base64-form.json",
    ],
    [
        "fireflies-main",
        "ASxwZxCstx/meeting.transcribed",
        "catcher-fireflies.json",
    ],
    [
        "standard-main",
        "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
        "catcher-standard-webhooks.json",
    ],
];

#[tokio::test]
async fn the_catcher_answers_each_sample_as_the_readme_says() {
    let inbox = Inbox::shared().await;
    let configured = sources::Config::parse(sources::EMBEDDED).unwrap();
    let now = seconds_from_now(0);
    let mut seen = 0;
    for (name, cells) in documented()
        .iter()
        .filter(|(name, _)| name.starts_with("catcher-"))
    {
        seen += 1;
        let event = file(name);
        // CodeDeploy's check is no webhook: a GET request without a signature.
        if name == "catcher-new-version-check.json" {
            let answer = inbox.catch(&event).await;
            assert_eq!(answer.status.to_string(), cells[0], "{answer:?}");
            continue;
        }
        let known = configured.source(source(&event)).is_some();
        let elsewhere = source(&event) == "unknown";
        assert!(
            known || elsewhere,
            "{name}: infra/sources.toml has no such source"
        );
        if name != "catcher-forged.json" {
            assert_eq!(
                signed(&inbox, &event, None),
                event,
                "{name} is not signed with the demo secret"
            );
        }
        assert_eq!(
            event["headers"]["content-length"],
            body(&event).len().to_string(),
            "{name}"
        );

        let answer = inbox.catch(&event).await;
        assert_eq!(
            answer.status.to_string(),
            cells[0],
            "{name} as it is: {answer:?}"
        );
        let answer = inbox.catch(&signed(&inbox, &event, Some(&now))).await;
        assert_eq!(
            answer.status.to_string(),
            cells[1],
            "{name} signed again: {answer:?}"
        );
        if name == "catcher-slack-url-verification.json" {
            let asked: Value = serde_json::from_slice(&body(&event)).unwrap();
            assert_eq!(answer.text(), asked["challenge"].as_str().unwrap());
        }
    }
    assert_eq!(seen, 9);
    for [source, id, name] in STORED {
        let kept = inbox.kept(&EventKey::new(source, id)).await;
        assert_eq!(kept.unwrap(), body(&file(name)), "{name}");
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn the_processor_answers_each_sample_as_the_readme_says() {
    // This test does not share its inbox, because the order of the events matters.
    let inbox = Inbox::start(super::support::options()).await;
    let documented = documented();
    for name in ["catcher-github.json", "catcher-fireflies.json"] {
        let answer: Answer = inbox.catch(&file(name)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let state = async |key: &EventKey| inbox.row(key).await["st"].as_s().unwrap().clone();
    let issue = EventKey::new("github-main", "0b989ba4-242f-11e5-81e1-c7b6966d2516");
    let transcript = EventKey::new("fireflies-main", "ASxwZxCstx/meeting.transcribed");
    for (name, settled) in [
        ("processor-invalid-message.json", ["received", "received"]),
        ("processor-one.json", ["done", "received"]),
        ("processor-batch.json", ["done", "done"]),
        ("processor-one.json", ["done", "done"]),
    ] {
        let answer = inbox.invoke("Processor", &file(name)).await.json().unwrap();
        assert_eq!(answer.to_string(), documented[name][0], "{name}");
        assert_eq!(
            [state(&issue).await, state(&transcript).await],
            settled,
            "{name}"
        );
    }
    inbox.is_unharmed();
    inbox.stack.stop().await;
}

#[tokio::test]
async fn backup_sync_does_what_its_schedules_send() {
    let inbox = Inbox::shared().await;
    let sent: BTreeSet<String> = inbox
        .stack
        .template()
        .schedules
        .iter()
        .map(|schedule| schedule.input.to_string())
        .collect();
    let [sweep, drain, sync, reconcile, endpoints, count] =
        ["sweep", "drain", "sync", "reconcile", "endpoints", "count"]
            .map(|task| file(&format!("backup-sync-{task}.json")));
    let all = [&sweep, &drain, &sync, &reconcile, &endpoints, &count];
    assert_eq!(sent, all.map(Value::to_string).into());

    for (task, event) in [("sweep", &sweep), ("drain", &drain)] {
        let report = inbox.invoke("BackupSync", event).await.json().unwrap();
        assert_eq!(
            (&report["task"], &report["failed"]),
            (&json!(task), &json!(0)),
            "{report}"
        );
    }
    let report = inbox.invoke("BackupSync", &count).await.json().unwrap();
    assert_eq!(
        (&report["task"], &report["left"]),
        (&json!("count"), &json!(0)),
        "{report}"
    );
    for (event, list) in [(&reconcile, "reports"), (&endpoints, "endpoints")] {
        let report = inbox.invoke("BackupSync", event).await.json().unwrap();
        assert_eq!(report[list], json!([]), "{report}");
    }
    let error = inbox.error("BackupSync", &sync).await;
    assert!(
        error.contains(r#"stripe-main: API key "stripe-main" not found"#),
        "{error}"
    );
    inbox.is_unharmed();
}
