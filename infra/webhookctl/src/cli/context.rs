//! Arguments of `context`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// List the contexts; `*` marks the default one
    #[command(visible_alias = "ls")]
    List,
    /// Show a context, and the settings in effect
    Show(ContextShowArgs),
    /// Set the default context
    Use(ContextUseArgs),
    /// Store a deployment under a name
    ///
    /// Reads the resource names of the stack once and stores them, so that other commands start
    /// without that request. The stack name, --region and --profile are enough. Use --refresh after
    /// an update of the stack.
    Add(ContextAddArgs),
}

#[derive(Debug, Args)]
pub struct ContextShowArgs {
    /// Name of the context [default: the default context]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct ContextUseArgs {
    /// Name of the context, or `local`
    pub name: String,
}

#[derive(Debug, Args)]
pub struct ContextAddArgs {
    /// Name of the new context
    pub name: String,
    /// Stack to read the resource names from
    #[arg(long, value_name = "STACK")]
    pub stack: Option<String>,
    /// File with the stack outputs, instead of a stack: what `aws cloudformation describe-stacks`
    /// or `sam list stack-outputs` prints; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with = "refresh")]
    pub outputs: Option<PathBuf>,
    /// Sources file of the deployment [default: the built-in one]
    #[arg(long, value_name = "FILE")]
    pub sources: Option<PathBuf>,
    /// Require a confirmed count to accept rejected requests, as a replay always does
    #[arg(long)]
    pub protected: bool,
    /// Refuse all changes
    #[arg(long)]
    pub read_only: bool,
    /// Read the resource names of an existing context again
    #[arg(long)]
    pub refresh: bool,
}
