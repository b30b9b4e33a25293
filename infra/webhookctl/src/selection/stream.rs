//! Reads the rows of a selection one after the other, and keeps none of them.

use shared::inbox::ledger::{Cost, Row};

use super::find::{A_BATCH, AT_ONCE};
use super::time_scan::Walk;
use super::{Position, Selection, Want};
use crate::target::Deployment;

impl Selection {
    /// Calls `visit` with each matching row, oldest first, and `progress` with the number of rows
    /// that were visited. Ignores the conditions on the body. Returns the cost.
    pub(crate) async fn each(
        &self,
        inbox: &Deployment,
        visit: &mut dyn FnMut(&Row),
        progress: &mut dyn FnMut(usize),
    ) -> anyhow::Result<Cost> {
        let all = Want {
            limit: usize::MAX,
            reverse: true,
            after: None,
        };
        let span = self.reading_span(&all)?;
        let mut walk = Walk::new(&inbox.ledger, self.sources.clone(), span, true, 1000);
        let mut visited = 0;
        loop {
            let listed = walk.next(A_BATCH * AT_ONCE, &mut |_| ()).await?;
            if listed.is_empty() {
                return Ok(walk.cost);
            }
            let wanted = listed
                .into_iter()
                .filter(|event| self.has_kind(&event.kind));
            let keys: Vec<_> = wanted.map(|event| event.key).collect();
            let mut rows = self.rows(inbox, &keys, &mut walk.cost).await?;
            rows.sort_by_cached_key(|stored| Position::of(&stored.row));
            for stored in &rows {
                visit(&stored.row);
            }
            visited += rows.len();
            progress(visited);
        }
    }
}
