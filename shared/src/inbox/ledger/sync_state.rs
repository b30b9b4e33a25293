//! The state of a source's sync, for `webhookctl`.

use std::collections::BTreeMap;

use super::SyncStore;
use anyhow::Context as _;

use super::{Cost, Item, SCHEMA, item};
use crate::base::clock::UnixMillis;

/// The sort keys of the spans that were noted last, below `SYS`.
const LOST: &str = "LOST#";

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

impl SyncState {
    pub(crate) fn read(row: &Item) -> Self {
        Self {
            cursor: item::time(row, "cur"),
            ended: item::time(row, "last_ok"),
            lease: item::text(row, "own")
                .map(str::to_owned)
                .zip(item::time(row, "lu")),
            paused: item::text(row, "page")
                .and(item::time(row, "pstart").zip(item::time(row, "pfrom"))),
            runs: item::number(row, "epoch").unwrap_or(0),
        }
    }
}

impl Lost {
    fn read(note: &Item) -> Option<Self> {
        Some(Self {
            from: item::time(note, "lost_from")?,
            to: item::time(note, "lost_to")?,
            noted: item::time(note, "at")?,
        })
    }
}

impl SyncStore<'_> {
    /// Returns the state of the sync of a source, or `None` if it never ran.
    pub async fn sync_state(self, source: &str) -> anyhow::Result<Option<SyncState>> {
        let cursor = self.get(&format!("SYNC#{source}"), "CURSOR").await?;
        Ok(cursor.as_ref().map(SyncState::read))
    }

    /// Records a span that the provider no longer lists. A longer span with the same start replaces
    /// the earlier record.
    pub async fn note_lost(self, source: &str, lost: Lost) -> anyhow::Result<()> {
        let keep = self.keep_figures(source);
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
        let mut last = note.clone();
        last.insert("pk".to_owned(), item::s("SYS"));
        last.insert("sk".to_owned(), item::s(format!("{LOST}{source}")));
        let what = "record a span that the provider no longer lists";
        self.put(what, note, None).await?;
        self.put(what, last, None).await?;
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
        Ok(answer.items().iter().filter_map(Lost::read).collect())
    }

    /// Returns the span that was noted last for each source. The items that
    /// [`note_lost`](Self::note_lost) writes below `SYS` make this one request for all sources.
    pub async fn last_lost(
        self,
        now: UnixMillis,
    ) -> anyhow::Result<(BTreeMap<String, Lost>, Cost)> {
        let (notes, cost) = self.items_below("SYS", LOST).await?;
        // DynamoDB deletes expired items with a delay.
        let kept = notes
            .iter()
            .filter(|note| item::number(note, "ttl").is_none_or(|at: i64| at > now.secs()));
        let lost = kept.filter_map(|note| {
            let source = item::text(note, "sk")?.strip_prefix(LOST)?;
            Some((source.to_owned(), Lost::read(note)?))
        });
        Ok((lost.collect(), cost))
    }
}
