//! `inbox`: stored events.

mod body;
mod diff;
mod export;
mod inspect;
mod list;
mod tail;

use shared::ledger::Ledger;

use super::{aws, view};
use crate::cli::Global;
use crate::place::Inbox;

pub(super) use crate::selection::{find_one as find, known_sources};
pub(super) use body::body;
pub(super) use diff::diff;
pub(super) use export::export;
pub(super) use inspect::inspect;
pub(super) use list::list;
pub(super) use tail::tail;

/// The ledger of a deployment, with its bucket of large bodies.
pub(crate) fn ledger_with_bucket(
    inbox: &Inbox,
    global: &Global,
    table: &str,
    bucket: &str,
) -> anyhow::Result<Ledger> {
    let aws = aws(global)?;
    let bodies = (aws.s3(), bucket.to_owned());
    let ledger = Ledger::new(aws.dynamodb(), table, Some(bodies));
    Ok(ledger.keeping(inbox.config.retentions()))
}
