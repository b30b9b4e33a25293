//! The option for the bucket for large bodies.

use clap::Args;
use shared::inbox::ledger::Ledger;

use super::Global;
use crate::target::Deployment;

/// The bucket for large bodies. The running `dev` provides its own.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct BodiesAt {
    /// Bucket of large bodies (stack output `BodyBucket`)
    #[arg(long, value_name = "NAME", env = "MITT_BODY_BUCKET", hide_env = true)]
    pub body_bucket: Option<String>,
}

impl BodiesAt {
    /// Opens the deployment. Its ledger uses the bucket of the option, if the option is set.
    pub(crate) async fn open(&self, global: &Global) -> anyhow::Result<Deployment> {
        let mut inbox = Deployment::open(&global.target).await?;
        inbox.ledger = self.ledger(&inbox)?;
        Ok(inbox)
    }

    /// Returns the ledger of a deployment. It uses the bucket of the option, if the option is set.
    pub(crate) fn ledger(&self, inbox: &Deployment) -> anyhow::Result<Ledger> {
        match (&self.body_bucket, &inbox.local) {
            (Some(bucket), None) => inbox.ledger_with(bucket),
            _ => Ok(inbox.ledger.clone()),
        }
    }
}
