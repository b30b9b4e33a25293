//! Counts requests against the daily quota of a source.

use std::collections::BTreeSet;

use anyhow::Context as _;

use super::{KEEP, RejectedRequests, day};
use crate::base::calendar::Day;
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};
use crate::inbox::table::{Change, Returns};
use crate::sources::policy::{LARGEST_REFUSED, Limits};

/// The requests that a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// Rejected requests.
    Refused,
    /// Requests that wait for a document. This separate quota has the same size, and does not count
    /// rejected requests.
    Waiting,
}

impl Budget {
    fn sk(self) -> &'static str {
        match self {
            Self::Refused => "N",
            Self::Waiting => "W",
        }
    }
}

/// The counts of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DailyQuota {
    pub source: String,
    /// `yyyymmdd`
    pub day: String,
    /// The number of counted requests.
    pub requests: u32,
    /// The number of these requests that were too large to store.
    pub too_large: u32,
    pub bytes: u64,
    /// The limits at the time of the last count.
    pub limits: Limits,
}

impl DailyQuota {
    fn read(source: &str, day: String, stored: &Item) -> Self {
        Self {
            source: source.to_owned(),
            day,
            requests: item::number(stored, "n").unwrap_or(0),
            too_large: item::number(stored, "big").unwrap_or(0),
            bytes: item::number(stored, "siz").unwrap_or(0),
            limits: Limits {
                per_day: item::number(stored, "maxn").unwrap_or(u32::MAX),
                bytes_per_day: item::number(stored, "maxb").unwrap_or(u64::MAX),
            },
        }
    }

    /// Returns whether the quota is used up, or has too little space for a request of the maximum
    /// size.
    pub fn is_spent(&self) -> bool {
        let limits = self.limits;
        self.requests >= limits.per_day
            || self.bytes + LARGEST_REFUSED as u64 > limits.bytes_per_day
    }
}

impl RejectedRequests {
    /// Counts one request against the quota of its day. Returns `false` if the quota is used up. If
    /// `bytes` is `None`, the request is counted but not stored.
    ///
    /// If the SDK repeats an update that DynamoDB has already applied, the request counts twice.
    /// The number of stored requests can then be lower than the quota, but never higher.
    pub(super) async fn count(
        &self,
        budget: Budget,
        source: &str,
        at: UnixMillis,
        bytes: Option<u64>,
        limits: Limits,
    ) -> anyhow::Result<bool> {
        let size = bytes.unwrap_or(0);
        let Some(room) = limits.bytes_per_day.checked_sub(size) else {
            return Ok(false);
        };
        let change = Change::new(
            "count a rejected request",
            "attribute_not_exists(pk) OR (n < :most AND siz <= :room)",
            "SET sv = :sv, #ttl = if_not_exists(#ttl, :ttl), maxn = :most, maxb = :cap \
             ADD n :one, big :big, siz :size",
        )
        .named("#ttl", "ttl")
        .with(":one", item::n(1))
        .with(":big", item::n(u8::from(bytes.is_none())))
        .with(":size", item::n(size))
        .with(":most", item::n(limits.per_day))
        .with(":room", item::n(room))
        .with(":cap", item::n(limits.bytes_per_day))
        .with(":sv", item::n(SCHEMA))
        .with(":ttl", item::n((at + KEEP).secs()));
        let pk = pk(source, &day(at));
        let counted = self
            .table
            .update((&pk, budget.sk()), change, Returns::Nothing);
        Ok(counted.await?.is_applied())
    }

    /// Returns the counts of rejected requests for the day that contains `at`.
    pub async fn tally(&self, source: &str, at: UnixMillis) -> anyhow::Result<Option<DailyQuota>> {
        let day = day(at);
        let pk = pk(source, &day);
        let key = (&*pk, Budget::Refused.sk());
        let stored = self
            .table
            .get_eventually("read the daily quota", key, None)
            .await?;
        Ok(stored.map(|stored| DailyQuota::read(source, day, &stored)))
    }

    /// Returns the counts of rejected requests for the days that contain these times, oldest first.
    /// A day without rejected requests has none.
    pub async fn tallies(
        &self,
        source: &str,
        days: &[UnixMillis],
    ) -> anyhow::Result<Vec<DailyQuota>> {
        let counts = self.counts(source, days, &[Budget::Refused]).await?;
        let counts = counts.into_iter();
        let tallies = counts.map(|(day, stored)| DailyQuota::read(source, day, &stored));
        Ok(tallies.collect())
    }

    /// Returns the days that can have stored requests, of those that contain these times. The read is
    /// strongly consistent, so it has the day of every request that is stored.
    pub(super) async fn days_with_requests(
        &self,
        source: &str,
        days: &[UnixMillis],
        now: UnixMillis,
    ) -> anyhow::Result<BTreeSet<String>> {
        let budgets = [Budget::Refused, Budget::Waiting];
        // The count of a day expires with the first request of the day, before the others.
        let expiring = days
            .iter()
            .filter(|at| Day::of(**at).begins() + KEEP <= now);
        let expiring = expiring.map(|at| day(*at)).collect::<Vec<_>>();
        let counts = self.counts(source, days, &budgets).await?;
        let days = counts.into_iter().map(|(day, _)| day);
        Ok(days.chain(expiring).collect())
    }

    async fn counts(
        &self,
        source: &str,
        days: &[UnixMillis],
        budgets: &[Budget],
    ) -> anyhow::Result<Vec<(String, Item)>> {
        let days: BTreeSet<String> = days.iter().map(|at| day(*at)).collect();
        let keys = days.iter().flat_map(|day| {
            budgets.iter().map(|budget| {
                Item::from([
                    ("pk".to_owned(), item::s(pk(source, day))),
                    ("sk".to_owned(), item::s(budget.sk())),
                ])
            })
        });
        let keys: Vec<Item> = keys.collect();
        let read = self.table.batch(&keys, None, true).await;
        let (items, _) = read.context("read the daily quotas")?;
        let counts = items.into_iter().filter_map(|stored| {
            let (_, day) = item::text(&stored, "pk")?.rsplit_once('#')?;
            Some((day.to_owned(), stored))
        });
        let mut counts: Vec<(String, Item)> = counts.collect();
        counts.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(counts)
    }
}

fn pk(source: &str, day: &str) -> String {
    format!("Q#{source}#{day}")
}
