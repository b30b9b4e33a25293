//! Runs a task of backup-sync now: it has the keys of the providers' APIs, an operator need not.

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

/// As long as the function may take, and once: a second run would wait for the lease of the first.
const PATIENCE: CallPolicy = CallPolicy {
    connect: Duration::from_secs(3),
    attempt: Duration::from_secs(310),
    attempts: 1,
};

/// What backup-sync answers to a task.
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
        return Err(CliError::new(
            "backup_sync.unknown",
            Exit::NotFound,
            format!("there is no function '{function}'"),
        )
        .note("the output BackupSyncFunction of the stack, in the Region of the stack")
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
        let said = failure.map_or("it failed".to_owned(), |failure| failure.error_message);
        return Err(CliError::new("backup_sync.failed", Exit::Failed, said)
            .note(format!("said by {function}"))
            .into());
    }
    serde_json::from_slice(payload).context("the answer of backup-sync cannot be read")
}

fn reach(inbox: &Deployment, global: &Global, at: &FunctionAt) -> anyhow::Result<(Client, String)> {
    let given = at.function.clone().filter(|name| !name.is_empty());
    let given = given.filter(|_| inbox.local.is_none());
    let Some(function) = given.or_else(|| inbox.names().backup_sync.clone()) else {
        return Err(CliError::usage(
            "backup_sync.no_function",
            "backup-sync does it: name its function",
        )
        .note("the output BackupSyncFunction of the stack")
        .tip("--function NAME, MITT_BACKUP_SYNC_FUNCTION, or a context that names it")
        .into());
    };
    if inbox.local.is_some() {
        return Ok((inbox.lambda(PATIENCE)?, function));
    }
    let aws = aws(&global.target, PATIENCE)?;
    Ok((Client::new(&aws.sdk_config("LAMBDA")), function))
}
