//! Requests that were refused, kept for a week: a secret that was wrong on our side loses nothing.
//!
//! Nothing here is proven, and anybody can send more of it. So a source has a budget for each
//! day, counted in one item that is written under a condition before a request is kept; a
//! process that was told of a spent budget asks no more that day, and none asks more often than
//! its own allowance. What is here reaches the inbox only by being verified again.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | request | `Q#{source}#{yyyymmdd}#{0..3}` | `{received, 13 digits}#{16 hex digits}` |
//! | tally of a day | `Q#{source}#{yyyymmdd}` | `N` |

mod gate;
mod headers;
mod held;
mod read;
mod release;
mod tally;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow};

use crate::clock::Millis;
use crate::config::Source;
use crate::envelope::Envelope;
use crate::event::EventId;
use crate::ledger::Packed;
use crate::secrets::Secret;
use crate::verify::Reason;
use gate::Gate;

pub use headers::is_credential;
pub use held::{Held, Released};
pub use release::{Entered, Verdict};
pub use tally::Tally;

/// How long a refused request is kept.
pub const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// The largest body that is kept, as it is stored.
const LARGEST_BODY: usize = 64 * 1024;

/// The largest item that is kept: the body, and the head with what API Gateway lets through.
pub const LARGEST: usize = LARGEST_BODY + 24 * 1024;

/// What of a source's refused requests is kept in a day. Zero in either keeps nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub per_day: u32,
    /// Bytes, as they are stored.
    pub bytes_per_day: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_day: 200,
            bytes_per_day: 2_000_000,
        }
    }
}

impl Limits {
    pub fn is_off(self) -> bool {
        self.per_day == 0 || self.bytes_per_day == 0
    }
}

/// A request that was refused.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    pub source: &'a Source,
    pub envelope: &'a Envelope,
    pub reason: Reason,
    /// The secrets that it was compared with.
    pub secrets: &'a [Secret],
}

/// What became of a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Here(EventId),
    /// It is larger than what is kept; the tally knows of it.
    TooLarge,
    /// The budget of its day is spent.
    Full,
    /// Nobody was asked: the source keeps none, its budget is known to be spent, the process has
    /// used up its allowance, or the table failed a moment ago.
    Unasked,
}

/// The table, and what this process knows of its budgets.
#[derive(Debug)]
pub struct Quarantine {
    dynamodb: aws_sdk_dynamodb::Client,
    table: String,
    gate: Mutex<Gate>,
}

impl Quarantine {
    pub fn new(dynamodb: aws_sdk_dynamodb::Client, table: impl Into<String>) -> Self {
        Self {
            dynamodb,
            table: table.into(),
            gate: Mutex::default(),
        }
    }

    /// Keeps a refused request if there is room for it, within the given time. An error concerns
    /// nobody but us: the request stays refused.
    pub async fn keep(
        &self,
        refused: &Refused<'_>,
        now: Millis,
        within: Duration,
    ) -> anyhow::Result<Kept> {
        let source = &refused.source.name;
        if refused.source.quarantine.is_off() || !self.gate().lets_in(source, now) {
            return Ok(Kept::Unasked);
        }
        let kept = tokio::time::timeout(within, self.count_and_put(refused)).await;
        let kept = kept.unwrap_or_else(|_| Err(anyhow!("it took too long")));
        match &kept {
            Ok(Kept::Full) => self.gate().is_full(source, refused.envelope.received_at),
            Err(_) => self.gate().failed(source, now),
            Ok(_) => {}
        }
        kept.context("keep a refused request")
    }

    /// The tally first: nothing is put that is not counted.
    async fn count_and_put(&self, refused: &Refused<'_>) -> anyhow::Result<Kept> {
        let (source, envelope) = (refused.source, refused.envelope);
        let packed = Packed::new(&envelope.body);
        let place = held::Place::new(&source.name, envelope.received_at)?;
        let item = held::item(&place, refused, packed);
        let count =
            |bytes| self.count(&source.name, envelope.received_at, bytes, source.quarantine);
        let Some((item, size)) = item else {
            return Ok(if count(None).await? {
                Kept::TooLarge
            } else {
                Kept::Full
            });
        };
        if !count(Some(size)).await? {
            return Ok(Kept::Full);
        }
        self.dynamodb
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .send()
            .await
            .context("put it into the quarantine")?;
        Ok(Kept::Here(place.id()))
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `yyyymmdd` in UTC: the day that a budget is of.
fn day(at: Millis) -> String {
    at.hour()[..8].to_owned()
}
