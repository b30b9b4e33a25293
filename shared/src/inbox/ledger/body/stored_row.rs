//! The body row of an event: its body, if that is neither in the state row nor in the bucket, and
//! the request that the event came in. Both stay as the first delivery stored them.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;

use super::MissingBody;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{BodyAt, InRow, Item, Lease, Ledger, Row, Write, item, request};
use crate::webhook::context::KeptRequest;
use crate::webhook::event::{Event, EventKey};

/// A later delivery renews the expiry of a body that is older than this. Without the limit, every
/// duplicate would cost another request.
const RENEWED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What an event consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The exact bytes of the body.
    pub body: Bytes,
    /// `None` if Mitt fetched the event, if its source stores no requests, or if an older version
    /// stored it.
    pub request: Option<KeptRequest>,
}

impl Ledger {
    /// Puts a body row, unless it exists: an earlier delivery of the event, with the same body, has
    /// stored it, and its request stays.
    ///
    /// A second delivery must not give a held body an expiry time. It must not hold an expiring
    /// body either: the state row may already be settled.
    pub(super) async fn put_body_row(
        &self,
        event: &Event,
        mut body: Item,
        held: bool,
        now: UnixMillis,
    ) -> anyhow::Result<()> {
        const PUT: &str = "put the body into the ledger";
        let expires = now + self.retention(event.key.source()).bodies;
        if held {
            body.insert("held".into(), item::n(1));
        } else {
            body.insert("ttl".into(), item::n(expires.secs()));
        }
        let is_new = ("attribute_not_exists(sk)", Item::new());
        let put = self.put(PUT, body, Some(is_new)).await?;
        let Write::Refused(Some(mut old)) = put else {
            return Ok(());
        };
        let ttl: Option<i64> = item::number(&old, "ttl");
        let is_old = ttl.is_some_and(|ttl| ttl < (expires - RENEWED_AFTER).secs());
        if held || !is_old {
            return Ok(());
        }
        // The state row may have expired before the body. The event is then new, and needs its body
        // for the whole time. A put, because the catcher may not update body rows.
        old.insert("ttl".into(), item::n(expires.secs()));
        let expiring = ("attribute_not_exists(held)", Item::new());
        self.put(PUT, old, Some(expiring)).await?;
        Ok(())
    }

    /// Reads the content of a leased event.
    pub async fn leased_content(
        &self,
        lease: &Lease,
    ) -> anyhow::Result<Result<Content, MissingBody>> {
        self.content(&lease.row, &lease.item).await
    }

    /// Reads the state row of an event, and its content.
    pub async fn event_content(
        &self,
        key: &EventKey,
    ) -> anyhow::Result<Option<(Row, Result<Content, MissingBody>)>> {
        let Some(item) = self.get(&key.pk(), "M").await? else {
            return Ok(None);
        };
        let row = Row::read(&item)?;
        let content = self.content(&row, &item).await?;
        Ok(Some((row, content)))
    }

    /// Reads the request of an event, but not a body in the bucket.
    pub async fn event_request(&self, key: &EventKey) -> anyhow::Result<Option<KeptRequest>> {
        let Some(item) = self.get(&key.pk(), "M").await? else {
            return Ok(None);
        };
        self.stored_request(&Row::read(&item)?, &item).await
    }

    /// Reads the request of an event from its state row or its body row.
    pub(in crate::inbox::ledger) async fn stored_request(
        &self,
        row: &Row,
        state_row: &Item,
    ) -> anyhow::Result<Option<KeptRequest>> {
        let body_row = self.row_with_request(row).await?;
        request_of(row, body_row.as_ref().unwrap_or(state_row))
    }

    async fn content(
        &self,
        row: &Row,
        state_row: &Item,
    ) -> anyhow::Result<Result<Content, MissingBody>> {
        let Some(sha) = row.sha.filter(|_| row.erased_at.is_none()) else {
            return Ok(Err(MissingBody::Gone));
        };
        let body_row = self.row_with_request(row).await?;
        let body = self.stored_or_bucket(row, &sha, state_row, body_row.as_ref());
        let body = match body.await? {
            Ok(body) => body,
            Err(missing) => return Ok(Err(missing)),
        };
        let request = request_of(row, body_row.as_ref().unwrap_or(state_row))?;
        Ok(Ok(Content {
            body: body.0,
            request,
        }))
    }

    /// The body row, if the event has one. Beside a body in the bucket, it has only the request.
    async fn row_with_request(&self, row: &Row) -> anyhow::Result<Option<Item>> {
        match (&row.body_at, &row.sha) {
            (BodyAt::Row | BodyAt::Bucket(_), Some(sha)) if row.erased_at.is_none() => {
                self.body_row(row, sha).await
            }
            _ => Ok(None),
        }
    }
}

fn request_of(row: &Row, stored: &Item) -> anyhow::Result<Option<KeptRequest>> {
    let in_row = InRow {
        headers: &row.headers,
        content_type: row.content_type.as_deref(),
    };
    let request = item::bytes(stored, "rq").map(|packed| request::unpack(packed, in_row));
    request.transpose().context("read the request of an event")
}
