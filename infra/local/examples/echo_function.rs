//! A function that follows instructions, for the tests of the local stack.
//!
//! The instruction is in the header `x-do` of an HTTP request, in the member `do` of a direct
//! invocation, or in the body of each message of a batch.

use std::io::Write;
use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    if let Ok(variable) = variable("FAIL_AT_START") {
        eprintln!("cannot start: {variable}");
        std::process::exit(7);
    }
    run(service_fn(handle)).await
}

#[expect(clippy::disallowed_methods, reason = "a test program without settings")]
fn variable(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let LambdaEvent { payload, context } = event;
    if payload.get("requestContext").is_some() {
        let order = payload["headers"]["x-do"]
            .as_str()
            .unwrap_or("echo")
            .to_owned();
        return match order.as_str() {
            "echo" => Ok(json!({
                "statusCode": 200,
                "headers": { "content-type": "application/json", "x-from": "function" },
                "cookies": ["a=1", "b=2"],
                "body": payload.to_string(),
            })),
            "bytes" => Ok(json!({
                "statusCode": 200,
                "headers": { "content-type": "application/octet-stream" },
                "body": payload["body"],
                "isBase64Encoded": true,
            })),
            "infer" => Ok(json!({ "inferred": true })),
            order => obey(order).await,
        };
    }
    if let Some(records) = payload["Records"].as_array() {
        // The test reads this line in the log.
        writeln!(std::io::stdout(), "{payload}")?;
        let mut failures = Vec::new();
        for record in records {
            match record["body"].as_str().unwrap_or_default() {
                "ok" => (),
                "fail" => failures.push(json!({ "itemIdentifier": record["messageId"] })),
                "unknown" => failures.push(json!({ "itemIdentifier": "nobody" })),
                order => return obey(order).await,
            }
        }
        return Ok(json!({ "batchItemFailures": failures }));
    }
    match payload["do"].as_str().unwrap_or("echo") {
        "echo" => Ok(payload),
        "context" => Ok(json!({
            "pid": std::process::id(),
            "request_id": context.request_id,
            "deadline": context.deadline,
            "arn": context.invoked_function_arn,
            "trace": context.xray_trace_id,
            "variables": std::env::vars().collect::<std::collections::BTreeMap<_, _>>(),
        })),
        order => obey(order).await,
    }
}

async fn obey(order: &str) -> Result<Value, Error> {
    match order {
        "crash" => std::process::exit(3),
        "error" => Err("told to fail".into()),
        "large" => Ok("x".repeat(7 * 1024 * 1024).into()),
        "hang" => std::future::pending().await,
        "linger" => {
            // The test reads this line in the log.
            writeln!(std::io::stdout(), "lingers")?;
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok("done".into())
        }
        other => Err(format!("unknown instruction {other:?}").into()),
    }
}
