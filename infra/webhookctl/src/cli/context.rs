//! Arguments of `context`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// List the contexts; the one in use has a `*`
    #[command(visible_alias = "ls")]
    List,
    /// Show what a context says, and what is in force
    Show(ContextShowArgs),
    /// Use this context where none is named
    Use(ContextUseArgs),
    /// Write a deployment down, under a name
    ///
    /// The stack is asked once for the names of its parts, and never again: commands start without
    /// a call. The name of the stack, --region and --profile are all that is needed. --refresh asks
    /// again, after an update of the stack.
    Add(ContextAddArgs),
}

#[derive(Debug, Args)]
pub struct ContextShowArgs {
    /// Name of the context [default: the one in use]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct ContextUseArgs {
    /// Name of the context, or `local`
    pub name: String,
}

#[derive(Debug, Args)]
pub struct ContextAddArgs {
    /// What to call it
    pub name: String,
    /// The stack, which says what its parts are called
    #[arg(long, value_name = "STACK")]
    pub stack: Option<String>,
    /// The outputs of the stack instead, as `aws cloudformation describe-stacks` or `sam list
    /// stack-outputs` prints them; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with = "refresh")]
    pub outputs: Option<PathBuf>,
    /// The sources that it was built with [default: those built in here]
    #[arg(long, value_name = "FILE")]
    pub sources: Option<PathBuf>,
    /// What is let in from the quarantine needs its count, as a replay does everywhere
    #[arg(long)]
    pub protected: bool,
    /// Nothing can be changed
    #[arg(long)]
    pub read_only: bool,
    /// Ask the stack of a context again
    #[arg(long)]
    pub refresh: bool,
}
