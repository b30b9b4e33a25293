//! Arguments of `dlq`.

use clap::{Args, Subcommand};

use super::quarantine::DoorAt;
use super::selection::SelectionArgs;

#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// List dead letters by error, and whether a replay is safe
    ///
    /// Reads the table, never the queue: receiving a queue message hides it from the processor.
    #[command(visible_alias = "ls")]
    List(Box<DlqListArgs>),
    /// Explain one error or one dead letter
    #[command(visible_alias = "show")]
    Inspect(DlqInspectArgs),
    /// Run dead letters again: shows the plan, asks for the count, then runs it
    Redrive(Box<DlqRedriveArgs>),
}

#[derive(Debug, Args)]
pub struct DlqListArgs {
    /// One line per dead letter, newest first
    #[arg(long)]
    pub flat: bool,
    /// Maximum number of dead letters, with --flat
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Continue where a list with --flat stopped: the value of `next_cursor`
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    #[command(flatten)]
    pub selection: SelectionArgs,
}

#[derive(Debug, Args)]
pub struct DlqInspectArgs {
    /// Error fingerprint, as `dlq list` shows it, or id of a dead letter
    #[arg(value_name = "ERROR|ID")]
    pub what: String,
}

#[derive(Debug, Args)]
pub struct DlqRedriveArgs {
    /// Move all messages of the SQS dead-letter queue back to their queue
    ///
    /// No processor could handle these messages. The processor ignores a message whose event is a
    /// dead letter. To run dead letters again, leave out --native.
    #[arg(long, conflicts_with_all = [
        "source", "event_type", "status", "since", "until", "error", "via", "attempts", "id", "where_",
        "account", "header",
    ])]
    pub native: bool,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    /// The number of dead letters or, with --native, of messages, as the command showed it
    #[arg(long, value_name = "N")]
    pub confirm: Option<u64>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub door_at: DoorAt,
}
