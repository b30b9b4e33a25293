//! Arguments of `log`.

use clap::Args;

use super::values;
use crate::output::time::When;

#[derive(Debug, Args)]
pub struct LogArgs {
    /// Maximum number of entries
    #[arg(short = 'n', long = "limit", value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// Done at or after: 2h, 3d, 09:10, 2026-11-20, 2026-11-20T09:10:00Z [default: 90d]
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub since: Option<When>,
    /// Done before
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    pub until: Option<When>,
    /// Operator whose name contains this text (case-insensitive)
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Action: erase, quarantine, reconcile.repair, … (a prefix is enough)
    #[arg(long, value_name = "ACTION")]
    pub what: Option<String>,
}
