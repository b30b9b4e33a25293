//! Flags that select events or rejected requests. All commands share them.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use shared::inbox::ledger::Repetition;
use shared::monitoring::trial::Finding;
use shared::webhook::event::Via;

use super::values::{self, Assignment, Status};
use crate::output::CliError;
use crate::output::time::When;

/// Selects by source, time of receipt or id, for events and for rejected requests. `display_order`
/// keeps the position of these flags when a command adds its own.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct Received {
    /// Source name (repeatable; globs allowed)
    #[arg(short, long, value_name = "SOURCE", display_order = 1)]
    pub source: Vec<String>,
    /// Received at or after: 2h, 3d, 09:10, 2026-11-20, 2026-11-20T09:10:00Z
    #[arg(
        long,
        value_name = "TIME",
        value_parser = values::when,
        allow_hyphen_values = true,
        display_order = 4
    )]
    pub since: Option<When>,
    /// Received before
    #[arg(
        long,
        value_name = "TIME",
        value_parser = values::when,
        allow_hyphen_values = true,
        display_order = 5
    )]
    pub until: Option<When>,
    /// Id, or a prefix of it (repeatable); `-` reads one id per line from stdin
    #[arg(long, value_name = "ID|-", display_order = 9)]
    pub id: Vec<String>,
}

impl Received {
    /// Returns an error if no time is between `since` and `until`.
    pub(crate) fn checked(&self, now_millis: i64) -> Result<(), CliError> {
        match (self.since, self.until) {
            (Some(since), Some(until)) if since.millis(now_millis) >= until.millis(now_millis) => {
                Err(
                    CliError::usage("usage.range", "--until is not after --since")
                        .note("--since is the beginning of the time range, and --until its end")
                        .tip("for example --since 3h --until 2h"),
                )
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Selection",
    mut_arg("since", |since| since.help(
        "Received at or after: 2h, 3d, 09:10, 2026-11-20, 2026-11-20T09:10:00Z [default: 24h; 7d \
         with --tee; no limit with --id, or with a --status other than done and quarantined]"
    )),
    mut_arg("id", |id| id.help(
        "Event id, a unique prefix of it, the provider's event id, or `source:event-id` \
         (repeatable); `-` reads one id per line from stdin"
    ))
)]
pub struct SelectionArgs {
    #[command(flatten)]
    pub received: Received,
    /// Event type (repeatable; globs allowed: invoice.*)
    #[arg(short = 't', long = "type", value_name = "TYPE", display_order = 2)]
    pub event_type: Vec<String>,
    #[arg(
        long,
        value_name = "STATUS",
        value_parser = values::StatusWord,
        hide_possible_values = true,
        help = "received, processing, done, failed, dead_letter, quarantined or held (repeatable)",
        display_order = 3
    )]
    pub status: Vec<Status>,
    /// Fingerprint of the last error, or the reason for the quarantine
    #[arg(long, value_name = "FP", display_order = 6)]
    pub error: Option<String>,
    #[arg(
        long,
        value_name = "VIA",
        value_parser = via,
        help = "How the event arrived: webhook, backup_sync, spill, recon (repeatable)",
        display_order = 7
    )]
    pub via: Vec<Via>,
    /// At least this many attempts
    #[arg(long, value_name = "N", display_order = 8)]
    pub attempts: Option<u32>,
    /// Field of the body equals: --where `data.object.customer=cus_9` (reads bodies; repeatable)
    #[arg(
        long = "where",
        value_name = "PATH=VALUE",
        value_parser = values::condition,
        display_order = 10
    )]
    pub where_: Vec<Assignment>,
    /// Account of the event, such as the domain of a shop (repeatable)
    #[arg(long, value_name = "ACCOUNT", display_order = 11)]
    pub account: Vec<String>,
    /// Header of the request equals: --header `x-shopify-topic=orders/create` (reads bodies;
    /// repeatable)
    #[arg(
        long,
        value_name = "NAME=VALUE",
        value_parser = values::header_condition,
        display_order = 12
    )]
    pub header: Vec<Assignment>,
    /// What a trial found about the event: lost, doubled, slow, late (repeatable)
    #[arg(
        long,
        value_name = "FINDING",
        value_parser = finding(),
        hide_possible_values = true,
        display_order = 13
    )]
    pub tee: Vec<Finding>,
    /// Requests of the event that arrived again: resent, copied, repeated (repeatable)
    #[arg(
        long,
        value_name = "KIND",
        value_parser = repetition(),
        hide_possible_values = true,
        display_order = 14
    )]
    pub repeats: Vec<Repetition>,
}

fn repetition() -> impl TypedValueParser<Value = Repetition> {
    let words = Repetition::ALL.iter().map(|kind| kind.as_str());
    PossibleValuesParser::new(words)
        .try_map(|word| Repetition::parse(&word).ok_or("not the name of a repetition"))
}

fn finding() -> impl TypedValueParser<Value = Finding> {
    let words = Finding::ALL.iter().map(|finding| finding.as_str());
    PossibleValuesParser::new(words)
        .try_map(|word| Finding::parse(&word).ok_or("not the name of a finding"))
}

fn via(text: &str) -> Result<Via, CliError> {
    Via::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Via::ALL.iter().map(|via| via.as_str()).collect();
        CliError::usage("usage.via", format!("unknown --via value '{text}'")).one_of(text, &known)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_read_and_a_wrong_one_is_answered() {
        assert_eq!(via("backup_sync").unwrap(), Via::BackupSync);
        let error = via("backup-sync").unwrap_err();
        assert_eq!(error.code, "usage.via");
        assert_eq!(error.tip.as_deref(), Some("did you mean 'backup_sync'?"));
    }
}
