//! The state of a source's sync, for `webhookctl`.

use super::SyncStore;
use anyhow::Context as _;

use super::{Item, SCHEMA, item};
use crate::base::clock::UnixMillis;

/// The state of the sync of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncState {
    /// When the last complete run began. All earlier events are in the ledger.
    pub cursor: Option<UnixMillis>,
    /// When the last complete run ended.
    pub ended: Option<UnixMillis>,
    /// The owner of the lease, and the latest time at which the lease ends.
    pub lease: Option<(String, UnixMillis)>,
    /// The start of a run that stopped early, and the earliest time that this run requests.
    pub paused: Option<(UnixMillis, UnixMillis)>,
    /// The number of leases that were taken so far.
    pub runs: u64,
}

/// A span that the provider no longer listed when the sync requested it. If an event of that span
/// did not arrive by webhook, the sync cannot fetch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub from: UnixMillis,
    pub to: UnixMillis,
    /// When the sync last noticed that the provider no longer lists the span.
    pub noted: UnixMillis,
}

impl SyncStore<'_> {
    /// Returns the state of the sync of a source, or `None` if it never ran.
    pub async fn sync_state(self, source: &str) -> anyhow::Result<Option<SyncState>> {
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

    /// Records a span that the provider no longer lists. A longer span with the same start replaces
    /// the earlier record.
    pub async fn note_lost(self, source: &str, lost: Lost) -> anyhow::Result<()> {
        let keep = self.retention(source).rows * 2;
        let note = Item::from([
            ("pk".to_owned(), item::s(format!("SYNC#{source}"))),
            (
                "sk".to_owned(),
                item::s(format!("LOST#{:013}", lost.from.0.max(0))),
            ),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("lost_from".to_owned(), item::ms(lost.from)),
            ("lost_to".to_owned(), item::ms(lost.to)),
            ("at".to_owned(), item::ms(lost.noted)),
            ("ttl".to_owned(), item::n((lost.noted + keep).secs())),
        ]);
        self.put(
            "record a span that the provider no longer lists",
            note,
            None,
        )
        .await?;
        Ok(())
    }

    /// Returns at most 100 spans of a source that the provider no longer lists, oldest first.
    pub async fn lost(self, source: &str) -> anyhow::Result<Vec<Lost>> {
        let answer = self
            .table
            .query()
            .key_condition_expression("pk = :pk AND begins_with(sk, :lost)")
            .expression_attribute_values(":pk", item::s(format!("SYNC#{source}")))
            .expression_attribute_values(":lost", item::s("LOST#"))
            .limit(100)
            .send()
            .await
            .context("read the spans that the provider no longer lists")?;
        let lost = answer.items().iter().filter_map(|note| {
            Some(Lost {
                from: item::time(note, "lost_from")?,
                to: item::time(note, "lost_to")?,
                noted: item::time(note, "at")?,
            })
        });
        Ok(lost.collect())
    }
}
