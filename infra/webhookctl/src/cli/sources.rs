//! Arguments of `sources`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::quarantine::SecretsAt;

#[derive(Debug, Subcommand)]
pub enum SourcesCommand {
    /// List the sources: last event, events of a day, what waits, live secrets
    ///
    /// Without an inbox to ask, it lists the configuration alone, and says so.
    #[command(visible_alias = "ls")]
    List(SourcesListArgs),
    /// Show one source: how it is verified, its secrets and which of them arrive
    Show(SourcesShowArgs),
    /// List the presets, or show one whole
    Presets(SourcesPresetsArgs),
    /// Check a sources file: every fault with its line and what was meant
    Check(SourcesCheckArgs),
}

/// Which configuration a command is about.
#[derive(Debug, Clone, Default, Args)]
pub struct SourcesAt {
    /// Read this file of sources, and ask no inbox
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SourcesListArgs {
    #[command(flatten)]
    pub at: SourcesAt,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesShowArgs {
    /// Name of the source
    pub source: String,
    /// How many of the newest events are looked at, for which secret proved them
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub events: u32,
    #[command(flatten)]
    pub at: SourcesAt,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct SourcesPresetsArgs {
    /// Show this preset whole: variants, signed message, window, handshake, answer, retries
    pub preset: Option<String>,
    /// Print the page infra/docs/presets.md
    #[arg(long, conflicts_with = "preset")]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct SourcesCheckArgs {
    /// File to check
    #[arg(default_value = "infra/sources.toml")]
    pub file: PathBuf,
}
