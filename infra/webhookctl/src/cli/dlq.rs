//! Arguments of `dlq`.

use clap::{Args, Subcommand};

use super::quarantine::DoorAt;
use super::selection::SelectionArgs;

#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// List dead letters by their error, and whether they can be worked on again
    ///
    /// It reads the table, never the queue: to look at a message of a queue is to receive it.
    #[command(visible_alias = "ls")]
    List(Box<DlqListArgs>),
    /// Explain one error, or one dead letter
    #[command(visible_alias = "show")]
    Inspect(DlqInspectArgs),
    /// Work on dead letters again: shows what it would do, asks for the count, does it
    Redrive(Box<DlqRedriveArgs>),
}

#[derive(Debug, Args)]
pub struct DlqListArgs {
    /// Each dead letter on a line of its own, newest first
    #[arg(long)]
    pub flat: bool,
    /// How many, with --flat
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Go on where a list with --flat stopped
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    #[command(flatten)]
    pub selection: SelectionArgs,
}

#[derive(Debug, Args)]
pub struct DlqInspectArgs {
    /// Fingerprint of an error, as `dlq list` shows it, or id of a dead letter
    #[arg(value_name = "ERROR|ID")]
    pub what: String,
}

#[derive(Debug, Args)]
pub struct DlqRedriveArgs {
    /// Let SQS move the messages of its dead-letter queue back, all of them
    ///
    /// They are messages that nobody could answer. One of a dead letter finds it settled and does
    /// nothing: without --native, dead letters are worked on again.
    #[arg(long, conflicts_with_all = [
        "source", "event_type", "status", "since", "until", "error", "via", "attempts", "id", "where_",
    ])]
    pub native: bool,
    /// Why; it is written down with who you are
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    /// The number that is redriven, as it was shown
    #[arg(long, value_name = "N")]
    pub confirm: Option<u64>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub door_at: DoorAt,
}
