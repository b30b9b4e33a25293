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
    /// Let the agent work on the events of this queue, instead of reading the inbox
    ///
    /// The agent claims events, declares its effects and ends the work. This process keeps the
    /// leases, extends them while the agent runs, and releases them when the agent ends.
    #[arg(long, value_name = "QUEUE", conflicts_with_all = ["propose", "secrets"])]
    pub work: Option<String>,
    /// With --work, the base URL of the API [default: that of the deployment, or of the running `dev`]
    #[arg(long, value_name = "URL", requires = "work")]
    pub api: Option<String>,
    /// With --work, the name of the role to call a local `dev` with [default: local-worker]
    #[arg(long = "as", value_name = "ROLE", requires = "work")]
    pub role: Option<String>,
    /// With --work, the name of this worker, for people
    #[arg(long, value_name = "NAME", requires = "work")]
    pub worker: Option<String>,
}
