//! Arguments of `doctor`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Default, Args)]
pub struct DoctorArgs {
    /// Only these checks, by name or group: queue, timing.chain (repeatable, or with commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Exit 5 for a warning too
    #[arg(long)]
    pub strict: bool,
    /// Also send a canary through the public URL: an event of a source that only keeps what comes
    #[arg(long)]
    pub end_to_end: bool,
    /// Source of the canary [default: the first whose actions are all `keep`]
    #[arg(long, value_name = "SOURCE", requires = "end_to_end")]
    pub canary: Option<String>,
    /// Write a report for others here: settings, checks and counts, no bodies and no secrets
    ///
    /// It is shown before it is written.
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// Print the page of all checks, and look at nothing
    #[arg(long, conflicts_with_all = ["only", "strict", "end_to_end", "bundle"])]
    pub markdown: bool,
}
