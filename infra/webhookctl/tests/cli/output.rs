//! Errors of the real AWS SDK, against a service that answers as AWS does.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use crate::support::folder::{Folder, words};
use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{Credentials, Region, retry::RetryConfig};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use webhookctl::output::aws::{Place, rewrite};
use webhookctl::output::{CliError, Exit, Format};

/// Starts a service that gives every request this answer. With `None`, it never answers.
async fn service(answer: Option<(u16, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 8192]).await;
            if let Some((status, body)) = answer {
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all((head + body).as_bytes()).await;
            } else {
                open.push(stream);
            }
        }
    });
    url
}

async fn error_at(url: &str, credentials: bool) -> CliError {
    let patience = TimeoutConfig::builder()
        .read_timeout(Duration::from_millis(300))
        .build();
    let mut config = aws_sdk_dynamodb::Config::builder()
        .behavior_version_latest()
        .region(Region::new("eu-west-1"))
        .endpoint_url(url)
        .retry_config(RetryConfig::disabled())
        .timeout_config(patience)
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    if credentials {
        config = config.credentials_provider(Credentials::new("id", "s3cret", None, None, "test"));
    }
    let error = Client::from_conf(config.build())
        .get_item()
        .table_name("mitt-prod")
        .key(
            "pk",
            aws_sdk_dynamodb::types::AttributeValue::S("E#stripe#evt_1".into()),
        )
        .send()
        .await
        .context("read the event from the ledger")
        .unwrap_err();
    let place = Place {
        context: Some("prod".into()),
        region: Some("eu-west-1".into()),
        table: Some("mitt-prod".into()),
        endpoint_url: Some(url.to_owned()),
        other_region: None,
    };
    let error = rewrite(&error, &place);
    let shown = error.render(Format::Table, false);
    assert!(
        !shown.contains("s3cret") && !shown.contains("payload"),
        "{shown}"
    );
    error
}

async fn answered(status: u16, body: &'static str) -> CliError {
    error_at(&service(Some((status, body))).await, true).await
}

#[tokio::test]
async fn a_table_that_does_not_exist_is_named() {
    let error = answered(
        400,
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"Requested resource not found"}"#,
    )
    .await;
    assert_eq!(error.code, "context.no_table");
    assert!(
        error
            .message
            .starts_with("table mitt-prod does not exist in http://127.0.0.1:")
    );
}

#[tokio::test]
async fn a_denied_request_names_its_action() {
    let error = answered(
        400,
        r#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"User: arn:aws:iam::1:user/al is not authorized to perform: dynamodb:GetItem on resource: arn:aws:dynamodb:eu-west-1:1:table/mitt-prod because no identity-based policy allows it","payload":"payload"}"#,
    )
    .await;
    assert_eq!((error.code, error.exit), ("auth.denied", Exit::Denied));
    assert_eq!(
        error.message,
        "not allowed: dynamodb:GetItem on table/mitt-prod"
    );
    assert_eq!(
        error.note.as_deref(),
        Some("you are arn:aws:iam::1:user/al")
    );
}

#[tokio::test]
async fn throttling_and_foreign_credentials_are_told_apart() {
    let throttled = answered(
        400,
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow"}"#,
    )
    .await;
    assert_eq!(throttled.code, "aws.throttled");
    let foreign = answered(
        400,
        r#"{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"The security token included in the request is invalid."}"#,
    )
    .await;
    assert_eq!((foreign.code, foreign.exit), ("auth.invalid", Exit::Denied));
}

#[tokio::test]
async fn a_service_that_is_not_there_or_says_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let refused = error_at(&url, true).await;
    assert_eq!(refused.code, "aws.unreachable");
    assert_eq!(refused.message, format!("cannot connect to {url}"));

    let silent = error_at(&service(None).await, true).await;
    assert_eq!(silent.code, "aws.timeout");
}

#[tokio::test]
async fn a_client_without_credentials_says_so() {
    let error = error_at("http://127.0.0.1:9", false).await;
    assert_eq!((error.code, error.exit), ("auth.none", Exit::Denied));
}

#[tokio::test]
async fn an_answer_that_is_no_answer_shows_no_body() {
    let error = answered(500, "<html>payload</html>").await;
    assert_eq!(error.exit, Exit::Failed);
}

#[test]
fn a_query_takes_its_part_of_each_line() -> anyhow::Result<()> {
    let folder = Folder::new("query-lines")?;
    let list = words("sources list -o jsonl --query source");
    let out = folder.run(&list)?;
    let text = String::from_utf8(out.stdout)?;
    assert!(text.lines().any(|line| line == "\"stripe-main\""), "{text}");
    let show = words("sources show stripe-main -o jsonl --query preset");
    let out = folder.run(&show)?;
    assert_eq!(String::from_utf8(out.stdout)?, "\"stripe\"\n");
    Ok(())
}

#[test]
fn the_version_names_the_oldest_stack() -> anyhow::Result<()> {
    let folder = Folder::new("version")?;
    let said = folder.text(&["--version"])?;
    let version = env!("CARGO_PKG_VERSION");
    assert!(said.starts_with(&format!("webhookctl {version}")), "{said}");
    assert!(said.contains("\nworks with stacks of version "), "{said}");
    assert_eq!(folder.text(&["-V"])?, format!("webhookctl {version}\n"));
    Ok(())
}
