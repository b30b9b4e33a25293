//! The sync of a source as people look at it.

use super::SyncStore;
use anyhow::Context as _;

use super::{Item, SCHEMA, item};
use crate::base::clock::UnixMillis;

/// Where the sync of a source stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncState {
    /// When the last complete run began: everything before is in the ledger.
    pub cursor: Option<UnixMillis>,
    /// When it ended.
    pub ended: Option<UnixMillis>,
    /// Who is at it, and until when at most.
    pub lease: Option<(String, UnixMillis)>,
    /// A run that stopped before its end: when it began, and the earliest time that it asks for.
    pub paused: Option<(UnixMillis, UnixMillis)>,
    /// Leases that were ever taken.
    pub runs: u64,
}

/// A span of which the provider had nothing left to list when it was asked: what happened then and
/// did not come by webhook is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub from: UnixMillis,
    pub to: UnixMillis,
    /// When that was seen last.
    pub noted: UnixMillis,
}

impl SyncStore<'_> {
    /// Where the sync of a source stands; `None` if it never ran.
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

    /// Notes a span that no list reaches any more. One that begins at the same time is the same
    /// one, and has become longer.
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
        self.put("note what the sync cannot reach", note, None)
            .await?;
        Ok(())
    }

    /// The spans of a source that no list reached, the oldest first, at most a hundred.
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
            .context("read what the sync cannot reach")?;
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
