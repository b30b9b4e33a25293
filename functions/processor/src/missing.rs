//! Logs and stores the paths that an event lacks and that its order or the filter of an action needs.
//! Neither changes the outcome of the attempt.

use std::time::Duration;

use anyhow::anyhow;
use shared::inbox::ledger::Row;
use shared::webhook::event::Via;
use shared::webhook::missing::MissingPath;
use tokio::time::timeout;

use crate::Processor;

/// How long an attempt waits for the write. A process writes each path at most once an hour.
const WRITE: Duration = Duration::from_secs(1);

impl Processor {
    pub(crate) async fn note_missing(&self, row: &Row, missing: MissingPath) {
        // Mitt itself writes the body of a repair's event, without the paths of the provider.
        if row.via == Via::Recon {
            return;
        }
        let (source, now) = (row.key.source(), (self.clock)());
        let Some(noted) = self.missing.note(source, &row.kind, missing, now) else {
            return;
        };
        noted.log();
        let statistics = self.services.inbox.ledger.statistics();
        let storing = timeout(WRITE, statistics.keep_missing(&noted, now)).await;
        let stored = storing.unwrap_or_else(|_| Err(anyhow!("the call timed out")));
        if let Err(error) = stored {
            noted.log_not_stored(&error);
        }
    }
}
