//! A source whose secret is kept in Secrets Manager: the labels say what is live.

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

/// The inbox, which may read below `prefix`.
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

impl Inbox {
    /// Calls Secrets Manager as any client does.
    async fn secrets_manager(&self, action: &str, request: Value) -> Value {
        let at = &self.stack.endpoints().secrets_manager;
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

    /// A new secret in a version with this label, and the id of that version.
    async fn put_version(&self, stage: &str) -> (String, String) {
        let secret = unique();
        self.must_not_log(&secret);
        let put = json!({
            "SecretId": "prod/webhooks/managed", "SecretString": secret, "VersionStages": [stage],
        });
        let put = self.secrets_manager("PutSecretValue", put).await;
        let version = put["VersionId"].as_str().unwrap();
        (secret, version.to_owned())
    }

    async fn sent(&self, source: &str, secret: &str) -> (String, Answer) {
        let (id, body) = (unique(), format!(r#"{{"word":"{}"}}"#, self.canary()));
        let signature = hex(secret.as_bytes(), &[body.as_bytes()]);
        let headers = headers(&[
            ("content-type", "application/json"),
            ("x-github-delivery", &id),
            ("x-github-event", "push"),
            ("x-hub-signature-256", &format!("sha256={signature}")),
        ]);
        let answer = self.post(source, &headers, body.as_bytes()).await;
        (id, answer)
    }

    async fn status(&self, secret: &str) -> u16 {
        self.sent("managed", secret).await.1.status
    }

    /// Which secret proved an event that is signed with this one.
    async fn proved_by(&self, secret: &str) -> String {
        let (id, answer) = self.sent("managed", secret).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let dynamodb = self.stack.clients().dynamodb;
        let ledger = Ledger::new(dynamodb, self.stack.table().unwrap(), None);
        let row = ledger.event(&EventKey::new("managed", &id)).await.unwrap();
        row.unwrap().secret.unwrap()
    }
}

/// How the ledger names a version.
fn label(version_id: &str, called: &str) -> String {
    format!("{}.{called}", &version_id[..8])
}

#[tokio::test]
async fn every_version_with_a_label_proves_and_no_other_does() {
    let inbox = start("prod/webhooks").await;
    assert_eq!(inbox.status("nothing is stored").await, 503);
    let create = json!({ "Name": "prod/webhooks/managed" });
    inbox.secrets_manager("CreateSecret", create).await;

    let (first, first_id) = inbox.put_version("AWSCURRENT").await;
    inbox.kill_catcher().await;
    assert_eq!(inbox.proved_by(&first).await, label(&first_id, "current"));
    let (second, second_id) = inbox.put_version("AWSCURRENT").await;
    let (third, third_id) = inbox.put_version("AWSPENDING").await;
    assert_eq!(inbox.status(&first).await, 200, "it was read before");
    inbox.kill_catcher().await;
    for (secret, label) in [
        (&first, label(&first_id, "previous")),
        (&second, label(&second_id, "current")),
        (&third, label(&third_id, "pending")),
    ] {
        assert_eq!(inbox.proved_by(secret).await, label);
    }
    assert_eq!(inbox.status("of nobody").await, 401);

    // The rotation ends. Its label stays where it was, beside that of the current one.
    let end = json!({
        "SecretId": "prod/webhooks/managed", "VersionStage": "AWSCURRENT",
        "MoveToVersionId": third_id, "RemoveFromVersionId": second_id,
    });
    inbox.secrets_manager("UpdateSecretVersionStage", end).await;
    inbox.kill_catcher().await;
    assert_eq!(inbox.status(&first).await, 401);
    assert_eq!(
        inbox.proved_by(&second).await,
        label(&second_id, "previous")
    );
    assert_eq!(inbox.proved_by(&third).await, label(&third_id, "current"));
    inbox.tells_nothing();
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_refuses_nobody() {
    let inbox = start("prod/webhooks").await;
    let create = json!({ "Name": "prod/webhooks/managed" });
    inbox.secrets_manager("CreateSecret", create).await;
    let (secret, _) = inbox.put_version("AWSCURRENT").await;
    assert_eq!(inbox.status(&secret).await, 200);
    let delete = json!({ "SecretId": "prod/webhooks/managed" });
    inbox.secrets_manager("DeleteSecret", delete).await;
    assert_eq!(inbox.status(&secret).await, 200, "it was read before");
    inbox.kill_catcher().await;
    assert_eq!(inbox.status(&secret).await, 503);
    // Another source is none the worse for it.
    let other = inbox.sent("github-main", DEMO_SECRET).await.1;
    assert_eq!(other.status, 200, "{other:?}");
    inbox.tells_nothing();
}

#[tokio::test]
async fn without_a_prefix_nothing_is_read_from_secrets_manager() {
    let inbox = start("").await;
    let create = json!({ "Name": "managed", "SecretString": "the secret" });
    inbox.secrets_manager("CreateSecret", create).await;
    assert_eq!(inbox.status("the secret").await, 503);
    let log = inbox.stack.log_file("Catcher").unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("the parameter SecretsManagerPrefix"), "{log}");
    let other = inbox.sent("github-main", DEMO_SECRET).await.1;
    assert_eq!(other.status, 200, "{other:?}");
}
