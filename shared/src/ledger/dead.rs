//! How many dead letters there are, from their part of the `work` index. The queue is never asked:
//! to look at a message of it is to receive it.

use anyhow::Context as _;
use aws_sdk_dynamodb::types::Select;

use super::transition::WORK_SHARDS;
use super::{Ledger, item};

impl Ledger {
    /// How many dead letters there are. Once it is more than `most`, no more are counted.
    pub async fn count_dead_letters(&self, most: u64) -> anyhow::Result<u64> {
        let mut count = 0;
        for shard in 0..WORK_SHARDS {
            let mut place = None;
            loop {
                let page = self
                    .dynamodb
                    .query()
                    .table_name(&self.table)
                    .index_name("work")
                    .key_condition_expression("gpk = :shard")
                    .expression_attribute_values(":shard", item::s(format!("D#{shard}")))
                    .select(Select::Count)
                    .set_exclusive_start_key(place)
                    .send()
                    .await
                    .context("count the dead letters")?;
                count += u64::try_from(page.count).unwrap_or(0);
                place = page.last_evaluated_key;
                if count > most {
                    return Ok(count);
                }
                if place.is_none() {
                    break;
                }
            }
        }
        Ok(count)
    }
}
