//! Stores rejected requests for a week, so that a wrong secret in the configuration loses no event.
//!
//! The requests are not verified, and any sender can send more of them. So each source has a daily
//! quota. One item counts the requests of a day. A conditional write updates the count before a
//! request is stored. When the quota is used up, the process makes no further calls on that day.
//! Each process also limits its own rate. A stored request enters the inbox only after a second
//! verification succeeds.
//!
//! A request that waits for a document (a certificate or a key) is not rejected. This module first
//! records the document, within separate limits (see `documents.rs`). It then stores the request if
//! a second quota allows it. So a flood of rejected requests cannot prevent the fetch of a
//! document.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | request | `Q#{source}#{yyyymmdd}#{0..3}` | `{received, 13 digits}#{16 hex digits}` |
//! | count of a day | `Q#{source}#{yyyymmdd}` | `N`; for requests that wait for a document, `W` |
//! | document that requests name | `Q#{source}#{yyyymmdd}#W` | see `documents.rs` |

mod documents;
mod headers;
mod quota;
mod rate_limiter;
mod read;
mod release;
mod request;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow};

use crate::aws::TableClient;
use crate::aws::secrets::Secret;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Packed, RouteAnswer};
use crate::inbox::table::{Returns, Table};
use crate::sources::Source;
use crate::webhook::envelope::Envelope;
use crate::webhook::event::EventId;
use crate::webhook::verify::{Reason, Wanted};
use documents::Noted;
use quota::Budget;
use rate_limiter::RateLimiter;

pub use documents::{DOCUMENTS, NAMED, Named, SENDERS, sender};
pub use quota::DailyQuota;
pub use release::{Entered, Verdict};
pub use request::{RejectedRequest, Released};

/// How long a rejected request is kept.
pub const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// A request that failed verification.
#[derive(Clone, Copy, Debug)]
pub struct NewRejection<'a> {
    pub source: &'a Source,
    pub envelope: &'a Envelope,
    pub reason: Reason,
    /// How the route of a trial answered the request. `None` outside a trial.
    pub route: Option<&'a RouteAnswer>,
    /// The secrets that the verification used.
    pub secrets: &'a [Secret],
}

/// The result of storing a rejected request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreResult {
    Stored(EventId),
    /// The request is not stored. Its document is recorded and will be fetched, so that a later
    /// delivery can be verified.
    OnlyNoted,
    /// Nothing was recorded. The sender has reached its hourly limit of documents, or too many
    /// senders have named documents.
    TooManyDocuments,
    /// The request is too large to store. The quota still counts it.
    TooLarge,
    /// The daily quota is used up.
    QuotaSpent,
    /// The process made no call to the table. Either the source stores no rejected requests, its
    /// quota is used up, the process has reached its rate limit, or a recent call failed.
    Skipped,
}

/// The table, and the rate limits of this process.
#[derive(Debug)]
pub struct RejectedRequests {
    table: Table,
    gate: Mutex<RateLimiter>,
    /// The rate limits for requests that wait for a document. Each sender has a separate limit.
    waiting: Mutex<RateLimiter>,
}

impl RejectedRequests {
    pub fn new(dynamodb: impl Into<TableClient>, table: impl Into<String>) -> Self {
        Self {
            table: Table::new(dynamodb, table),
            gate: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// Stores a rejected request if the quota allows it. Stops after the duration `within`. An
    /// error does not change the response to the sender, because the request stays rejected.
    pub async fn store(
        &self,
        refused: &NewRejection<'_>,
        now: UnixMillis,
        within: Duration,
    ) -> anyhow::Result<StoreResult> {
        if refused.reason == Reason::NotFetched
            && let Some(document) = refused.source.verifier.wanted(refused.envelope)
        {
            return self.store_waiting(refused, &document, now, within).await;
        }
        let source = &refused.source.name;
        let today = day(refused.envelope.received_at);
        if refused.source.quarantine.is_off() || !lock(&self.gate).permit(source, &today, now) {
            return Ok(StoreResult::Skipped);
        }
        let keeping = self.count_and_put(Budget::Refused, refused);
        let kept = tokio::time::timeout(within, keeping).await;
        let kept = kept.unwrap_or_else(|_| Err(anyhow!("the call timed out")));
        match &kept {
            Ok(StoreResult::QuotaSpent) => lock(&self.gate).is_full(source, &today, now),
            Err(_) => lock(&self.gate).failed(source, now),
            Ok(_) => {}
        }
        kept.context("add a request to the quarantine")
    }

    /// Records the document that a request waits for, even if the source stores no rejected
    /// requests. Then stores the request if the quota allows it.
    async fn store_waiting(
        &self,
        refused: &NewRejection<'_>,
        document: &Wanted,
        now: UnixMillis,
        within: Duration,
    ) -> anyhow::Result<StoreResult> {
        let source = &refused.source.name;
        let sender = sender(&refused.envelope.headers);
        let (sender_key, hour) = (format!("{source}#{sender}"), now.hour());
        if !lock(&self.waiting).permit(&sender_key, &hour, now) {
            return Ok(StoreResult::Skipped);
        }
        let at = refused.envelope.received_at;
        let keeping = async {
            let noted = self.note(source, &sender, document, at).await?;
            if noted == Noted::Full {
                return Ok(StoreResult::TooManyDocuments);
            }
            if noted == Noted::Only || refused.source.quarantine.is_off() {
                return Ok(StoreResult::OnlyNoted);
            }
            let kept = self.count_and_put(Budget::Waiting, refused).await?;
            Ok(match kept {
                StoreResult::Stored(id) => StoreResult::Stored(id),
                _ => StoreResult::OnlyNoted,
            })
        };
        let kept = tokio::time::timeout(within, keeping).await;
        let kept = kept.unwrap_or_else(|_| Err(anyhow!("the call timed out")));
        match &kept {
            Ok(StoreResult::TooManyDocuments) => {
                lock(&self.waiting).is_full(&sender_key, &hour, now);
            }
            Err(_) => lock(&self.waiting).failed(&sender_key, now),
            Ok(_) => {}
        }
        kept.context("record the document that a request waits for")
    }

    /// Counts the request before it is stored, so that every stored request is counted.
    async fn count_and_put(
        &self,
        budget: Budget,
        refused: &NewRejection<'_>,
    ) -> anyhow::Result<StoreResult> {
        let (source, envelope) = (refused.source, refused.envelope);
        let packed = Packed::new(&envelope.body);
        let place = request::Place::new(&source.name, envelope.received_at)?;
        let item = request::item(&place, refused, packed);
        let count = |bytes| {
            self.count(
                budget,
                &source.name,
                envelope.received_at,
                bytes,
                source.quarantine,
            )
        };
        let Some((item, size)) = item else {
            return Ok(if count(None).await? {
                StoreResult::TooLarge
            } else {
                StoreResult::QuotaSpent
            });
        };
        if !count(Some(size)).await? {
            return Ok(StoreResult::QuotaSpent);
        }
        self.table
            .put("store a rejected request", item, None, Returns::Nothing)
            .await?;
        Ok(StoreResult::Stored(place.id()))
    }
}

fn lock(gate: &Mutex<RateLimiter>) -> std::sync::MutexGuard<'_, RateLimiter> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the day of a quota, as `yyyymmdd` in UTC.
fn day(at: UnixMillis) -> String {
    at.hour()[..8].to_owned()
}
