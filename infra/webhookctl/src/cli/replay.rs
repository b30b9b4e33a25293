//! Arguments of `replay`.

use clap::{Args, Subcommand, ValueEnum};

use super::selection::SelectionArgs;
use super::values;
use crate::output::CliError;
use crate::output::time::When;

#[derive(Debug, Subcommand)]
pub enum ReplayCommand {
    /// Select events and show what a replay would do; runs nothing
    ///
    /// The plan stores the event ids, so later events are never added to it. `replay apply` skips
    /// events that have changed since the plan was made.
    Plan(Box<ReplayPlanArgs>),
    /// Run the events of a plan; run the command again to resume
    ///
    /// Runs a few events first. A plan runs each event once, even if you apply it again. Exit 6 if
    /// events failed again, 7 if the plan was not confirmed or has expired, 8 if another operator
    /// is applying it.
    Apply(ReplayApplyArgs),
    /// Show the progress of a plan, and the status of its events
    Status(ReplayPlanId),
    /// Show the record of a plan: who, when, why, the selection and the result
    Show(ReplayShowArgs),
    /// Cancel a plan; events that are queued still run
    Cancel(ReplayCancelArgs),
    /// List the plans, newest first
    Log(ReplayLogArgs),
}

/// Selects which events of the selection run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ReplayMode {
    /// Events for which Mitt knows that no open side effect has happened
    #[default]
    Safe,
    /// Also events whose side effects may have happened, if the destination honours the key
    Guarded,
    /// Also done events
    Force,
}

#[derive(Debug, Args)]
pub struct ReplayPlanArgs {
    #[arg(
        long,
        value_name = "MODE",
        default_value = "safe",
        hide_possible_values = true,
        help = "safe: events whose open side effects did not happen; guarded: also those that may have \
                happened, with the same idempotency key; force: also done events"
    )]
    pub mode: ReplayMode,
    /// Maximum number of events that the plan may select
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max: usize,
    /// Reason, for the audit log
    #[arg(
        short = 'm',
        long,
        value_name = "WHY",
        default_value = "",
        hide_default_value = true
    )]
    pub reason: String,
    /// How long the plan is valid, 24h at most
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = span)]
    pub expires: u64,
    /// Use the selection of another plan
    #[arg(long, value_name = "PLAN")]
    pub like: Option<String>,
    /// Repeat side effects that are known to have happened, with new idempotency keys
    #[arg(long)]
    pub new_effect: bool,
    /// Also run events whose idempotency key the destination may have forgotten
    #[arg(long)]
    pub accept_duplicate_risk: bool,
    #[command(flatten)]
    pub selection: SelectionArgs,
}

#[derive(Debug, Args)]
pub struct ReplayApplyArgs {
    /// Plan id, or a unique prefix of it
    pub plan: String,
    /// The number of events, as the plan showed it
    #[arg(long, value_name = "N")]
    pub confirm: Option<u64>,
    /// Events per second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rate: u32,
    /// Number of events to run first; 0 skips this step
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub canary: usize,
    /// Stop when more than this share of the events failed again
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = share)]
    pub stop_at: u32,
    /// Reason, for the audit log [default: the reason of the plan]
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: Option<String>,
    /// Apply a plan that an agent proposed with --confirm, without a person at a terminal
    #[arg(long, requires = "confirm")]
    pub accept_proposed: bool,
    /// Do not wait for the results
    #[arg(long)]
    pub no_wait: bool,
    /// Show what would run now, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How long to wait for results after all events are queued; then exit 124
    #[arg(long, value_name = "SPAN", default_value = "15m", value_parser = span)]
    pub timeout: u64,
    #[command(flatten)]
    pub queue_at: QueueAt,
}

/// The work queue of a deployment.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployment")]
pub struct QueueAt {
    /// Work queue (stack output `QueueUrl`)
    #[arg(long, value_name = "URL", env = "MITT_QUEUE_URL", hide_env = true)]
    pub queue_url: Option<String>,
}

#[derive(Debug, Args)]
pub struct ReplayPlanId {
    /// Plan id, or a unique prefix of it
    pub plan: String,
}

#[derive(Debug, Args)]
pub struct ReplayCancelArgs {
    /// Plan id, or a unique prefix of it
    pub plan: String,
    /// Reason, for the audit log [default: the reason of the plan]
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct ReplayShowArgs {
    /// Plan id, or a unique prefix of it
    pub plan: String,
    /// List the selected events that are left out, and why
    #[arg(long, conflicts_with = "events")]
    pub left_out: bool,
    /// List the first 200 events of the plan, and what the replay does to their side effects
    #[arg(long)]
    pub events: bool,
}

#[derive(Debug, Args)]
pub struct ReplayLogArgs {
    /// Created at or after: 2h, 3d, 2026-11-20
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub since: Option<When>,
    /// Created by an operator whose identity contains this text
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    /// Maximum number of plans
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
}

impl ReplayMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Guarded => "guarded",
            Self::Force => "force",
        }
    }
}

/// Returns the duration in seconds.
fn span(text: &str) -> Result<u64, CliError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        Some("d") => 24 * 3600,
        _ => 0,
    };
    let seconds = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    let message = match seconds {
        Some(seconds @ 1..) if seconds <= 24 * 3600 => return Ok(seconds),
        Some(1..) => format!("'{text}' is longer than 24h"),
        _ => format!("invalid duration '{text}'"),
    };
    Err(CliError::usage("usage.span", message).tip("write 30s, 15m or 2h; 24h at most"))
}

/// Parses a percentage without a fraction.
fn share(text: &str) -> Result<u32, CliError> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok();
    percent.filter(|percent| *percent <= 100).ok_or_else(|| {
        CliError::usage("usage.share", format!("invalid percentage '{text}'"))
            .tip("write 10%, or 100% to never stop")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_shares_are_read_and_wrong_ones_are_answered() {
        assert_eq!(
            [span("30s"), span("15m"), span("24h")].map(Result::unwrap),
            [30, 900, 86_400]
        );
        for wrong in ["", "5", "0s", "25h", "99999999999999999999m", "1w", "-1m"] {
            assert_eq!(span(wrong).unwrap_err().code, "usage.span", "{wrong}");
        }
        assert_eq!(span("48h").unwrap_err().message, "'48h' is longer than 24h");
        assert_eq!(
            [share("10%"), share("0"), share("100%")].map(Result::unwrap),
            [10, 0, 100]
        );
        for wrong in ["", "%", "101%", "-1", "ten"] {
            assert_eq!(share(wrong).unwrap_err().code, "usage.share", "{wrong}");
        }
    }
}
