//! By which other ways an event came, after its row had been made.
//!
//! The ordinary order is webhook first, and then the sync lists the event again in each run until
//! its overlap has passed: that is counted (see [`coverage`](crate::monitoring::coverage)) and writes nothing
//! here. Only the rare order is written on the row, once for each other way: what the sync found
//! first came by webhook after all.
//!
//! It is an attribute of its own and no entry of the history: a worker that settles the event
//! writes the history as it was when it claimed, so that an entry added in between would be lost.

use std::time::Duration;

use super::transition::arrivals::other_arrival;
use super::{Item, Ledger, Row, item};
use crate::base::clock::UnixMillis;
use crate::inbox::table::Returns;
use crate::webhook::event::{Event, EventKey, Via};

/// A note of this kind must not keep a sender waiting, or make its delivery a failed one.
const PATIENCE: Duration = Duration::from_millis(200);

/// An event came once more, by another way than the one that its row was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherArrival {
    pub via: Via,
    /// When it was received by that way. It may be before the row was made: what was spilled is
    /// received long before it is put.
    pub at: UnixMillis,
}

/// What an event's row says of how it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub via: Via,
    pub received_at: UnixMillis,
    pub also: Vec<OtherArrival>,
}

impl Seen {
    /// When it came by webhook, if it did.
    pub fn by_webhook(&self) -> Option<UnixMillis> {
        if self.via == Via::Webhook {
            return Some(self.received_at);
        }
        let also = self.also.iter().find(|also| also.via == Via::Webhook);
        also.map(|also| also.at)
    }
}

impl Ledger {
    /// How an event came, if it is there. Nothing may be decided by it: it reads what was true a
    /// moment ago, at half the price, as [`has`](Self::has) does.
    pub async fn seen(&self, key: &EventKey) -> anyhow::Result<Option<Seen>> {
        let ways = Via::ALL.iter().map(|via| attribute(*via));
        let wanted: Vec<String> = ways.chain(["via".into(), "rcv".into()]).collect();
        let attributes = wanted.join(", ");
        let key = (key.pk(), "M");
        let found = self
            .table
            .get_eventually("look an event up", (&key.0, key.1), Some(&attributes))
            .await?;
        Ok(found.as_ref().map(seen))
    }

    /// Notes on the row that the event came by another way too, where that is worth a write.
    /// Its trouble is in the log: the event is durable, with or without the note.
    pub(super) async fn record_other_arrival(&self, row: &Row, event: &Event) {
        let noted = row.also.iter().any(|also| also.via == event.via);
        if noted || !is_worth_a_write(row.via, event.via) {
            return;
        }
        let note = self.write_other_arrival(row, event.via, event.received_at);
        let trouble = match tokio::time::timeout(PATIENCE, note).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "it took too long".to_owned(),
        };
        tracing::warn!(event.key = %row.key, error = trouble, "could not note that event {} came via {} too", row.key, event.via);
    }

    /// The condition holds once for each way; that it does not hold is no trouble. Nothing of the
    /// row is asked for: the catcher, which writes this, may not read one.
    async fn write_other_arrival(&self, row: &Row, via: Via, at: UnixMillis) -> anyhow::Result<()> {
        let change = other_arrival(&attribute(via), row.via, at);
        let pk = row.key.pk();
        let written = self.table.update((&pk, "M"), change, Returns::Nothing);
        if written.await?.is_applied() {
            let late = at.since(row.received_at).as_secs();
            tracing::info!(event.id = %row.id(), event.key = %row.key, source = row.key.source(), late_s = late, "event {} came via {} too, {late} s after it came via {}", row.key, via, row.via);
        }
        Ok(())
    }
}

/// A poll that lists what has come by webhook is the rule, and says nothing new. The same way again
/// is a duplicate.
fn is_worth_a_write(first: Via, again: Via) -> bool {
    first != again && again != Via::BackupSync
}

fn seen(row: &Item) -> Seen {
    Seen {
        via: item::text(row, "via")
            .and_then(Via::parse)
            .unwrap_or(Via::Webhook),
        received_at: item::time(row, "rcv").unwrap_or_default(),
        also: read(row),
    }
}

/// Each way has an attribute of its own, so that two of them never meet in one.
fn attribute(via: Via) -> String {
    format!("also_{via}")
}

pub(super) fn read(row: &Item) -> Vec<OtherArrival> {
    let ways = Via::ALL.iter().copied();
    ways.filter_map(|via| {
        let at = item::time(row, &attribute(via))?;
        Some(OtherArrival { via, at })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rare_order_is_worth_a_write() {
        use Via::{BackupSync, Recon, Spill, Webhook};
        for (first, again, worth) in [
            (BackupSync, Webhook, true),
            (Recon, Webhook, true),
            (BackupSync, Spill, true),
            (Webhook, BackupSync, false),
            (Webhook, Webhook, false),
            (BackupSync, BackupSync, false),
        ] {
            assert_eq!(is_worth_a_write(first, again), worth, "{first}, {again}");
        }
    }

    #[test]
    fn a_row_says_when_it_came_by_webhook() {
        let row = |via: &str, more: &[(&str, i64)]| {
            let mut row = Item::from([
                ("via".to_owned(), item::s(via)),
                ("rcv".to_owned(), item::n(5)),
            ]);
            for (name, at) in more {
                row.insert((*name).to_owned(), item::n(at));
            }
            seen(&row).by_webhook()
        };
        assert_eq!(row("webhook", &[]), Some(UnixMillis(5)));
        assert_eq!(row("backup_sync", &[]), None);
        assert_eq!(
            row("backup_sync", &[("also_webhook", 9)]),
            Some(UnixMillis(9))
        );
        assert_eq!(row("backup_sync", &[("also_spill", 9)]), None);
    }
}
