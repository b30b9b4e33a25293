//! The options that select a deployment.

use clap::Args;

use super::{Caller, Opened};

/// The options that select the deployment of a command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct TargetOptions {
    /// Deployment to use, see `context list`; `local` is the running `dev`
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        env = "WEBHOOKCTL_CONTEXT",
        hide_env = true
    )]
    pub context: Option<String>,

    /// AWS profile in ~/.aws/config; replaces all other credentials
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,

    /// AWS Region of the deployment
    #[arg(
        long,
        global = true,
        value_name = "REGION",
        env = "AWS_REGION",
        hide_env = true
    )]
    pub region: Option<String>,

    /// Name of the inbox table
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "MITT_TABLE",
        hide_env = true
    )]
    pub table: Option<String>,

    /// URL of the AWS endpoint, for emulators
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "AWS_ENDPOINT_URL",
        hide_env = true
    )]
    pub endpoint_url: Option<String>,

    /// The inbox that a command keeps open for many reads.
    #[arg(skip)]
    pub opened: Opened,

    /// The caller of the command.
    #[arg(skip)]
    pub caller: Caller,
}

/// The flags that select a deployment, as words of a command line.
pub(crate) type TargetFlags = Vec<String>;

impl TargetOptions {
    /// Returns the flags that select the same deployment.
    pub(crate) fn flags(&self) -> TargetFlags {
        let flag = |name: &str, value: &Option<String>| {
            let value = value.as_ref()?;
            Some(format!("--{name}={value}"))
        };
        let flags = [
            flag("context", &self.context),
            flag("profile", &self.profile),
            flag("table", &self.table),
        ];
        flags.into_iter().flatten().collect()
    }
}
