//! Arguments of `erase`.

use clap::Args;

use super::bodies::BodiesAt;
use super::values::{self, Assignment};
use crate::output::time::When;

#[derive(Debug, Args)]
pub struct EraseArgs {
    /// Event to erase: its id, a unique prefix of it, or `source:event-id` (repeatable)
    #[arg(long, value_name = "ID", conflicts_with = "matching")]
    pub id: Vec<String>,
    /// Events whose body has this value at this path, such as `data.object.customer=cus_1`
    /// (repeatable; all must match)
    #[arg(long = "where", value_name = "PATH=VALUE", value_parser = values::condition)]
    pub matching: Vec<Assignment>,
    /// Events of this account, such as the domain of a shop (repeatable)
    #[arg(long, value_name = "ACCOUNT", conflicts_with = "id")]
    pub account: Vec<String>,
    /// Source to search (repeatable) [default: all]
    #[arg(short, long, value_name = "SOURCE", conflicts_with = "id")]
    pub source: Vec<String>,
    /// Received at or after [default: as long as events are kept]
    #[arg(long, value_name = "TIME", value_parser = values::when, conflicts_with = "id")]
    pub since: Option<When>,
    /// Received before
    #[arg(long, value_name = "TIME", value_parser = values::when, conflicts_with = "id")]
    pub until: Option<When>,
    /// Reason, for the audit log
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    /// The number of events, as the command showed it
    #[arg(long, value_name = "N")]
    pub confirm: Option<usize>,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}
