//! Arguments of `inbox body`, `diff`, `tail` and `export`.

use std::path::PathBuf;

use clap::Args;

use super::bodies::BodiesAt;
use super::selection::SelectionArgs;
use crate::inspect::Change;

#[derive(Debug, Args)]
pub struct BodyArgs {
    /// Event id, a unique prefix of it, the provider's event id, or `source:event-id`
    pub id: String,
    /// Indent JSON; numbers, strings and key order stay as they are
    #[arg(long)]
    pub pretty: bool,
    /// Also print control characters, which can control your terminal
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// First event: its id, a unique prefix of it, the provider's event id, or `source:event-id`
    pub a: String,
    /// Second event
    pub b: String,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct TailArgs {
    /// Show only these changes: stored, processing, done, failed, `dead_letter` (repeatable)
    #[arg(long, value_name = "CHANGE", hide_possible_values = true)]
    pub only: Vec<Change>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// File to write: `.jsonl` or `.csv`; `-` writes to stdout, in the format of -o
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    /// Include headers and bodies
    #[arg(long)]
    pub with_request: bool,
    /// Replace the value at this path, such as body.user.email or headers (repeatable)
    #[arg(long, value_name = "PATH")]
    pub redact: Vec<String>,
    /// Reason, for the audit log
    #[arg(
        short = 'm',
        long,
        value_name = "WHY",
        default_value = "",
        hide_default_value = true
    )]
    pub reason: String,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}
