//! Describes a stack in this process for other commands.

use std::path::Path;

use local::Stack;

use super::{Local, Names};

impl Local {
    /// Returns the description of a stack in this process, with these sources.
    pub fn of(stack: &Stack, sources: &Path) -> anyhow::Result<Self> {
        let endpoints = stack.endpoints();
        Ok(Self {
            pid: std::process::id(),
            url: stack.front_url(),
            dynamodb: endpoints.dynamodb.clone(),
            sqs: endpoints.sqs.clone(),
            s3: endpoints.s3.clone(),
            ssm: endpoints.ssm.clone(),
            secrets_manager: endpoints.secrets_manager.clone(),
            table: stack.table()?.to_owned(),
            bucket: stack.bucket("Bodies")?.to_owned(),
            queue_url: stack.queue_url("WorkQueue")?.to_owned(),
            secrets_path: stack.secrets_path("Catcher")?.to_owned(),
            sources: sources.to_owned(),
            lambda: Some(stack.lambda_url().to_owned()),
            backup_sync: Some(stack.template().function("BackupSync")?.name.clone()),
            names: names(stack),
        })
    }
}

/// Returns the names of the stack's resources. A user's own template can lack some of these
/// resources.
fn names(stack: &Stack) -> Names {
    let queue = |id: &str| stack.queue_url(id).ok().map(str::to_owned);
    let function = |id: &str| {
        let function = stack.template().function(id).ok()?;
        Some(function.name.clone())
    };
    let prefix = || {
        let environment = stack.environment("Catcher").ok()?;
        let prefix = environment.get("MITT_SECRETS_MANAGER_PREFIX")?;
        Some(prefix.clone()).filter(|prefix| !prefix.is_empty())
    };
    Names {
        secrets_manager_prefix: prefix(),
        backlog_queue_url: queue("BacklogQueue"),
        long_queue_url: queue("LongQueue"),
        work_dead_letters_url: queue("WorkDeadLetters"),
        spill_queue_url: queue("SpillQueue"),
        ops_dead_letters_url: queue("OpsDeadLetters"),
        catcher: function("Catcher"),
        processor: function("Processor"),
        long_processor: function("LongProcessor"),
        ..Names::default()
    }
}
