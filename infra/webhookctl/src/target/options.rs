//! The options that select a deployment.

use clap::Args;

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
}
