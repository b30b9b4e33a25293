//! Logs and stores the paths that a verified event lacks. Neither changes the response.

use anyhow::anyhow;
use shared::base::clock::UnixMillis;
use shared::monitoring::missing_paths::Noted;
use shared::sources::Source;
use shared::webhook::event::Event;
use tokio::time::{Instant, timeout_at};

use crate::Catcher;

impl Catcher {
    /// Logs the paths that an event lacks, and returns those to store.
    pub(crate) fn missing_of(&self, source: &Source, event: &Event, now: UnixMillis) -> Vec<Noted> {
        let missing = self.missing.of_event(source, event, now);
        missing.iter().for_each(Noted::log);
        missing
    }

    /// Stores missing paths for operators. A process stores each path at most once an hour.
    pub(crate) async fn store_missing(&self, missing: &[Noted], now: UnixMillis, until: Instant) {
        for noted in missing {
            let statistics = self.services.inbox.ledger.statistics();
            let storing = timeout_at(until, statistics.keep_missing(noted, now)).await;
            let stored = storing.unwrap_or_else(|_| Err(anyhow!("the call timed out")));
            if let Err(error) = stored {
                noted.log_not_stored(&error);
            }
        }
    }
}
