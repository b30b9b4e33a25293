//! Arguments of `presets`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum PresetsCommand {
    /// Check the presets against the test vectors, and show how old they are
    ///
    /// Verifies each test vector as the catcher does: genuine requests must be accepted, forged
    /// ones refused, and handshakes answered. Each genuine request must also be refused if a byte
    /// of its body is changed, if the secret is another one, and outside the time window. Exit 5 if
    /// a check fails; with --strict also if a preset is older than 180 days. `sources presets`
    /// shows what a preset contains.
    Check(PresetsCheckArgs),
}

#[derive(Debug, Default, Args)]
pub struct PresetsCheckArgs {
    /// Check only these presets [default: all]
    #[arg(value_name = "PRESET")]
    pub presets: Vec<String>,
    /// Exit 5 if a preset was compared with its documentation more than 180 days ago
    #[arg(long)]
    pub strict: bool,
    /// Use the test vectors of this file [default: the built-in ones]
    #[arg(long, value_name = "FILE")]
    pub vectors: Option<PathBuf>,
}
