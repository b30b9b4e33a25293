//! Counts of dead letters and quarantined events, from their partitions of the `work` index. The
//! counts do not use a queue, because a message in SQS can be read only by receiving it.

use anyhow::Context as _;
use aws_sdk_dynamodb::types::Select;

use super::transition::{QUARANTINED, WORK_SHARDS};
use super::{Ledger, item};

impl Ledger {
    /// Counts the dead letters. Counting stops when the count exceeds `most`.
    pub async fn count_dead_letters(&self, most: u64) -> anyhow::Result<u64> {
        let count = Box::pin(async {
            let mut count = 0;
            for shard in 0..WORK_SHARDS {
                if count <= most {
                    count += self.count_part(format!("D#{shard}"), most - count).await?;
                }
            }
            anyhow::Ok(count)
        });
        let count = count.await;
        count.context("count the dead letters")
    }

    /// Counts the quarantined events that wait for a decision. Counting stops when the count
    /// exceeds `most`.
    pub async fn count_quarantined(&self, most: u64) -> anyhow::Result<u64> {
        let count = Box::pin(self.count_part(QUARANTINED.to_owned(), most)).await;
        count.context("count the quarantined events")
    }

    async fn count_part(&self, part: String, most: u64) -> anyhow::Result<u64> {
        let (mut count, mut place) = (0, None);
        loop {
            let page = self
                .table
                .query()
                .index_name("work")
                .key_condition_expression("gpk = :part")
                .expression_attribute_values(":part", item::s(part.clone()))
                .select(Select::Count)
                .set_exclusive_start_key(place)
                .send()
                .await?;
            count += u64::try_from(page.count).unwrap_or(0);
            place = page.last_evaluated_key;
            if count > most || place.is_none() {
                return Ok(count);
            }
        }
    }
}
