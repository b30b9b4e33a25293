//! What an event carried is deleted; that it was there, and what was done, stays.
//!
//! The row keeps its key, the hash of its body and its history without texts, so that a second
//! delivery is still recognised. What outlives an erasure: backups of the table, for 35 days with
//! point-in-time recovery; and when the provider sends the event once more, a body that is too
//! large for the row, until its own time is over.

use anyhow::Context as _;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::types::ObjectVersion;

use super::{BodyAt, Item, Ledger, Moment, Row, State, Write, item, transition};
use crate::base::clock::UnixMillis;
use crate::webhook::event::EventKey;

/// What became of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// Nothing of its content is left.
    Gone,
    /// Somebody is at work on it, and has its body in hand. Nothing was erased.
    Processing,
    Missing,
}

/// Who erases, and why. Both stand in the row from then on.
#[derive(Clone, Copy, Debug)]
pub struct By<'b> {
    pub who: &'b str,
    pub why: &'b str,
}

impl Ledger {
    /// Erases what an event carried: its body in each version, headers, errors and notes. An event
    /// that is still open ends with it. To do it again does no harm, and makes up for a deletion
    /// that failed.
    pub async fn erase(
        &self,
        key: &EventKey,
        by: By<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Erased> {
        let pk = key.pk();
        let keep = self.retention(key.source()).rows;
        // A few times, for a row that moves on while we look at it.
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
                // Only now: whoever held the body before could still have been at work on it.
                self.delete_bodies(&row).await?;
                return Ok(Erased::Gone);
            }
        }
        Ok(Erased::Processing)
    }

    /// Each body that ever came under the key, also those of deliveries that were duplicates.
    async fn delete_bodies(&self, row: &Row) -> anyhow::Result<()> {
        let pk = row.key.pk();
        let mut place = None;
        loop {
            let page = self
                .table
                .query()
                .key_condition_expression("pk = :pk AND begins_with(sk, :body)")
                .expression_attribute_values(":pk", item::s(&pk))
                .expression_attribute_values(":body", item::s("B#"))
                .projection_expression("sk")
                .consistent_read(true)
                .set_exclusive_start_key(place)
                .send()
                .await
                .context("list the bodies of an event")?;
            for body in page.items() {
                let sk = item::text(body, "sk").unwrap_or_default();
                self.table.delete("delete a body", (&pk, sk)).await?;
            }
            place = page.last_evaluated_key;
            if place.is_none() {
                break;
            }
        }
        match (&self.bodies, &row.body_at) {
            (Some(_), at) => {
                self.delete_objects(&super::body::bucket_folder(&row.key))
                    .await?;
                match at {
                    // It may lie in the folder of the key that it came under.
                    BodyAt::Bucket(key) => self.delete_objects(key).await,
                    BodyAt::Inline | BodyAt::Row => Ok(()),
                }
            }
            (None, BodyAt::Bucket(_)) => {
                anyhow::bail!("the body is in the bucket, but no bucket is named")
            }
            (None, _) => Ok(()),
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

/// What of a row stays, without the texts that may speak of its content.
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
