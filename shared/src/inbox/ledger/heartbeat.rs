//! When each task of backup-sync last came to its end: what is on a schedule and stops says nothing.

use super::Operations;
use std::collections::BTreeMap;

use anyhow::Context as _;

use super::{Item, SCHEMA, item};
use crate::base::clock::UnixMillis;

const PK: &str = "SYS";
const SK: &str = "HB#";

impl Operations<'_> {
    /// Notes that a task came to its end. Of two that end together either may be last.
    pub async fn beat(self, task: &str, now: UnixMillis) -> anyhow::Result<()> {
        let note = Item::from([
            ("pk".to_owned(), item::s(PK)),
            ("sk".to_owned(), item::s(format!("{SK}{task}"))),
            ("sv".to_owned(), item::n(SCHEMA)),
            ("at".to_owned(), item::ms(now)),
        ]);
        self.put("note that a task ended", note, None).await?;
        Ok(())
    }

    /// Each task that ever ended, and when it did last.
    pub async fn heartbeats(self) -> anyhow::Result<BTreeMap<String, UnixMillis>> {
        let answer = self
            .table
            .query()
            .key_condition_expression("pk = :pk AND begins_with(sk, :sk)")
            .expression_attribute_values(":pk", item::s(PK))
            .expression_attribute_values(":sk", item::s(SK))
            .send()
            .await
            .context("read when the tasks ended")?;
        let beats = answer.items().iter().filter_map(|note| {
            let task = item::text(note, "sk")?.strip_prefix(SK)?;
            Some((task.to_owned(), item::time(note, "at")?))
        });
        Ok(beats.collect())
    }
}
