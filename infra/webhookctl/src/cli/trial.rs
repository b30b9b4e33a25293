//! Arguments of `trial`.

use clap::{Args, Subcommand};

use super::values;
use crate::output::time::When;

#[derive(Debug, Subcommand)]
pub enum TrialCommand {
    /// Show what the previous route lost, repeated or delayed during a trial
    ///
    /// Reads each event of the source in the time range, and changes nothing. The requests that
    /// Mitt would have rejected are kept for a week.
    Report(TrialReportArgs),
}

#[derive(Debug, Args)]
pub struct TrialReportArgs {
    /// Source name
    pub source: String,
    /// Received at or after: 2h, 3d, 09:10, 2026-11-20, 2026-11-20T09:10:00Z [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub since: Option<When>,
    /// Received before
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub until: Option<When>,
}
