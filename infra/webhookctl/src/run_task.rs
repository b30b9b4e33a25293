//! Runs a task of backup-sync immediately. Only backup-sync has the API keys of the providers.

use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::operation::invoke::InvokeError;
use aws_sdk_lambda::primitives::Blob;
use serde::Deserialize;
use serde_json::Value;
use shared::aws::CallPolicy;

use crate::cli::{FunctionAt, Global};
use crate::output::{CliError, Exit};
use crate::target::{Deployment, aws};

/// The timeout is a little longer than that of the function. There is no retry, because a second
/// run would wait for the lease of the first run.
const PATIENCE: CallPolicy = CallPolicy {
    connect: Duration::from_secs(3),
    attempt: Duration::from_secs(310),
    attempts: 1,
};

/// Runs a task, and returns the answer of backup-sync.
pub(crate) async fn run_task(
    inbox: &Deployment,
    global: &Global,
    at: &FunctionAt,
    task: &Value,
) -> anyhow::Result<Value> {
    let (client, function) = reach(inbox, global, at)?;
    let answer = client
        .invoke()
        .function_name(&function)
        .payload(Blob::new(task.to_string()))
        .send()
        .await;
    let unknown = |error: &InvokeError| error.is_resource_not_found_exception();
    if let Err(error) = &answer
        && error.as_service_error().is_some_and(unknown)
    {
        return Err(CliError::not_found(
            "backup_sync.unknown",
            format!("function '{function}' does not exist"),
        )
        .note("use the output BackupSyncFunction of the stack, and the Region of the stack")
        .into());
    }
    let answer = answer.with_context(|| format!("run backup-sync, {function}"))?;
    let payload = answer.payload().map(AsRef::as_ref).unwrap_or_default();
    if answer.function_error().is_some() {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Failure {
            error_message: String,
        }
        let failure: Option<Failure> = serde_json::from_slice(payload).ok();
        let said = failure.map_or("the function failed".to_owned(), |failure| {
            failure.error_message
        });
        return Err(CliError::new("backup_sync.failed", Exit::Failed, said)
            .note(format!("error of the function {function}"))
            .into());
    }
    serde_json::from_slice(payload).context("parse the answer of backup-sync")
}

fn reach(inbox: &Deployment, global: &Global, at: &FunctionAt) -> anyhow::Result<(Client, String)> {
    let given = at.function.clone().filter(|name| !name.is_empty());
    let given = given.filter(|_| inbox.local.is_none());
    let Some(function) = given.or_else(|| inbox.names().backup_sync.clone()) else {
        return Err(CliError::usage(
            "backup_sync.no_function",
            "the name of the backup-sync function is missing",
        )
        .note("the name is the output BackupSyncFunction of the stack")
        .tip("pass --function NAME, set MITT_BACKUP_SYNC_FUNCTION, or use a context that names the function")
        .into());
    };
    if inbox.local.is_some() {
        return Ok((inbox.lambda(PATIENCE)?, function));
    }
    let aws = aws(&global.target, PATIENCE)?;
    Ok((Client::new(&aws.sdk_config("LAMBDA")), function))
}
