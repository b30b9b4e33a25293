//! Reads for operators. Each read uses a key or an index, and never scans the table.

use super::pages::HourPart;
use super::transition::WORK_SHARDS;
use super::{Body, FIRST, Item, Ledger, MissingBody, Row, item};
use crate::base::calendar;
use crate::base::clock::UnixMillis;
use crate::webhook::event::{EventId, EventKey};

/// The number of partitions for each source and hour in the `time` index.
pub(crate) const TIME_SHARDS: u8 = 4;

/// A time range that can have only a few events of a source.
const NARROW_MS: i64 = 1000;

/// An event as listed in the `time` index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: EventId,
    pub key: EventKey,
    pub received_at: UnixMillis,
    pub kind: String,
}

/// The kinds of events in the `work` index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Events that are not settled.
    Open,
    /// Dead letters.
    Dead,
    /// Quarantined events. All of them are in the first partition.
    Quarantined,
}

impl Waiting {
    /// The number of partitions of the index.
    pub const SHARDS: u8 = WORK_SHARDS;
}

impl Ledger {
    /// Returns the events in one partition of the `work` index, from all sources, and whether there
    /// are more than `limit`.
    pub async fn waiting(
        &self,
        what: Waiting,
        shard: u8,
        limit: i32,
    ) -> anyhow::Result<(Vec<EventKey>, bool)> {
        let page = self.waiting_page(what, shard, UnixMillis(0), Some(limit), None);
        let page = page.await?;
        Ok((page.found, page.next.is_some()))
    }

    /// Returns the state row of an event.
    pub async fn event(&self, key: &EventKey) -> anyhow::Result<Option<Row>> {
        let Some(item) = self.get(&key.pk(), "M").await? else {
            return Ok(None);
        };
        Ok(Some(Row::read(&item)?))
    }

    /// Returns whether an event has a row. The read is eventually consistent, at half the price. Do
    /// not base a decision on the result.
    pub async fn has(&self, key: &EventKey) -> anyhow::Result<bool> {
        let pk = key.pk();
        let found = self
            .table
            .get_eventually("look up an event", (&pk, "M"), Some("pk"));
        Ok(found.await?.is_some())
    }

    /// Returns the exact body of an event.
    pub async fn event_body(
        &self,
        key: &EventKey,
    ) -> anyhow::Result<Option<Result<Body, MissingBody>>> {
        let Some(item) = self.get(&key.pk(), "M").await? else {
            return Ok(None);
        };
        let row = Row::read(&item)?;
        self.body(&row, &item).await.map(Some)
    }

    /// Returns at most `limit` events of a source that were received from `from` to `to`, newest
    /// first. Both times are inclusive and within one UTC hour.
    pub async fn received_in_hour(
        &self,
        source: &str,
        from: UnixMillis,
        to: UnixMillis,
        limit: usize,
    ) -> anyhow::Result<Vec<Listed>> {
        let (mut found, at_once) = (Vec::new(), i32::try_from(limit.clamp(1, 1000))?);
        for part in HourPart::of(source, from, to) {
            let (mut start, mut of_part) = (None, 0);
            loop {
                let page = self.of_hour(&part, false, Some(at_once), start).await?;
                of_part += page.found.len();
                found.extend(page.found.iter().filter_map(listed));
                start = page.next;
                if start.is_none() || of_part >= limit {
                    break;
                }
            }
        }
        found.sort_by(|a: &Listed, b: &Listed| b.id.cmp(&a.id));
        found.truncate(limit);
        Ok(found)
    }

    /// Returns at most `limit` events of the given sources whose id begins with `prefix`. The
    /// prefix must contain at least the hour.
    pub async fn with_id_prefix(
        &self,
        sources: &[&str],
        prefix: &str,
        limit: usize,
    ) -> anyhow::Result<Vec<Listed>> {
        let Some((from, to)) = EventId::times(prefix) else {
            return Ok(Vec::new());
        };
        let text = prefix
            .strip_prefix("evt_")
            .unwrap_or(prefix)
            .to_ascii_uppercase();
        let active = self.active_hours(from, to).await?;
        let most = if to.0 - from.0 < NARROW_MS {
            FIRST
        } else {
            1000
        };
        let mut found = Vec::new();
        for span in calendar::cut(from, to) {
            let entries = self.entries_of_all(&active, sources, span, most).await?;
            let entries = entries.into_iter().flat_map(|of_source| of_source.found);
            found.extend(entries.filter(|event| event.id.as_str()[4..].starts_with(&text)));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}

pub(crate) fn listed(keys: &Item) -> Option<Listed> {
    let key = EventKey::from_pk(item::text(keys, "pk")?)?;
    let (time, kind) = item::text(keys, "tsk")?.split_once('#')?;
    let received_at = UnixMillis(time.parse().ok()?);
    Some(Listed {
        id: EventId::new(received_at, &key),
        key,
        received_at,
        kind: kind.to_owned(),
    })
}
