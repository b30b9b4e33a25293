//! Arguments of `dlq`.

use clap::{Args, Subcommand, ValueEnum};

use super::quarantine::DoorAt;
use super::replay::ReplayMode;
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
    ///
    /// Exit 3 if no dead letter is selected that can run, 7 if the mode excludes all of them; then
    /// nothing ran.
    Redrive(Box<DlqRedriveArgs>),
}

/// Which of the selected dead letters run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RedriveMode {
    /// Dead letters whose open side effects are known not to have happened
    Safe,
    /// Also dead letters whose side effects may have happened, if the destination honours the key
    #[default]
    Guarded,
}

impl From<RedriveMode> for ReplayMode {
    fn from(mode: RedriveMode) -> Self {
        match mode {
            RedriveMode::Safe => Self::Safe,
            RedriveMode::Guarded => Self::Guarded,
        }
    }
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
    /// Also show the texts of the destination's answers, which can quote the event
    #[arg(long)]
    pub reveal: bool,
}

#[derive(Debug, Args)]
pub struct DlqRedriveArgs {
    /// Move all messages of the SQS dead-letter queue back to their queue
    ///
    /// No processor could handle these messages. The processor ignores a message whose event is a
    /// dead letter. To run dead letters again, leave out --native.
    #[arg(long, conflicts_with_all = [
        "source", "event_type", "status", "since", "until", "error", "via", "attempts", "id", "where_",
        "mode", "account", "header",
    ])]
    pub native: bool,
    #[arg(
        long,
        value_name = "MODE",
        default_value = "guarded",
        hide_possible_values = true,
        help = "guarded: dead letters whose open side effects did not happen, or may have happened at a \
                destination that honours idempotency keys; safe: only the former"
    )]
    pub mode: RedriveMode,
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
