//! `MITT_ENDPOINTS` in a function that runs as if it were deployed.

use serde_json::json;

use super::support::{Inbox, options};

/// Starts an inbox whose functions have this value.
async fn with_endpoints(value: &str) -> Inbox {
    let mut options = options();
    let variable = ("MITT_ENDPOINTS".to_owned(), value.to_owned());
    options.function_env.insert(variable.0, variable.1);
    Inbox::start(options).await
}

#[tokio::test]
async fn a_foreign_endpoint_ends_the_function_and_is_not_called() {
    let inbox = with_endpoints("dynamodb=http://stranger.example:80").await;
    for function in ["Catcher", "Processor", "BackupSync"] {
        let error = inbox.error(function, &json!({})).await;
        let said = "invalid MITT_ENDPOINTS: dynamodb: the host must be this machine";
        assert!(error.contains(said), "{function}: {error}");
        assert!(!error.contains("stranger.example"), "{function}: {error}");
    }
    inbox.tells_nothing();
    inbox.stack.stop().await;
}

#[tokio::test]
async fn a_deployed_function_with_endpoints_logs_an_error() {
    let services = ["dynamodb", "sqs", "s3", "ssm", "secretsmanager"];
    let all = services.map(|service| format!("{service}=http://127.0.0.1:9"));
    let inbox = with_endpoints(&all.join(" ")).await;
    let answer = inbox.post("github-main", &[], b"{}").await;
    assert_eq!(answer.status, 503, "no service is reachable: {answer:?}");
    let log = std::fs::read_to_string(inbox.stack.log_file("Catcher").unwrap()).unwrap();
    let lines = log.lines().filter(|line| line.contains("\"ERROR\""));
    let errors: Vec<&str> = lines
        .filter(|line| line.contains("MITT_ENDPOINTS has a value in a deployed function"))
        .collect();
    assert_eq!(errors.len(), 1, "{log}");
    inbox.stack.stop().await;
}
