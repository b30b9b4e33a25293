//! The identity of the operator, which the audit log records with each change.

use anyhow::Context as _;
use shared::aws::CallPolicy;

use crate::target::Deployment;

/// The ARN of the operator; for the local stack, the user name.
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
