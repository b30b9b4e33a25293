//! Records a new event as done in one write, without a lease.
//!
//! A lease keeps two workers from one effect. An event that Mitt only keeps has no effect, so it
//! needs no lease, and one write does what a claim and a settlement do in two.

use std::time::Duration;

use super::claim::owner;
use super::{Ledger, Row, State, Write, transition};
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

impl Ledger {
    /// Records a new event as done, and returns its row. The row is the same as if a worker had
    /// claimed the event for `lease` and settled it at once.
    ///
    /// Use it only for an event without effects. Returns `None` and writes nothing if the event is
    /// not new, for example because a worker claimed it before or because it is done. The caller
    /// then claims the event.
    pub async fn keep(
        &self,
        key: &EventKey,
        worker: &str,
        now: UnixMillis,
        lease: Duration,
    ) -> anyhow::Result<Option<Row>> {
        let owner = owner(worker)?;
        let expires = now + self.retention(key.source()).rows;
        let change = transition::keep(&owner, now, now + lease, expires);
        let item = match self.change(&key.pk(), change).await? {
            Write::Applied(item) => item,
            // An earlier try of this write succeeded, but its response was lost.
            Write::Refused(old) => old.filter(|row| {
                super::item::text(row, "done_by") == Some(&owner)
                    && super::item::text(row, "st") == Some(State::Done.as_str())
            }),
        };
        let Some(item) = item else { return Ok(None) };
        let row = Row::read(&item)?;
        self.release_body_of_done(&row, now).await;
        Ok(Some(row))
    }
}
