//! How much of a source's budget of a day is spent.

use anyhow::Context as _;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;

use super::{KEEP, RejectedRequests, day};
use crate::base::clock::UnixMillis;
use crate::inbox::ledger::{Item, SCHEMA, item};
use crate::sources::policy::{LARGEST_REFUSED, Limits};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// Requests that were refused.
    Refused,
    /// Requests that wait for a document. It is as large, and what is refused takes nothing of it.
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

/// The count of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DailyQuota {
    pub source: String,
    /// `yyyymmdd`
    pub day: String,
    /// Requests that took of the budget.
    pub requests: u32,
    /// Of these, those that were too large to keep.
    pub too_large: u32,
    pub bytes: u64,
    /// As they were when it was counted last.
    pub limits: Limits,
}

impl DailyQuota {
    /// Whether later requests of the day are turned away, or the next large one.
    pub fn is_spent(&self) -> bool {
        let limits = self.limits;
        self.requests >= limits.per_day
            || self.bytes + LARGEST_REFUSED as u64 > limits.bytes_per_day
    }
}

impl RejectedRequests {
    /// Takes one request out of the budget of its day, if it is in there. Without `bytes` it is
    /// one that is not kept.
    ///
    /// An SDK's second try of an update that had been applied takes it twice; the budget is an
    /// upper bound, and stays one.
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
        let values = Item::from([
            (":one".to_owned(), item::n(1)),
            (":big".to_owned(), item::n(u8::from(bytes.is_none()))),
            (":size".to_owned(), item::n(size)),
            (":most".to_owned(), item::n(limits.per_day)),
            (":room".to_owned(), item::n(room)),
            (":cap".to_owned(), item::n(limits.bytes_per_day)),
            (":sv".to_owned(), item::n(SCHEMA)),
            (":ttl".to_owned(), item::n((at + KEEP).secs())),
        ]);
        let answer = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .key("pk", item::s(pk(source, &day(at))))
            .key("sk", item::s(budget.sk()))
            .update_expression(
                "SET sv = :sv, #ttl = if_not_exists(#ttl, :ttl), maxn = :most, maxb = :cap \
                 ADD n :one, big :big, siz :size",
            )
            .condition_expression("attribute_not_exists(pk) OR (n < :most AND siz <= :room)")
            .expression_attribute_names("#ttl", "ttl")
            .set_expression_attribute_values(Some(values))
            .send()
            .await;
        match answer {
            Ok(_) => Ok(true),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(UpdateItemError::is_conditional_check_failed_exception) =>
            {
                Ok(false)
            }
            Err(error) => Err(error).context("count it in the quarantine"),
        }
    }

    /// What was counted on the day of this time, of the requests that were refused.
    pub async fn tally(&self, source: &str, at: UnixMillis) -> anyhow::Result<Option<DailyQuota>> {
        let day = day(at);
        let answer = self
            .dynamodb
            .get_item()
            .table_name(&self.table)
            .key("pk", item::s(pk(source, &day)))
            .key("sk", item::s(Budget::Refused.sk()))
            .send()
            .await
            .context("read a tally of the quarantine")?;
        Ok(answer.item.map(|stored| DailyQuota {
            source: source.to_owned(),
            day,
            requests: item::number(&stored, "n").unwrap_or(0),
            too_large: item::number(&stored, "big").unwrap_or(0),
            bytes: item::number(&stored, "siz").unwrap_or(0),
            limits: Limits {
                per_day: item::number(&stored, "maxn").unwrap_or(u32::MAX),
                bytes_per_day: item::number(&stored, "maxb").unwrap_or(u64::MAX),
            },
        }))
    }
}

fn pk(source: &str, day: &str) -> String {
    format!("Q#{source}#{day}")
}
