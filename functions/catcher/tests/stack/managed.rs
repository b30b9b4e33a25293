//! A source whose secret is in Secrets Manager. The staging labels show which versions are valid.

use local::Options;
use serde_json::{Value, json};
use shared::inbox::ledger::Ledger;
use shared::webhook::event::EventKey;

use super::support::{Answer, DEMO_SECRET, Inbox, headers, hex, http, options, unique};

const SOURCES: &str = "\
schema = 1

[[source]]
name = \"managed\"
preset = \"github\"
secret_store = \"secrets-manager\"
action = [{ kind = \"keep\" }]

[[source]]
name = \"github-main\"
preset = \"github\"
action = [{ kind = \"keep\" }]
";

/// Starts an inbox that may read secrets whose names begin with `prefix`.
async fn start(prefix: &str) -> Inbox {
    let folder = std::env::temp_dir().join(format!("mitt-managed-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sources.toml");
    std::fs::write(&file, SOURCES).unwrap();
    let prefix = ("SecretsManagerPrefix".to_owned(), prefix.to_owned());
    Inbox::start(Options {
        sources_file: Some(file),
        parameters: [prefix].into(),
        ..options()
    })
    .await
}

/// Calls Secrets Manager like any other client.
async fn secrets_manager(inbox: &Inbox, action: &str, request: Value) -> Value {
    let at = &inbox.stack.endpoints().secrets_manager;
    let target = format!("secretsmanager.{action}");
    let headers = headers(&[
        ("content-type", "application/x-amz-json-1.1"),
        ("x-amz-target", &target),
    ]);
    let body = request.to_string();
    let answer = http(at, "POST", "/", &headers, body.as_bytes()).await;
    assert_eq!(answer.status, 200, "{action}: {answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// Stores a new secret in a version with this label. Returns the secret and the id of the version.
async fn put_version(inbox: &Inbox, stage: &str) -> (String, String) {
    let secret = unique();
    inbox.must_not_log(&secret);
    let put = json!({
        "SecretId": "prod/webhooks/managed", "SecretString": secret, "VersionStages": [stage],
    });
    let put = secrets_manager(inbox, "PutSecretValue", put).await;
    let version = put["VersionId"].as_str().unwrap();
    (secret, version.to_owned())
}

async fn sent(inbox: &Inbox, source: &str, secret: &str) -> (String, Answer) {
    let (id, body) = (unique(), format!(r#"{{"word":"{}"}}"#, inbox.canary()));
    let signature = hex(secret.as_bytes(), &[body.as_bytes()]);
    let headers = headers(&[
        ("content-type", "application/json"),
        ("x-github-delivery", &id),
        ("x-github-event", "push"),
        ("x-hub-signature-256", &format!("sha256={signature}")),
    ]);
    let answer = inbox.post(source, &headers, body.as_bytes()).await;
    (id, answer)
}

async fn status(inbox: &Inbox, secret: &str) -> u16 {
    sent(inbox, "managed", secret).await.1.status
}

/// Returns the label of the secret that verified an event signed with this secret.
async fn proved_by(inbox: &Inbox, secret: &str) -> String {
    let (id, answer) = sent(inbox, "managed", secret).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let dynamodb = inbox.stack.clients().dynamodb;
    let ledger = Ledger::new(dynamodb, inbox.stack.table().unwrap(), None);
    let row = ledger.event(&EventKey::new("managed", &id)).await.unwrap();
    row.unwrap().secret.unwrap()
}

/// Returns the name that the ledger gives to a version.
fn label(version_id: &str, called: &str) -> String {
    format!("{}.{called}", &version_id[..8])
}

#[tokio::test]
async fn every_version_with_a_label_proves_and_no_other_does() {
    let inbox = start("prod/webhooks").await;
    assert_eq!(status(&inbox, "nothing is stored").await, 503);
    let create = json!({ "Name": "prod/webhooks/managed" });
    secrets_manager(&inbox, "CreateSecret", create).await;

    let (first, first_id) = put_version(&inbox, "AWSCURRENT").await;
    inbox.kill_catcher().await;
    assert_eq!(proved_by(&inbox, &first).await, label(&first_id, "current"));
    let (second, second_id) = put_version(&inbox, "AWSCURRENT").await;
    let (third, third_id) = put_version(&inbox, "AWSPENDING").await;
    assert_eq!(
        status(&inbox, &first).await,
        200,
        "the secret was read before"
    );
    inbox.kill_catcher().await;
    for (secret, label) in [
        (&first, label(&first_id, "previous")),
        (&second, label(&second_id, "current")),
        (&third, label(&third_id, "pending")),
    ] {
        assert_eq!(proved_by(&inbox, secret).await, label);
    }
    assert_eq!(status(&inbox, "of a stranger").await, 401);

    // The rotation ends: the version keeps its label, and also gets the label of the current
    // version.
    let end = json!({
        "SecretId": "prod/webhooks/managed", "VersionStage": "AWSCURRENT",
        "MoveToVersionId": third_id, "RemoveFromVersionId": second_id,
    });
    secrets_manager(&inbox, "UpdateSecretVersionStage", end).await;
    inbox.kill_catcher().await;
    assert_eq!(status(&inbox, &first).await, 401);
    assert_eq!(
        proved_by(&inbox, &second).await,
        label(&second_id, "previous")
    );
    assert_eq!(proved_by(&inbox, &third).await, label(&third_id, "current"));
    inbox.tells_nothing();
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_refuses_nobody() {
    let inbox = start("prod/webhooks").await;
    let create = json!({ "Name": "prod/webhooks/managed" });
    secrets_manager(&inbox, "CreateSecret", create).await;
    let (secret, _) = put_version(&inbox, "AWSCURRENT").await;
    assert_eq!(status(&inbox, &secret).await, 200);
    let delete = json!({ "SecretId": "prod/webhooks/managed" });
    secrets_manager(&inbox, "DeleteSecret", delete).await;
    assert_eq!(
        status(&inbox, &secret).await,
        200,
        "the secret was read before"
    );
    inbox.kill_catcher().await;
    assert_eq!(status(&inbox, &secret).await, 503);
    // Another source is not affected.
    let other = sent(&inbox, "github-main", DEMO_SECRET).await.1;
    assert_eq!(other.status, 200, "{other:?}");
    inbox.tells_nothing();
}

#[tokio::test]
async fn without_a_prefix_nothing_is_read_from_secrets_manager() {
    let inbox = start("").await;
    let create = json!({ "Name": "managed", "SecretString": "the secret" });
    secrets_manager(&inbox, "CreateSecret", create).await;
    assert_eq!(status(&inbox, "the secret").await, 503);
    let log = inbox.stack.log_file("Catcher").unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("the stack parameter SecretsManagerPrefix"),
        "{log}"
    );
    let other = sent(&inbox, "github-main", DEMO_SECRET).await.1;
    assert_eq!(other.status, 200, "{other:?}");
}
