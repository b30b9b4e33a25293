//! Arguments of the verbs of `inbox` that are about bodies and changes.

use std::path::PathBuf;

use clap::Args;

use super::bodies::BodiesAt;
use super::selection::SelectionArgs;
use crate::inspect::Change;

#[derive(Debug, Args)]
pub struct BodyArgs {
    /// Id, a unique prefix of it, the provider's event id, or `source:event-id`
    pub id: String,
    /// Indented, with numbers, strings and the order of keys as they are
    #[arg(long)]
    pub pretty: bool,
    /// Also what a terminal would obey
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// One event: its id, a unique prefix of it, the provider's id, or `source:event-id`
    pub a: String,
    /// The other
    pub b: String,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct TailArgs {
    /// Only such changes: stored, processing, done, failed, `dead_letter` (repeatable)
    #[arg(long, value_name = "CHANGE", hide_possible_values = true)]
    pub only: Vec<Change>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// File to write: `.jsonl` or `.csv`; `-` is stdout, as -o says
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    /// Also headers and body, as they were kept
    #[arg(long)]
    pub with_request: bool,
    /// Replace what is at this path, such as body.user.email or headers (repeatable)
    #[arg(long, value_name = "PATH")]
    pub redact: Vec<String>,
    /// Why; it is written down with who you are
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
