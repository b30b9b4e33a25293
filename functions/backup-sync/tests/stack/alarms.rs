//! Which responses with a 5xx status count as server errors. The alarm that rolls back a deployment
//! uses this metric.

use aws_sdk_ssm::types::ParameterType;
use local::Options;
use testkit::sources::SourcesFile;

use super::support::{Inbox, headers, options, unique};

const SOURCES: &str = "\
schema = 1

[[source]]
name = \"pp\"
preset = \"paypal\"
action = [{ kind = \"keep\" }]

[[source]]
name = \"unset\"
preset = \"github\"
action = [{ kind = \"keep\" }]
";

/// Returns the log lines of the catcher with this text.
fn lines(inbox: &Inbox, text: &str) -> Vec<String> {
    let log = std::fs::read_to_string(inbox.stack.log_file("Catcher").unwrap()).unwrap();
    let lines = log.lines().filter(|line| line.contains(text));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_request_with_an_unknown_key_raises_no_alarm() {
    let sources = SourcesFile::new("alarms", SOURCES);
    let inbox = Inbox::start(Options {
        sources_file: Some(sources.path()),
        ..options()
    })
    .await;
    let path = inbox.stack.secrets_path("Catcher").unwrap();
    let put = inbox.stack.clients().ssm.put_parameter();
    let put = put
        .name(format!("{path}/pp/current"))
        .value("8PT597110X687430LKGECATA");
    put.r#type(ParameterType::SecureString)
        .send()
        .await
        .unwrap();
    inbox.kill_catcher().await;

    let strangers = headers(&[
        ("content-type", "application/json"),
        ("paypal-transmission-id", &unique()),
        ("paypal-transmission-time", "2026-11-20T10:14:41Z"),
        ("paypal-transmission-sig", "AAAA"),
        ("paypal-auth-algo", "SHA256withRSA"),
        (
            "paypal-cert-url",
            "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-1",
        ),
    ]);
    let answer = inbox.post("pp", &strangers, b"{}").await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    let waits = lines(&inbox, "waits for a key");
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert!(lines(&inbox, "server_errors").is_empty());

    // If a source has no secret, the configuration is wrong.
    let answer = inbox
        .post("unset", &inbox.github(&unique(), b"{}"), b"{}")
        .await;
    assert!(answer.asks_for_another_try(), "{answer:?}");
    let ours = lines(&inbox, "server_errors");
    assert!(ours.len() == 1 && ours[0].contains("unset"), "{ours:?}");
    inbox.is_unharmed();
}
