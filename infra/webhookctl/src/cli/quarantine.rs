//! Arguments of `quarantine`.

use clap::{Args, Subcommand};
use shared::webhook::verify::Reason;

use super::bodies::BodiesAt;
use super::selection::Received;
use crate::output::CliError;

#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// List rejected requests by reason, checked with the current secrets
    #[command(visible_alias = "ls")]
    List(HeldListArgs),
    /// Show one rejected request
    #[command(visible_alias = "show")]
    Inspect(HeldInspectArgs),
    /// Verify rejected requests with the current secrets; accept the genuine ones
    ///
    /// Accepted requests enter the inbox with their original time of receipt. The signature is
    /// checked as of this time. Forged requests stay. Requests that were accepted before are
    /// skipped.
    Reverify(ReverifyArgs),
    /// Delete rejected requests before they expire after a week
    Purge(PurgeArgs),
    /// Run a quarantined event, although another event has the same id or body
    ///
    /// A quarantined event was verified and is in the inbox, with the status `quarantined`. The
    /// event runs once, with its own event key and its own idempotency keys.
    Release(ReleaseArgs),
    /// Make a quarantined event a dead letter, without running it
    Discard(DiscardArgs),
}

/// Selects rejected requests.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct HeldSelection {
    #[command(flatten)]
    pub received: Received,
    #[arg(
        long,
        visible_alias = "error",
        value_name = "REASON",
        value_parser = reason,
        help = "Reason for the rejection: bad_signature, missing_header, … (repeatable)",
        display_order = 2
    )]
    pub reason: Vec<Reason>,
}

/// The option for the path of the secrets, which is an output of the stack. The running `dev`
/// provides its own path.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct SecretsAt {
    /// Path of the secrets (stack output `SecretsPath`) [default: from the table name]
    #[arg(long, value_name = "PATH", env = "MITT_SECRETS_PATH", hide_env = true)]
    pub secrets_path: Option<String>,
}

/// The resources that a command needs to add events to an inbox.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct DoorAt {
    /// Work queue (stack output `QueueUrl`)
    #[arg(long, value_name = "URL", env = "MITT_QUEUE_URL", hide_env = true)]
    pub queue_url: Option<String>,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct HeldListArgs {
    /// One line per request, newest first
    #[arg(long)]
    pub flat: bool,
    /// Maximum number of requests, with --flat
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    #[command(flatten)]
    pub selection: HeldSelection,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct HeldInspectArgs {
    /// Request id, or a unique prefix of it
    pub id: String,
    /// Also show the body, the query and the credentials in the headers
    #[arg(long)]
    pub reveal: bool,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct ReverifyArgs {
    /// Show what would happen, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The number of requests to accept, as --dry-run shows it; required in a protected context
    #[arg(long, value_name = "N", conflicts_with = "dry_run")]
    pub confirm: Option<usize>,
    /// Reason, for the audit log
    #[arg(
        short = 'm',
        long = "message",
        value_name = "WHY",
        required_unless_present = "dry_run"
    )]
    pub why: Option<String>,
    #[command(flatten)]
    pub selection: HeldSelection,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
    #[command(flatten)]
    pub door_at: DoorAt,
}

#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// The number of requests to delete, as the command showed it
    #[arg(long, value_name = "N")]
    pub confirm: Option<usize>,
    /// Reason, for the audit log
    #[arg(short = 'm', long = "message", value_name = "WHY")]
    pub why: Option<String>,
    #[command(flatten)]
    pub selection: HeldSelection,
}

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Event id, a unique prefix of it, or `source:event-id`
    pub id: String,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    #[command(flatten)]
    pub door_at: DoorAt,
}

#[derive(Debug, Args)]
pub struct DiscardArgs {
    /// Event id, a unique prefix of it, or `source:event-id`
    pub id: String,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
}

fn reason(text: &str) -> Result<Reason, CliError> {
    Reason::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        CliError::usage("usage.reason", format!("unknown reason '{text}'")).one_of(text, &known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_and_a_wrong_one_is_answered() {
        assert_eq!(reason("bad_signature").unwrap(), Reason::BadSignature);
        let error = reason("bad_signatur").unwrap_err();
        assert_eq!(error.tip.as_deref(), Some("did you mean 'bad_signature'?"));
    }
}
