//! Requests that were refused, kept for a week: a secret that was wrong on our side loses nothing.
//!
//! Nothing here is proven, and anybody can send more of it. So a source has a budget for each
//! day, counted in one item that is written under a condition before a request is kept; a
//! process that was told of a spent budget asks no more that day, and none asks more often than
//! its own allowance. What is here reaches the inbox only by being verified again.
//!
//! A request that waits for a document, a certificate or a key, is not refused. What it names is
//! noted first, within bounds of its own (see `named.rs`); the request is kept beside it if there is
//! room, out of a second budget. So no flood of refused requests keeps a document from being fetched.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | request | `Q#{source}#{yyyymmdd}#{0..3}` | `{received, 13 digits}#{16 hex digits}` |
//! | tally of a day | `Q#{source}#{yyyymmdd}` | `N`; of requests that wait for a document, `W` |
//! | document that requests name | `Q#{source}#{yyyymmdd}#W` | see `named.rs` |

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

use crate::aws::secrets::Secret;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::Packed;
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

/// How long a refused request is kept.
pub const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// A request that was refused.
#[derive(Clone, Copy, Debug)]
pub struct NewRejection<'a> {
    pub source: &'a Source,
    pub envelope: &'a Envelope,
    pub reason: Reason,
    /// The secrets that it was compared with.
    pub secrets: &'a [Secret],
}

/// What became of a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreResult {
    Stored(EventId),
    /// The request is not kept. What it names is noted and will be fetched, so that a later try
    /// can be judged.
    OnlyNoted,
    /// Its sender has named more documents than one may in an hour, or too many senders have named
    /// any. Nothing was noted.
    TooManyDocuments,
    /// It is larger than what is kept; the tally knows of it.
    TooLarge,
    /// The budget of its day is spent.
    QuotaSpent,
    /// Nobody was asked: the source keeps none, its budget is known to be spent, the process has
    /// used up its allowance, or the table failed a moment ago.
    Skipped,
}

/// The table, and what this process knows of its budgets.
#[derive(Debug)]
pub struct RejectedRequests {
    table: Table,
    gate: Mutex<RateLimiter>,
    /// That of the requests that wait for a document: per sender.
    waiting: Mutex<RateLimiter>,
}

impl RejectedRequests {
    pub fn new(dynamodb: aws_sdk_dynamodb::Client, table: impl Into<String>) -> Self {
        Self {
            table: Table::new(dynamodb, table),
            gate: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// Keeps a refused request if there is room for it, within the given time. An error concerns
    /// nobody but us: the request stays refused.
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
        let kept = kept.unwrap_or_else(|_| Err(anyhow!("it took too long")));
        match &kept {
            Ok(StoreResult::QuotaSpent) => lock(&self.gate).is_full(source, &today, now),
            Err(_) => lock(&self.gate).failed(source, now),
            Ok(_) => {}
        }
        kept.context("keep a refused request")
    }

    /// Notes which document a request waits for, also where nothing is kept of its source, and keeps
    /// the request if there is room.
    async fn store_waiting(
        &self,
        refused: &NewRejection<'_>,
        document: &Wanted,
        now: UnixMillis,
        within: Duration,
    ) -> anyhow::Result<StoreResult> {
        let source = &refused.source.name;
        let sender = sender(&refused.envelope.headers);
        let (door, hour) = (format!("{source}#{sender}"), now.hour());
        if !lock(&self.waiting).permit(&door, &hour, now) {
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
        let kept = kept.unwrap_or_else(|_| Err(anyhow!("it took too long")));
        match &kept {
            Ok(StoreResult::TooManyDocuments) => lock(&self.waiting).is_full(&door, &hour, now),
            Err(_) => lock(&self.waiting).failed(&door, now),
            Ok(_) => {}
        }
        kept.context("note the document that a request waits for")
    }

    /// The tally first: nothing is put that is not counted.
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

/// `yyyymmdd` in UTC: the day that a budget is of.
fn day(at: UnixMillis) -> String {
    at.hour()[..8].to_owned()
}
