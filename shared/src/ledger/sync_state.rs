//! The sync of a source as people look at it.

use super::{Ledger, item};
use crate::clock::Millis;

/// Where the sync of a source stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncState {
    /// When the last complete run began: everything before is in the ledger.
    pub cursor: Option<Millis>,
    /// When it ended.
    pub ended: Option<Millis>,
    /// Who is at it, and until when at most.
    pub lease: Option<(String, Millis)>,
    /// A run that stopped before its end: when it began, and the earliest time that it asks for.
    pub paused: Option<(Millis, Millis)>,
    /// Leases that were ever taken.
    pub runs: u64,
}

impl Ledger {
    /// Where the sync of a source stands; `None` if it never ran.
    pub async fn sync_state(&self, source: &str) -> anyhow::Result<Option<SyncState>> {
        let cursor = self.get(&format!("SYNC#{source}"), "CURSOR").await?;
        Ok(cursor.map(|row| SyncState {
            cursor: item::time(&row, "cur"),
            ended: item::time(&row, "last_ok"),
            lease: item::text(&row, "own")
                .map(str::to_owned)
                .zip(item::time(&row, "lu")),
            paused: item::text(&row, "page")
                .and(item::time(&row, "pstart").zip(item::time(&row, "pfrom"))),
            runs: item::number(&row, "epoch").unwrap_or(0),
        }))
    }
}
