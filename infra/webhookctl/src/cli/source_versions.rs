//! Arguments of the `sources` commands that change the sources at run time.

use std::path::PathBuf;

use clap::Args;

use super::quarantine::SecretsAt;

/// Changes that the commands refuse unless a flag allows them.
#[derive(Debug, Clone, Default, Args)]
pub struct RiskArgs {
    /// Remove this source or its action of kind pull, although it has open events (repeatable)
    #[arg(long, value_name = "NAME")]
    pub remove: Vec<String>,
    /// Allow another preset, variant or event id of a source
    ///
    /// The provider's retries of earlier events then count as new events.
    #[arg(long)]
    pub changes_keys: bool,
    /// Allow a new secret that has no live value, or that cannot be read
    #[arg(long)]
    pub unchecked_secrets: bool,
    /// The number of changes, as `sources diff` shows it, to confirm
    #[arg(long, value_name = "N")]
    pub confirm: Option<u64>,
}

#[derive(Debug, Args)]
pub struct SourcesApplyArgs {
    /// Sources file to put into force
    pub file: PathBuf,
    /// Reason; the audit log and `sources history` show it
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    #[command(flatten)]
    pub risks: RiskArgs,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesDiffArgs {
    /// File to compare [default: sources.toml if it exists, or infra/sources.toml]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SourcesHistoryArgs {
    /// Show this version with its file
    pub version: Option<u64>,
    /// Number of versions to list
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub struct SourcesRollbackArgs {
    /// Version whose file to put into force again
    pub version: u64,
    /// Reason; the audit log and `sources history` show it
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    #[command(flatten)]
    pub risks: RiskArgs,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}
