//! Arguments of `erase`.

use clap::Args;

use super::bodies::BodiesAt;
use super::values::{self, Assignment};
use crate::output::time::When;

#[derive(Debug, Args)]
pub struct EraseArgs {
    /// Event to erase: its id, a unique prefix of it, `source:event-id` (repeatable)
    #[arg(long, value_name = "ID", conflicts_with = "matching")]
    pub id: Vec<String>,
    /// Events whose body has this value at this path, such as `data.object.customer=cus_1`; with
    /// several, all of them (repeatable)
    #[arg(long = "where", value_name = "PATH=VALUE", value_parser = values::assignment)]
    pub matching: Vec<Assignment>,
    /// Source to look through (repeatable) [default: all]
    #[arg(short, long, value_name = "SOURCE", conflicts_with = "id")]
    pub source: Vec<String>,
    /// Received at or after [default: for as long as rows are kept]
    #[arg(long, value_name = "TIME", value_parser = values::when, conflicts_with = "id")]
    pub since: Option<When>,
    /// Received before
    #[arg(long, value_name = "TIME", value_parser = values::when, conflicts_with = "id")]
    pub until: Option<When>,
    /// Why; it is written down with who you are
    #[arg(short = 'm', long, value_name = "WHY")]
    pub reason: String,
    /// The number of events that are erased, as it was shown
    #[arg(long, value_name = "N")]
    pub confirm: Option<usize>,
    #[command(flatten)]
    pub bodies_at: BodiesAt,
}
