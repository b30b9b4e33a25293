//! The arguments of `mcp`.

use clap::Args;

#[derive(Debug, Args)]
pub struct McpArgs {
    /// Let the agent propose replays, which a person applies
    #[arg(long)]
    pub propose: bool,
    /// Let the agent ask why a signature does not match; this reads the secrets of the source
    #[arg(long)]
    pub secrets: bool,
    /// Let the agent read values of bodies; without it, it sees only their structure
    #[arg(long)]
    pub bodies: bool,
}
