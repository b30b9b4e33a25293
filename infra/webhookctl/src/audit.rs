//! The audit log: who changed what, and why. A change is recorded before it is made.

use anyhow::Context as _;
use shared::aws::CallPolicy;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::AuditAction;

use crate::output::CliError;
use crate::target::Deployment;

/// A change, as the audit log records it.
pub(crate) struct Change<'a> {
    pub(crate) what: &'static str,
    pub(crate) why: &'a str,
    pub(crate) selection: String,
    pub(crate) count: usize,
}

impl Change<'_> {
    /// Records the change, and returns the operator.
    pub(crate) async fn record(self, inbox: &Deployment) -> anyhow::Result<String> {
        let who = who(inbox).await?;
        self.record_as(&who, inbox).await?;
        Ok(who)
    }

    pub(crate) async fn record_as(self, who: &str, inbox: &Deployment) -> anyhow::Result<()> {
        let action = AuditAction {
            what: self.what,
            who: who.to_owned(),
            through: inbox.through(),
            why: self.why.to_owned(),
            selection: self.selection,
            count: self.count,
        };
        let operations = inbox.ledger.operations();
        operations.log(&action, UnixMillis::now()).await
    }
}

/// Returns the reason of a change. An empty reason is an error with this code.
pub(crate) fn reason<'r>(code: &'static str, text: &'r str) -> Result<&'r str, CliError> {
    match text.trim() {
        "" => Err(CliError::usage(code, "a reason is missing: pass -m WHY")),
        reason => Ok(reason),
    }
}

/// Returns the ARN of the operator, or the user name on the local stack.
/// <https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html>
pub(crate) async fn who(inbox: &Deployment) -> anyhow::Result<String> {
    if inbox.local.is_some() {
        let user = shared::base::env::env_var("USER").unwrap_or_else(|| "unknown".to_owned());
        return Ok(format!("local/{user}"));
    }
    let aws = inbox.aws(CallPolicy::LONG)?;
    let sts = aws_sdk_sts::Client::new(&aws.sdk_config("STS"));
    let identity = sts.get_caller_identity().send().await;
    let identity = identity.context("get the caller identity; nothing was changed")?;
    identity.arn.context("AWS returned no ARN for the caller")
}
