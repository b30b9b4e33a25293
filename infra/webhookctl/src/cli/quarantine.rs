//! Arguments of `quarantine`.

use clap::{Args, Subcommand};
use shared::webhook::verify::Reason;

use super::bodies::BodiesAt;
use super::selection::Received;
use crate::output::CliError;
use crate::output::error::nearest;

#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// List refused requests by source and reason, and whether they match today's secrets
    #[command(visible_alias = "ls")]
    List(HeldListArgs),
    /// Show one refused request
    #[command(visible_alias = "show")]
    Inspect(HeldInspectArgs),
    /// Verify refused requests with today's secrets; the genuine ones enter the inbox
    ///
    /// They enter as of their time of receipt, which also decides whether they came in time. What
    /// is forged stays. What has entered before is not looked at again.
    Reverify(ReverifyArgs),
    /// Delete refused requests; they are deleted after a week anyway
    Purge(PurgeArgs),
    /// Let an event be worked on that was kept apart: another one has its id, or its body
    ///
    /// Such an event was verified and is in the inbox, as `quarantined`. It is worked on once, under
    /// the key that it was kept under, with idempotency keys of its own.
    Release(ReleaseArgs),
    /// Make a dead letter of an event that was kept apart; nobody works on it
    Discard(DiscardArgs),
}

/// What of the quarantine a command is about.
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
        help = "Why they were refused: bad_signature, missing_header, … (repeatable)",
        display_order = 2
    )]
    pub reason: Vec<Reason>,
}

/// What a deployment does not say of itself; its stack has it as an output. The running `dev`
/// does say it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct SecretsAt {
    /// Path of the secrets, the output `SecretsPath` [default: by the table's name]
    #[arg(long, value_name = "PATH", env = "MITT_SECRETS_PATH", hide_env = true)]
    pub secrets_path: Option<String>,
}

/// The door of a deployment's inbox.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct DoorAt {
    /// Queue of messages, the output `QueueUrl`
    #[arg(long, value_name = "URL", env = "MITT_QUEUE_URL", hide_env = true)]
    pub queue_url: Option<String>,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}

#[derive(Debug, Args)]
pub struct HeldListArgs {
    /// Each request on a line of its own, newest first
    #[arg(long)]
    pub flat: bool,
    /// How many, at most, with --flat
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
    /// Id, or a unique prefix of it
    pub id: String,
    /// Also the body, the query and the credentials in the headers
    #[arg(long)]
    pub reveal: bool,
    #[command(flatten)]
    pub secrets_at: SecretsAt,
}

#[derive(Debug, Args)]
pub struct ReverifyArgs {
    /// Say what would happen, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The number of requests that enter, as --dry-run shows it; a protected context asks for it
    #[arg(long, value_name = "N", conflicts_with = "dry_run")]
    pub confirm: Option<usize>,
    /// Why; it is written down with who you are
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
    /// The number of requests that goes, as it was shown
    #[arg(long, value_name = "N")]
    pub confirm: Option<usize>,
    /// Why; it is written down with who you are
    #[arg(short = 'm', long = "message", value_name = "WHY")]
    pub why: Option<String>,
    #[command(flatten)]
    pub selection: HeldSelection,
}

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Id of the event, a unique prefix of it, or `source:event-id`
    pub id: String,
    /// Why; it is written down with who you are
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    #[command(flatten)]
    pub door_at: DoorAt,
}

#[derive(Debug, Args)]
pub struct DiscardArgs {
    /// Id of the event, a unique prefix of it, or `source:event-id`
    pub id: String,
    /// Why; it is written down with who you are
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
}

fn reason(text: &str) -> Result<Reason, CliError> {
    Reason::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        let error = CliError::usage("usage.reason", format!("unknown reason '{text}'"));
        match nearest(text, known.iter().copied()) {
            Some(meant) => error.tip(format!("did you mean '{meant}'?")),
            None => error.tip(format!("one of: {}", known.join(", "))),
        }
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
