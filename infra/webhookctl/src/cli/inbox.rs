//! The arguments of `inbox`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::bodies::BodiesAt;
use super::selection::SelectionArgs;
use super::stats::StatsArgs;
use crate::inspect::Change;

#[derive(Debug, Subcommand)]
pub enum InboxCommand {
    /// List stored events, newest first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Explain one event: its status, the cause, and what to do next
    #[command(visible_alias = "show")]
    Inspect(InspectArgs),
    /// Show one event as a trace: receipt, waits, attempts and effects
    ///
    /// Reads the row of the event, and no log. With -o otlp, prints the spans as OTLP JSON, which any
    /// OpenTelemetry collector accepts.
    Trace(TraceArgs),
    /// Print the exact body of an event
    ///
    /// On a terminal it prints plain text only. For other bytes, pass --raw or redirect to a file.
    Body(BodyArgs),
    /// Compare the bodies of two events; exit 1 if they differ
    ///
    /// Reports differences in values separately from differences in notation, such as key order,
    /// white space, and the notation of numbers and strings.
    Diff(DiffArgs),
    /// Follow events as they arrive and change, until Ctrl-C
    ///
    /// Reads the table once a second, and changes nothing. Every five seconds, the command also
    /// reads older events that are still open.
    Tail(TailArgs),
    /// Write events to a file; the audit log records who exported them
    Export(ExportArgs),
    /// Count events: received, waiting, failed, and how long they take
    ///
    /// Failed events, dead letters and the oldest waiting event are current values. The time range
    /// does not apply to these values. Duplicates are not counted, because only metrics and logs
    /// record them.
    Stats(StatsArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Maximum number of events
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Continue where a list stopped: the value of `next_cursor`
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// Columns of the table or the CSV, such as `id,status,next_action.text`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Oldest first
    #[arg(long)]
    pub reverse: bool,

    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one field for each command-line flag"
)]
pub struct InspectArgs {
    /// Event id, a unique prefix of it, the provider's event id, or `source:event-id`
    pub id: String,
    /// Also show arrival, side effects, answers of destinations, timeline, replays, and the event
    /// that superseded it
    #[arg(long)]
    pub full: bool,
    /// With --full: also show the texts of the answers, which can quote the event
    #[arg(long)]
    pub reveal: bool,
    /// Also show the timeline
    #[arg(long, conflicts_with = "full")]
    pub timeline: bool,
    /// Update the output until the event is settled; exit 6 if its status is not `done`
    #[arg(long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Event id, a unique prefix of it, the provider's event id, or `source:event-id`
    pub id: String,
}

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
    /// Also print the tokens that a provider puts into the body, such as the passcode of Figma
    #[arg(long)]
    pub reveal: bool,
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
