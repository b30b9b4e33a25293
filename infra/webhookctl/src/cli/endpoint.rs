//! Arguments of `endpoint`.

use clap::{Args, Subcommand};

use super::FunctionAt;

#[derive(Debug, Subcommand)]
pub enum EndpointCommand {
    /// Show how the subscriptions at the providers stand; exit 5 if one does not lead to us
    #[command(visible_alias = "ls")]
    Show(EndpointShowArgs),
    /// Enable a subscription again, and ask for what happened while it was dark
    ///
    /// Where the provider disabled it: GitHub, GitLab (by a test request) and Stripe. Shopify
    /// deletes; the subscriptions that are missing are made again. With --add-types, GitHub, GitLab
    /// and Stripe are told of the expected types that a subscription lacks. What else is wrong is
    /// said, and what to do about it by hand. The source's sync then begins before the dark window.
    Enable(EndpointEnableArgs),
}

#[derive(Debug, Args)]
pub struct EndpointShowArgs {
    /// Source name [default: all that have a [source.endpoint]]
    pub source: Option<String>,
    /// Ask the providers now, instead of showing what the last look found
    #[arg(long)]
    pub now: bool,
    #[command(flatten)]
    pub function_at: FunctionAt,
}

#[derive(Debug, Args)]
pub struct EndpointEnableArgs {
    /// Source name
    pub source: String,
    /// Also add the expected types of event that the subscription does not tell of
    #[arg(long)]
    pub add_types: bool,
    /// The name of the source once more
    #[arg(long, value_name = "SOURCE")]
    pub confirm: Option<String>,
    /// Why; it is written down with who you are
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    #[command(flatten)]
    pub function_at: FunctionAt,
}
