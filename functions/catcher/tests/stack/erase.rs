//! `webhookctl erase`, as an operator runs it against a deployment.

use std::process::Output;

use local::names;
use serde_json::Value;
use shared::base::clock::UnixMillis;
use shared::webhook::event::EventKey;
use tokio::process::Command;

use super::sts::{WHO, sts};
use super::support::{Inbox, options, s, unique};

async fn webhookctl(inbox: &Inbox, sts: &str, args: &[&str]) -> Output {
    let at = inbox.stack.endpoints();
    Command::new(testkit::webhookctl())
        .args(args)
        .current_dir(inbox.stack.folder())
        .env("AWS_REGION", names::REGION)
        .env("AWS_ACCESS_KEY_ID", names::ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", names::SECRET_KEY)
        .env("AWS_ENDPOINT_URL_DYNAMODB", &at.dynamodb)
        .env("AWS_ENDPOINT_URL_S3", &at.s3)
        .env("AWS_ENDPOINT_URL_STS", sts)
        .env("MITT_TABLE", inbox.stack.table().unwrap())
        .env("MITT_BODY_BUCKET", inbox.stack.bucket("Bodies").unwrap())
        .output()
        .await
        .unwrap()
}

async fn posted(inbox: &Inbox, body: &str) -> EventKey {
    let id = unique();
    let headers = inbox.github(&id, body.as_bytes());
    let answer = inbox.post("github-main", &headers, body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    EventKey::new("github-main", &id)
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn events_are_erased_by_what_they_say_and_only_as_many_as_were_shown() {
    let inbox = Inbox::start(options()).await;
    let sts = sts().await.unwrap();
    let anna = |n: u8| format!(r#"{{"sender":{{"login":"anna"}},"n":{n}}}"#);
    let (one, two) = (
        posted(&inbox, &anna(1)).await,
        posted(&inbox, &anna(2)).await,
    );
    let other = posted(&inbox, r#"{"sender":{"login":"bert"}}"#).await;
    let line = [
        "erase",
        "--where",
        "sender.login=anna",
        "--since",
        "1h",
        "-m",
        "she asked",
    ];

    let shown = webhookctl(&inbox, &sts, &line).await;
    assert_eq!(shown.status.code(), Some(7), "{}", told(&shown));
    assert!(told(&shown).contains("--confirm 2"), "{}", told(&shown));
    let more = [&line[..], &["--confirm", "3"]].concat();
    let wrong = webhookctl(&inbox, &sts, &more).await;
    assert!(told(&wrong).contains("nothing was erased"));
    for key in [&one, &two, &other] {
        assert!(inbox.kept(key).await.is_some());
    }

    let more = [&line[..], &["--confirm", "2", "-o", "json"]].concat();
    let done = webhookctl(&inbox, &sts, &more).await;
    assert!(done.status.success(), "{}", told(&done));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["erased"], 2);
    assert_eq!(report["by"], WHO);
    for key in [&one, &two] {
        let row = inbox.row(key).await;
        assert!(row.contains_key("erased_at") && !row.contains_key("b"));
    }
    assert!(inbox.kept(&other).await.is_some());

    // An event can also be erased by its id. The audit log records who erased the event, but
    // contains no erased data.
    let id = format!("github-main:{}", other.id());
    let line = ["erase", "--id", &id, "-m", "he asked", "--confirm", "1"];
    let done = webhookctl(&inbox, &sts, &line).await;
    assert!(done.status.success(), "{}", told(&done));
    let query = inbox.stack.clients().dynamodb.query();
    let query = query
        .table_name(inbox.stack.table().unwrap())
        .key_condition_expression("pk = :month");
    let month = format!("LOG#{}", &UnixMillis::now().hour()[..6]);
    let log = query.expression_attribute_values(":month", s(month));
    let log = log.send().await.unwrap().items.unwrap();
    assert_eq!(log.len(), 2);
    for entry in log {
        assert_eq!(entry["who"].as_s().unwrap(), WHO);
        assert!(!entry["sel"].as_s().unwrap().contains("anna"), "{entry:?}");
    }
    inbox.is_unharmed();
}

#[tokio::test]
async fn nobody_unknown_erases_anything() {
    let inbox = Inbox::shared().await;
    let key = inbox.new_event().await;
    let id = format!("github-main:{}", key.id());
    let line = ["erase", "--id", &id, "-m", "why", "--confirm", "1"];
    let refused = webhookctl(&inbox, "http://127.0.0.1:9", &line).await;
    assert!(!refused.status.success());
    assert!(inbox.kept(&key).await.is_some());
    for wrong in [
        &["erase", "-m", "why"][..],
        &["erase", "--id", &id],
        &["erase", "--id", &id, "-m", " "],
        &["erase", "--where", "a=1", "--id", &id, "-m", "why"],
        &["erase", "--where", "a..b=1", "-m", "why"],
    ] {
        let refused = webhookctl(&inbox, "http://127.0.0.1:9", wrong).await;
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{wrong:?}: {}",
            told(&refused)
        );
    }
    assert!(inbox.kept(&key).await.is_some());
}
