//! Arguments of `endpoint`.

use clap::{Args, Subcommand};

use super::FunctionAt;

#[derive(Debug, Subcommand)]
pub enum EndpointCommand {
    /// Show the subscriptions; exit 5 if one does not point to this deployment
    #[command(visible_alias = "ls")]
    Show(EndpointShowArgs),
    /// Enable a subscription again, and fetch the events that it missed
    ///
    /// The command enables a subscription that GitHub, GitLab or Stripe has disabled. For GitLab,
    /// the command sends a test request. The command also creates a subscription that Shopify has
    /// deleted. With --add-types, GitHub, GitLab and Stripe subscriptions also get the expected
    /// event types that they lack. For other faults, the command prints the steps for you to do.
    /// The next sync of the source requests events from before the outage.
    Enable(EndpointEnableArgs),
}

#[derive(Debug, Args)]
pub struct EndpointShowArgs {
    /// Source name [default: all sources with a [source.endpoint]]
    pub source: Option<String>,
    /// Ask the providers now, instead of showing the last stored result
    #[arg(long)]
    pub now: bool,
    #[command(flatten)]
    pub function_at: FunctionAt,
}

#[derive(Debug, Args)]
pub struct EndpointEnableArgs {
    /// Source name
    pub source: String,
    /// Also add the expected event types that the subscription lacks
    #[arg(long)]
    pub add_types: bool,
    /// The source name again, to confirm
    #[arg(long, value_name = "SOURCE")]
    pub confirm: Option<String>,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    #[command(flatten)]
    pub function_at: FunctionAt,
}
