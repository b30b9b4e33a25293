//! Later arrivals of an event whose `via` differs from the first arrival. The first arrival created
//! the row.
//!
//! Usually the webhook arrives first, and each run of the sync lists the event again until the
//! overlap has passed. [`coverage`](crate::monitoring::coverage) counts these arrivals, and the row
//! does not change. The row records only rare arrivals, such as a webhook that arrives after the
//! sync found the event. The row records each `via` once.
//!
//! The record is a separate attribute and not a history entry. When a worker settles the event, it
//! writes the history that it read at the claim. An entry that was added in between would be lost.

use std::time::Duration;

use super::transition::arrivals::other_arrival;
use super::{Item, Ledger, Row, item};
use crate::base::clock::UnixMillis;
use crate::inbox::table::Returns;
use crate::webhook::event::{Event, EventKey, Via};

/// The time limit for recording an arrival. The write must not delay the response to the provider,
/// and must not make the delivery fail.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);

/// A later arrival of an event whose `via` differs from the first arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherArrival {
    pub via: Via,
    /// When the event was received by this `via`. The time can be before the row was created,
    /// because a spilled event is received long before it is stored in the table.
    pub at: UnixMillis,
}

/// How an event arrived, as recorded in its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub via: Via,
    pub received_at: UnixMillis,
    pub also: Vec<OtherArrival>,
}

impl Seen {
    /// Returns when the event arrived by webhook, or `None` if it did not.
    pub fn by_webhook(&self) -> Option<UnixMillis> {
        if self.via == Via::Webhook {
            return Some(self.received_at);
        }
        let also = self.also.iter().find(|also| also.via == Via::Webhook);
        also.map(|also| also.at)
    }
}

impl Ledger {
    /// Returns how an event arrived, or `None` if it is not stored. The read is eventually
    /// consistent, at half the price, as in [`has`](Self::has). Do not base a decision on the
    /// result.
    pub async fn seen(&self, key: &EventKey) -> anyhow::Result<Option<Seen>> {
        let ways = Via::ALL.iter().map(|via| attribute(*via));
        let wanted: Vec<String> = ways.chain(["via".into(), "rcv".into()]).collect();
        let attributes = wanted.join(", ");
        let key = (key.pk(), "M");
        let found = self
            .table
            .get_eventually("look up an event", (&key.0, key.1), Some(&attributes))
            .await?;
        Ok(found.as_ref().map(seen))
    }

    /// Records in the row that the event also arrived by another `via`, if the arrival is rare. An
    /// error is only logged, because the event is durable without this record.
    pub(super) async fn record_other_arrival(&self, row: &Row, event: &Event) {
        let noted = row.also.iter().any(|also| also.via == event.via);
        if noted || !is_worth_a_write(row.via, event.via) {
            return;
        }
        let note = self.write_other_arrival(row, event.via, event.received_at);
        let reason = match tokio::time::timeout(PATIENCE, note).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "timed out".to_owned(),
        };
        tracing::warn!(event.key = %row.key, error = reason, "could not record that event {} also arrived via {}", row.key, event.via);
    }

    /// Records an arrival, once for each `via`. A failed condition is not an error. The update
    /// returns no attributes, because the catcher has no permission to read rows.
    async fn write_other_arrival(&self, row: &Row, via: Via, at: UnixMillis) -> anyhow::Result<()> {
        let change = other_arrival(&attribute(via), row.via, at);
        let pk = row.key.pk();
        let written = self.table.update((&pk, "M"), change, Returns::Nothing);
        if written.await?.is_applied() {
            let late = at.since(row.received_at).as_secs();
            tracing::info!(event.id = %row.id(), event.key = %row.key, source = row.key.source(), late_s = late, "event {} also arrived via {}, {late} s after it arrived via {}", row.key, via, row.via);
        }
        Ok(())
    }
}

/// Returns whether an arrival is rare enough to be recorded. A sync usually lists events that
/// already arrived by webhook, so these arrivals are not recorded. A second arrival by the same
/// `via` is a duplicate.
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

/// Returns the attribute for a `via`. Each `via` has its own attribute, so that two concurrent
/// writes cannot conflict.
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
