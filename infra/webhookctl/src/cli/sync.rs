//! Arguments of `sync`.

use clap::{Args, Subcommand};

use super::{FunctionAt, values};
use crate::output::time::When;

#[derive(Debug, Subcommand)]
pub enum SyncCommand {
    /// Show the sync of each source, and which sources are silent
    Status(SyncStatusArgs),
    /// Ask the providers now for events that did not arrive
    ///
    /// backup-sync runs as on its schedule, and moves the cursor. With --dry-run it writes nothing,
    /// moves no cursor and requests no redelivery. Exit 5 if events would be added.
    Run(SyncRunArgs),
    /// List the events that only the sync found, and times that the provider no longer lists
    ///
    /// The sync checks an event one overlap after it happened. If the webhook has not arrived by
    /// then, the event counts as missed. The first fifty missed events of each day are listed.
    Gaps(SyncSpanArgs),
    /// Count events that arrived by webhook, and events that only the sync found, by source and day
    ///
    /// A day without a complete list from the provider has no data.
    Coverage(SyncSpanArgs),
}

#[derive(Debug, Clone, Default, Args)]
pub struct SyncStatusArgs {
    /// Source name (repeatable)
    #[arg(short, long, value_name = "SOURCE", help_heading = "Selection")]
    pub source: Vec<String>,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SyncSpanArgs {
    /// Source name (repeatable)
    #[arg(short, long, value_name = "SOURCE")]
    pub source: Vec<String>,
    /// Happened at or after: 2h, 3d, 2026-11-20, 2026-11-20T09:10:00Z [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub since: Option<When>,
    /// Happened before
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub until: Option<When>,
}

#[derive(Debug, Clone, Default, Args)]
pub struct SyncRunArgs {
    /// Source name [default: all sources with a [source.sync]]
    #[arg(short, long, value_name = "SOURCE", help_heading = "Selection")]
    pub source: Option<String>,
    /// Start at this time, if it is earlier than the cursor: 48h, 7d, 2026-11-20
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub lookback: Option<When>,
    /// Show what is missing, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub function_at: FunctionAt,
}
