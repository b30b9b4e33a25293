//! Arguments of `doctor`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Default, Args)]
pub struct DoctorArgs {
    /// Run only these checks, by name or group: queue, timing.chain (repeatable, or with commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Exit 5 for warnings too
    #[arg(long)]
    pub strict: bool,
    /// Also send a test webhook through the public URL, to a source that only stores events
    #[arg(long)]
    pub end_to_end: bool,
    /// Source of the test webhook [default: the first source whose actions are all `keep`]
    #[arg(long, value_name = "SOURCE", requires = "end_to_end")]
    pub canary: Option<String>,
    /// Write a report to share to this file: settings, checks and counts, no bodies or secrets
    ///
    /// The command shows the report before it writes the file.
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// Print the documentation of all checks, and check nothing
    #[arg(long, conflicts_with_all = ["only", "strict", "end_to_end", "bundle"])]
    pub markdown: bool,
}
