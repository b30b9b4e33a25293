//! Arguments of `hold`.

use clap::{Args, Subcommand};

use super::bodies::BodiesAt;
use super::quarantine::DoorAt;

#[derive(Debug, Subcommand)]
pub enum HoldCommand {
    /// List the events that wait for an approval, first the one that expires first
    #[command(visible_alias = "ls")]
    List(HoldListArgs),
    /// Show what an event waits for: the rule, what would be sent, and what the rule read
    Show(HoldShowArgs),
    /// Allow the effect that a rule holds
    ///
    /// The event runs again at once. The approval is for exactly what `hold show` prints: if
    /// something else would be sent, the event is held again.
    Approve(HoldApproveArgs),
    /// Make a held event a dead letter, without the effect
    Reject(HoldRejectArgs),
}

#[derive(Debug, Args)]
pub struct HoldListArgs {
    /// Source to list (repeatable) [default: all]
    #[arg(short, long, value_name = "SOURCE")]
    pub source: Vec<String>,
    /// Maximum number of events
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

#[derive(Debug, Args)]
pub struct HoldShowArgs {
    /// Event id, a unique prefix of it, or `source:event-id`
    pub id: String,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct HoldApproveArgs {
    /// Event id, a unique prefix of it, or `source:event-id`
    pub id: String,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    /// The id of the hold, as `hold show` prints it; asked for on a terminal
    #[arg(long, value_name = "HOLD")]
    pub confirm: Option<String>,
    #[command(flatten)]
    pub door_at: DoorAt,
    #[command(flatten)]
    pub api_at: ApprovalAt,
}

/// How to reach the API, for an event of a rule with `approvers`.
#[derive(Debug, Args)]
pub struct ApprovalAt {
    /// Base URL of the API, for a rule with `approvers` [default: that of the deployment, or of
    /// the running `dev`]
    #[arg(long, value_name = "URL", env = "MITT_API", hide_env = true)]
    pub api: Option<String>,
    /// Name of the role to call a local `dev` with [default: local-worker]
    #[arg(
        long = "as",
        value_name = "ROLE",
        env = "MITT_LOCAL_ROLE",
        hide_env = true
    )]
    pub role: Option<String>,
}

#[derive(Debug, Args)]
pub struct HoldRejectArgs {
    /// Event id, a unique prefix of it, or `source:event-id`
    pub id: String,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    /// The id of the hold, as `hold show` prints it [default: any hold]
    #[arg(long, value_name = "HOLD")]
    pub confirm: Option<String>,
    #[command(flatten)]
    pub api_at: ApprovalAt,
}
