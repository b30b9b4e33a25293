//! Which events a command is about. The same flags everywhere.

use clap::Args;
use shared::event::Via;

use super::values::{self, Assignment};
use crate::inspect::Status;
use crate::output::CliError;
use crate::output::error::nearest;
use crate::output::time::When;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectionArgs {
    /// Source name (repeatable; globs allowed)
    #[arg(short, long, value_name = "SOURCE")]
    pub source: Vec<String>,
    /// Event type (repeatable; globs allowed: invoice.*)
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub event_type: Vec<String>,
    #[arg(
        long,
        value_name = "STATUS",
        value_parser = values::StatusWord,
        hide_possible_values = true,
        help = "received, processing, done, failed, dead_letter or quarantined (repeatable)"
    )]
    pub status: Vec<Status>,
    /// Received at or after: 2h, 3d, 09:10, 2026-11-20, 2026-11-20T09:10:00Z [default: 24h; none for
    /// statuses of which every event waits, and for --id]
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub since: Option<When>,
    /// Received before
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub until: Option<When>,
    /// Fingerprint of the last error, or why it is quarantined
    #[arg(long, value_name = "FP")]
    pub error: Option<String>,
    #[arg(
        long,
        value_name = "VIA",
        value_parser = via,
        help = "How it reached us: webhook, backup_sync, spill, recon (repeatable)"
    )]
    pub via: Vec<Via>,
    /// At least this many attempts
    #[arg(long, value_name = "N")]
    pub attempts: Option<u32>,
    /// Id, a unique prefix of it, the provider's event id, or `source:event-id` (repeatable); `-`
    /// reads one a line from stdin
    #[arg(long, value_name = "ID|-")]
    pub id: Vec<String>,
    /// Field of the body equals: --where `data.object.customer=cus_9` (reads bodies; repeatable)
    #[arg(long = "where", value_name = "PATH=VALUE", value_parser = values::assignment)]
    pub where_: Vec<Assignment>,
}

fn via(text: &str) -> Result<Via, CliError> {
    Via::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Via::ALL.iter().map(|via| via.as_str()).collect();
        let error = CliError::usage("usage.via", format!("unknown way '{text}'"));
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
    fn a_way_is_read_and_a_wrong_one_is_answered() {
        assert_eq!(via("backup_sync").unwrap(), Via::BackupSync);
        let error = via("backup-sync").unwrap_err();
        assert_eq!(error.code, "usage.via");
        assert_eq!(error.tip.as_deref(), Some("did you mean 'backup_sync'?"));
    }
}
