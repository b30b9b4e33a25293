//! Who acts: what is written down with each change that an operator makes.

use anyhow::Context as _;
use shared::aws::CallPolicy;

use crate::target::Deployment;

/// The ARN that AWS knows the operator by; on this machine, the user's name.
/// <https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html>
pub(crate) async fn who(inbox: &Deployment) -> anyhow::Result<String> {
    if inbox.local.is_some() {
        let user = shared::base::env::env_var("USER").unwrap_or_else(|| "somebody".to_owned());
        return Ok(format!("local/{user}"));
    }
    let aws = inbox.aws(CallPolicy::LONG)?;
    let sts = aws_sdk_sts::Client::new(&aws.sdk_config("STS"));
    let identity = sts.get_caller_identity().send().await;
    let identity = identity.context("ask AWS who you are; nothing was changed")?;
    identity.arn.context("AWS does not say who you are")
}
