//! A secret that a sender sets with its first request. This is possible only while no other secret
//! is stored.

use aws_sdk_ssm::types::ParameterType;
use local::{Options, Rights};

use super::rights;
use super::support::{Headers, Inbox, headers, hex, options, unique};

const SOURCES: &str = "\
schema = 1

[[source]]
name = \"tasks\"
preset = \"asana\"
action = [{ kind = \"keep\" }]
";

async fn start(allow_arming: &str, rights: Rights) -> Inbox {
    let folder = std::env::temp_dir().join(format!("mitt-arming-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("sources.toml");
    std::fs::write(&file, SOURCES).unwrap();
    Inbox::start(Options {
        sources_file: Some(file),
        parameters: [("AllowArming".to_owned(), allow_arming.to_owned())].into(),
        rights: Some(rights),
        ..options()
    })
    .await
}

fn hook(secret: &str) -> Headers {
    headers(&[
        ("content-type", "application/json"),
        ("x-hook-secret", secret),
    ])
}

/// Returns the status of an event that is signed with this secret.
async fn sent_tasks(inbox: &Inbox, secret: &str) -> u16 {
    let body = format!(r#"{{"events":[{{"word":"{}"}}]}}"#, unique());
    let signature = hex(secret.as_bytes(), &[body.as_bytes()]);
    let headers = headers(&[
        ("content-type", "application/json"),
        ("x-hook-signature", &signature),
    ]);
    inbox.post("tasks", &headers, body.as_bytes()).await.status
}

async fn put_slot(inbox: &Inbox, slot: &str, value: &str) {
    let path = inbox.stack.secrets_path("Catcher").unwrap();
    let put = inbox.stack.clients().ssm.put_parameter();
    let put = put.name(format!("{path}/tasks/{slot}")).value(value);
    put.r#type(ParameterType::SecureString)
        .send()
        .await
        .unwrap();
}

async fn has_slot(inbox: &Inbox, slot: &str) -> bool {
    let path = inbox.stack.secrets_path("Catcher").unwrap();
    let get = inbox.stack.clients().ssm.get_parameter();
    let get = get.name(format!("{path}/tasks/{slot}")).send().await;
    get.is_ok()
}

#[tokio::test]
async fn the_first_handshake_sets_the_secret() {
    let inbox = start("true", rights::enforced()).await;
    let secret = unique();
    inbox.must_not_log(&secret);
    assert_eq!(inbox.post("tasks", &hook(&secret), b"").await.status, 200);
    assert!(has_slot(&inbox, "handshake").await);
    assert_eq!(sent_tasks(&inbox, &secret).await, 200);
    let other = unique();
    assert_eq!(inbox.post("tasks", &hook(&other), b"").await.status, 401);
    assert_eq!(sent_tasks(&inbox, &other).await, 401);
    inbox.is_unharmed();
}

/// The catcher has already read that no secret is stored.
#[tokio::test]
async fn a_secret_stored_a_moment_ago_is_not_armed_beside() {
    let inbox = start("true", rights::enforced()).await;
    let (operators, strangers) = (unique(), unique());
    assert_eq!(
        sent_tasks(&inbox, &operators).await,
        503,
        "it has no secret"
    );
    put_slot(&inbox, "current", &operators).await;
    let answer = inbox.post("tasks", &hook(&strangers), b"").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(!has_slot(&inbox, "handshake").await);
    assert_eq!(sent_tasks(&inbox, &strangers).await, 401);
    assert_eq!(sent_tasks(&inbox, &operators).await, 200);
    inbox.is_unharmed();
}

#[tokio::test]
async fn without_the_permission_no_handshake_sets_a_secret() {
    // The test expects the denied call, so the call is not recorded as a fault.
    let inbox = start("false", Rights::default()).await;
    for _ in 0..30 {
        let answer = inbox.post("tasks", &hook(&unique()), b"").await;
        assert!(answer.asks_for_another_try(), "{answer:?}");
    }
    assert!(!has_slot(&inbox, "handshake").await);
    let log = std::fs::read_to_string(inbox.stack.log_file("Catcher").unwrap()).unwrap();
    // Anyone can send this request, so it gets few log lines and does not count as a server error.
    let lines = log.matches("could not store the secret").count();
    assert!((1..=10).contains(&lines), "{lines} lines");
    assert!(!log.contains("server_errors"), "{log}");
}
