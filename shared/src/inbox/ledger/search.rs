//! Reads of many events, for `webhookctl`.

use super::pages::{Cost, HourPart, Next, Page};
use super::read::listed;
use super::{Body, BodyAt, Item, Ledger, Listed, Row, UnreadableRequest};
use crate::webhook::context::KeptRequest;
use crate::webhook::event::EventKey;

/// A row, and the item from which its body is read.
#[derive(Clone, Debug)]
pub struct Stored {
    pub row: Row,
    item: Item,
}

impl Ledger {
    /// Returns the next events of an hour part, newest first, or oldest first if `forward`.
    pub async fn hour_page(
        &self,
        part: &HourPart,
        forward: bool,
        limit: usize,
        start: Option<Next>,
    ) -> anyhow::Result<Page<Listed>> {
        let limit = i32::try_from(limit.clamp(1, 1000))?;
        let page = self.of_hour(part, forward, Some(limit), start).await?;
        Ok(page.read(listed))
    }

    /// Returns the rows of events, unordered and eventually consistent. Events without a row are
    /// left out.
    pub async fn rows(&self, keys: &[EventKey]) -> anyhow::Result<(Vec<Stored>, Cost)> {
        let (items, cost) = self.state_rows(keys, None).await?;
        let rows = items.into_iter().map(|item| {
            let row = Row::read(&item)?;
            Ok(Stored { row, item })
        });
        Ok((rows.collect::<anyhow::Result<_>>()?, cost))
    }

    /// Returns the body of an event whose row was read with [`rows`](Self::rows), or `None` if the
    /// body is missing or unreadable.
    pub async fn body_of(&self, stored: &Stored) -> anyhow::Result<(Option<Body>, Cost)> {
        let inline = stored.row.body_at == BodyAt::Inline;
        let body = self.body(&stored.row, &stored.item).await?.ok();
        // Bodies are stored compressed, so this is an upper bound.
        let units = u32::try_from(stored.row.body_len.div_ceil(4096)).unwrap_or(u32::MAX);
        let cost = Cost {
            calls: 1,
            read_units: f64::from(units.max(1)),
        };
        Ok((body, if inline { Cost::default() } else { cost }))
    }
    /// Returns the request of an event whose row was read with [`rows`](Self::rows); `None` if it is
    /// not stored, or cannot be read.
    pub async fn request_of(&self, stored: &Stored) -> anyhow::Result<(Option<KeptRequest>, Cost)> {
        let inline = stored.row.body_at == BodyAt::Inline;
        let request = match self.stored_request(&stored.row, &stored.item).await {
            Err(error) if error.is::<UnreadableRequest>() => None,
            request => request?,
        };
        let units = match &stored.row.body_at {
            // Beside a body in the bucket, the row has only the request.
            BodyAt::Bucket(_) => 1,
            BodyAt::Inline | BodyAt::Row => {
                u32::try_from(stored.row.body_len.div_ceil(4096)).unwrap_or(u32::MAX)
            }
        };
        let cost = Cost {
            calls: 1,
            read_units: f64::from(units.max(1)),
        };
        Ok((request, if inline { Cost::default() } else { cost }))
    }
}
