//! Erases the content of an event, and keeps the record of its arrival and of its processing.
//!
//! The row keeps its key, the hash of its body, and its history without texts, so that Mitt still
//! recognizes a second delivery. Two copies can outlast an erasure. Backups of the table with
//! point-in-time recovery stay for 35 days. If the provider sends the event again and its body is
//! too large for the row, the new body stays until it expires.

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::types::ObjectVersion;

use super::work_plan::PLAN_PREFIX;
use super::{ANSWER_PREFIX, BodyAt, Item, Ledger, Moment, Row, State, Write, item, transition};
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

/// The result of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// The content of the event is deleted.
    Gone,
    /// A worker is processing the event and has its body in memory. Nothing was erased.
    Processing,
    Missing,
}

/// The operator who changes an event, and the reason. Both are stored in the row.
#[derive(Clone, Copy, Debug)]
pub struct By<'b> {
    pub who: &'b str,
    pub why: &'b str,
}

impl Ledger {
    /// Erases the content of an event: its body in each version, headers, errors, notes, the
    /// answers of destinations and the plans of workers. An open event becomes a dead letter. A repeated call is safe, and completes a deletion that failed.
    pub async fn erase(
        &self,
        key: &EventKey,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Erased> {
        let pk = key.pk();
        let keep = self.retention(key.source()).rows;
        // The loop repeats if the row changes between the read and the write.
        for _ in 0..4 {
            let Some(old) = self.get(&pk, "M").await? else {
                return Ok(Erased::Missing);
            };
            let row = Row::read(&old)?;
            if row.state == State::Processing {
                return Ok(Erased::Processing);
            }
            let change = transition::erase(&row, &Scrubbed::of(&row, &old, by, now), now, keep);
            if let Write::Applied(_) = self.change(&pk, change).await? {
                // The answers, plans and bodies are deleted only after the write. Until then, a
                // worker can claim the event and read its body into memory.
                self.delete_items(&row, ANSWER_PREFIX).await?;
                self.delete_items(&row, PLAN_PREFIX).await?;
                self.delete_bodies(&row).await?;
                return Ok(Erased::Gone);
            }
        }
        Ok(Erased::Processing)
    }

    /// Deletes each body that was ever stored under the key, including bodies of duplicate
    /// deliveries.
    async fn delete_bodies(&self, row: &Row) -> anyhow::Result<()> {
        self.delete_items(row, "B#").await?;
        match (&self.bodies, &row.body_at) {
            (Some(_), at) => {
                self.delete_objects(&super::body::bucket_folder(&row.key))
                    .await?;
                match at {
                    // The object may be in the folder of the key under which the event first
                    // arrived.
                    BodyAt::Bucket(key) => self.delete_objects(key).await,
                    BodyAt::Inline | BodyAt::Row => Ok(()),
                }
            }
            (None, BodyAt::Bucket(_)) => {
                anyhow::bail!(
                    "the body is in the bucket, but no bucket is configured; set MITT_BODY_BUCKET"
                )
            }
            (None, _) => Ok(()),
        }
    }

    /// Deletes the items of the event whose sort key begins with `prefix`.
    async fn delete_items(&self, row: &Row, prefix: &str) -> anyhow::Result<()> {
        let pk = row.key.pk();
        let mut place = None;
        loop {
            let page = self
                .table
                .query()
                .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
                .expression_attribute_values(":pk", item::s(&pk))
                .expression_attribute_values(":prefix", item::s(prefix))
                .projection_expression("sk")
                .consistent_read(true)
                .set_exclusive_start_key(place)
                .send()
                .await
                .context("list the items of an event")?;
            for found in page.items() {
                let sk = item::text(found, "sk").unwrap_or_default();
                let delete = self.table.delete("delete an item of an event", (&pk, sk));
                delete.await?;
            }
            place = page.last_evaluated_key;
            if place.is_none() {
                return Ok(());
            }
        }
    }

    async fn delete_objects(&self, folder: &str) -> anyhow::Result<()> {
        let Some((s3, bucket)) = &self.bodies else {
            return Ok(());
        };
        let (mut key, mut version) = (None, None);
        loop {
            let page = s3
                .list_object_versions()
                .bucket(bucket)
                .prefix(folder)
                .set_key_marker(key)
                .set_version_id_marker(version)
                .send()
                .await
                .context("list the versions of a body in the bucket")?;
            let markers = page.delete_markers().iter();
            let markers = markers.map(|marker| (marker.key(), marker.version_id()));
            let versions = page.versions().iter();
            let versions = versions.map(|v: &ObjectVersion| (v.key(), v.version_id()));
            for (key, version) in versions.chain(markers) {
                let request = s3.delete_object().bucket(bucket);
                let request = request.set_key(key.map(str::to_owned));
                let request = request.set_version_id(version.map(str::to_owned));
                request
                    .send()
                    .await
                    .context("delete a body from the bucket")?;
            }
            if page.is_truncated() != Some(true) {
                return Ok(());
            }
            (key, version) = (page.next_key_marker, page.next_version_id_marker);
        }
    }
}

/// The effects and the history of a row, without texts that may contain event content.
pub struct Scrubbed {
    pub(super) effects: AttributeValue,
    pub(super) history: AttributeValue,
}

impl Scrubbed {
    fn of(row: &Row, old: &Item, by: By<'_>, now: UnixMillis) -> Self {
        let effects = old.get("fx").and_then(|fx| fx.as_m().ok());
        let effects = effects.into_iter().flatten().map(|(name, effect)| {
            let mut entry = effect.as_m().cloned().unwrap_or_default();
            entry.remove("r");
            (name.clone(), AttributeValue::M(entry))
        });
        let quiet = row.history.iter().map(|moment| Moment {
            note: String::new(),
            ..moment.clone()
        });
        let this = Moment {
            at: now,
            what: "erased".to_owned(),
            attempt: row.attempts,
            lease_until: None,
            owner: by.who.chars().take(200).collect(),
            note: by.why.chars().take(200).collect(),
        };
        let history = quiet.chain([this]).map(|moment| moment.write());
        Self {
            effects: AttributeValue::M(effects.collect()),
            history: AttributeValue::L(history.collect()),
        }
    }
}
