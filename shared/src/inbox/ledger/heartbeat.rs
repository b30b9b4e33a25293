//! Heartbeats: when each backup-sync task last finished. A scheduled task that stops running
//! reports no error, so its heartbeat must be checked.

use super::Operations;
use std::collections::BTreeMap;

use anyhow::Context as _;

use super::{Item, SCHEMA, item};
use crate::base::clock::UnixMillis;

const PK: &str = "SYS";
const SK: &str = "HB#";

impl Operations<'_> {
    /// Records that a task finished. If two runs finish at the same time, either may be recorded
    /// last.
    pub async fn beat(self, task: &str, now: UnixMillis) -> anyhow::Result<()> {
        let heartbeat = Item::from([
            ("pk".to_owned(), item::s(PK)),
            ("sk".to_owned(), item::s(format!("{SK}{task}"))),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("at".to_owned(), item::ms(now)),
        ]);
        self.put("store the heartbeat of a task", heartbeat, None)
            .await?;
        Ok(())
    }

    /// Returns each task that has ever finished, with the time at which its last run finished.
    pub async fn heartbeats(self) -> anyhow::Result<BTreeMap<String, UnixMillis>> {
        let answer = self
            .table
            .query()
            .key_condition_expression("pk = :pk AND begins_with(sk, :sk)")
            .expression_attribute_values(":pk", item::s(PK))
            .expression_attribute_values(":sk", item::s(SK))
            .send()
            .await
            .context("read the heartbeats of the tasks")?;
        let beats = answer.items().iter().filter_map(|heartbeat| {
            let task = item::text(heartbeat, "sk")?.strip_prefix(SK)?;
            Some((task.to_owned(), item::time(heartbeat, "at")?))
        });
        Ok(beats.collect())
    }
}
