//! The options that name a deployment.

use clap::Args;

/// Which deployment a command talks to.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct TargetOptions {
    /// Deployment to talk to, see `context`; `local` is the running `dev`
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        env = "WEBHOOKCTL_CONTEXT",
        hide_env = true
    )]
    pub context: Option<String>,

    /// Profile of ~/.aws/config, in place of all other credentials
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

    /// Where AWS is, for emulators
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "AWS_ENDPOINT_URL",
        hide_env = true
    )]
    pub endpoint_url: Option<String>,
}
