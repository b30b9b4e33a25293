//! Arguments of `sync`.

use clap::{Args, Subcommand};

use super::{FunctionAt, values};
use crate::output::time::When;

#[derive(Debug, Subcommand)]
pub enum SyncCommand {
    /// Where the sync of each source stands, and which sources have fallen silent
    Status(SyncStatusArgs),
    /// Ask the providers now for what never arrived
    ///
    /// backup-sync does it, as on its schedule, and moves the cursor. With --dry-run nothing is
    /// written anywhere, no cursor moves and no redelivery is asked for. Exit 5 if something would
    /// be added.
    Run(SyncRunArgs),
    /// Events that only the sync found, and time that no list reaches back to any more
    ///
    /// An event counts as missed when it had not come by webhook when its time was judged, which is
    /// an overlap of the sync after it happened. Of those the first fifty of a day are named.
    Gaps(SyncSpanArgs),
    /// How many events came by webhook, and how many only by the sync, by source and day
    ///
    /// Where no complete list was seen there is no data, and none is claimed.
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
    /// Source name [default: all that have a [source.sync]]
    #[arg(short, long, value_name = "SOURCE", help_heading = "Selection")]
    pub source: Option<String>,
    /// Ask from then on, where that is earlier than the cursor: 48h, 7d, 2026-11-20
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub lookback: Option<When>,
    /// Only look what is missing: nothing is written
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub function_at: FunctionAt,
}
