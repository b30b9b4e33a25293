//! How long settled events are kept, and how the bodies of other events are *held*. A held body
//! does not expire.
//!
//! A row gets its expiry time when its event is done. A body gets its expiry time when it is
//! written, because a later update of a body costs as much as a second write. So if an event stays
//! open or becomes a dead letter, the expiry of its body must be removed. The sweep does this long
//! before the body expires.

use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_s3::types::{Tag, Tagging};
use futures::stream::{self, StreamExt as _};

use super::transition::{self, WORK_SHARDS};
use super::{BodyAt, Item, Ledger, Row, State, item};
use crate::base::clock::UnixMillis;
use crate::base::timing::KEEP_ROW;
use crate::sources::policy::{BODY_DAYS, Retention};
use crate::webhook::event::EventKey;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The tag that selects the lifecycle rule of an object.
const TAG: &str = "mitt-keep";

/// The tag value that matches no lifecycle rule, so the object does not expire.
const HELD: &str = "open";

/// The age from which the body of an open event is held: half of the shortest retention of bodies.
/// The limit is independent of the source's current setting, because the setting may have been
/// different when the body was stored.
const HOLD_AFTER: Duration = Duration::from_secs(36 * 3600);

/// The number of dead letters whose bodies are held in parallel.
const AT_ONCE: usize = 16;

/// The time limit of one scan of the dead letters. The next scan continues where this scan stopped.
const LOOK_BUDGET: Duration = Duration::from_secs(60);

/// How often the dead letters are scanned for bodies to hold.
const EVERY: Duration = Duration::from_secs(3600);

/// The overlap of a scan with the previous scan. The index can be behind the table by up to this
/// time.
const OVERLAP: Duration = Duration::from_secs(600);

/// The number of dead letters that one read of an index partition returns.
const PAGE: i32 = 500;

impl Ledger {
    pub(crate) fn retention(&self, source: &str) -> Retention {
        let policies = self.policies.now();
        policies.retentions.get(source).copied().unwrap_or_default()
    }

    /// Returns how long the figures of a source's syncs are kept. This is twice the retention of
    /// rows, because the retention of a row begins only when its event is done. The figures are
    /// small, so a shorter default of the source does not apply to them.
    pub(crate) fn keep_figures(&self, source: &str) -> Duration {
        self.retention(source).rows.max(KEEP_ROW) * 2
    }

    /// Returns the tag for objects that contain a body of this source.
    pub(super) fn body_tag(&self, source: &str) -> String {
        format!("{TAG}={}", self.body_days(source))
    }

    fn body_days(&self, source: &str) -> u64 {
        self.retention(source).bodies.as_secs() / DAY.as_secs()
    }

    /// Holds the body of an event that has been open for a long time. The next check retries a
    /// failed hold, and many checks follow before the body expires.
    pub(super) async fn hold_if_old(&self, row: &Row, now: UnixMillis) {
        if row.is_open()
            && now.since(row.received_at) > HOLD_AFTER
            && let Err(error) = self.hold_body(row).await
        {
            tracing::warn!(event.id = %row.id(), error = format!("{error:#}"), "could not remove the expiry of the body of an open event; the next check of the row tries again");
        }
    }

    /// Holds the body of an event that will be open for a long time, because it waits until `until`
    /// for an approval.
    pub(super) async fn hold_until(&self, row: &Row, until: UnixMillis) {
        if until.since(row.received_at) > HOLD_AFTER
            && let Err(error) = self.hold_body(row).await
        {
            tracing::warn!(event.id = %row.id(), error = format!("{error:#}"), "could not remove the expiry of the body of a held event; the body may expire before the event is approved");
        }
    }

    /// Removes the expiry of a body.
    async fn hold_body(&self, row: &Row) -> anyhow::Result<()> {
        match (&row.body_at, &row.sha) {
            (BodyAt::Row, Some(sha)) => {
                let sk = super::body::body_sk(sha);
                let change = transition::retention::hold_body();
                self.change_item(&row.key.pk(), &sk, change).await?;
            }
            (BodyAt::Bucket(key), sha) => {
                self.tag(key, HELD).await?;
                if let Some(sha) = sha {
                    let sk = super::body::body_sk(sha);
                    let change = transition::retention::hold_body();
                    self.change_item(&row.key.pk(), &sk, change).await?;
                }
            }
            // An inline body is kept as long as its row, which has no expiry time yet.
            (BodyAt::Inline, _) | (BodyAt::Row, None) => {}
        }
        Ok(())
    }

    /// Restores the expiry of the body of a done event, if the body may have been held.
    pub(super) async fn release_body(&self, row: &Row, now: UnixMillis) -> anyhow::Result<()> {
        let retention = self.retention(row.key.source());
        let old = now.since(row.received_at) > HOLD_AFTER;
        let was_held = !row.approvals.is_empty();
        if !old && row.run == 0 && !row.key.is_conflicting() && !was_held {
            return Ok(());
        }
        match (&row.body_at, &row.sha) {
            (BodyAt::Row, Some(sha)) => {
                let sk = super::body::body_sk(sha);
                let expires = (row.received_at + retention.bodies).max(now + DAY);
                let change = transition::retention::release_body(expires);
                self.change_item(&row.key.pk(), &sk, change).await?;
            }
            (BodyAt::Bucket(key), sha) => {
                let days = self.body_days(row.key.source()).to_string();
                self.tag(key, &days).await?;
                if let Some(sha) = sha {
                    let sk = super::body::body_sk(sha);
                    let expires = (row.received_at + retention.bodies).max(now + DAY);
                    let change = transition::retention::release_body(expires);
                    self.change_item(&row.key.pk(), &sk, change).await?;
                }
            }
            (BodyAt::Inline, _) | (BodyAt::Row, None) => {}
        }
        Ok(())
    }

    /// Removes the expiry of an object until an operator decides about its event.
    pub(super) async fn hold_object(&self, key: &str) -> anyhow::Result<()> {
        self.tag(key, HELD).await
    }

    /// Sets the shortest retention for an object that no row refers to. If this fails, the object
    /// keeps its current retention.
    pub(super) async fn drop_object(&self, key: &str) {
        if let Err(error) = self.tag(key, &BODY_DAYS[0].to_string()).await {
            tracing::warn!(
                error = format!("{error:#}"),
                "could not shorten the retention of a body without a row"
            );
        }
    }

    async fn tag(&self, key: &str, value: &str) -> anyhow::Result<()> {
        let (s3, bucket) = self.bodies.as_ref().context(
            "the body is in the bucket, but no bucket is configured; set MITT_BODY_BUCKET",
        )?;
        let tag = Tag::builder().key(TAG).value(value).build()?;
        let tags = Tagging::builder().tag_set(tag).build()?;
        let request = s3.put_object_tagging().bucket(bucket).key(key);
        match request.tagging(tags).send().await {
            Ok(_) => Ok(()),
            // The object no longer exists.
            Err(error) if error.as_service_error().is_some_and(is_no_such_key) => Ok(()),
            Err(error) => Err(error).context("set the retention tag of a body in the bucket"),
        }
    }

    /// Sets the retention tag again after a second delivery wrote the object with a tag that lets
    /// the object expire. The body of an event that is not done must not expire.
    pub(super) async fn hold_again(&self, row: &Row, now: UnixMillis) {
        let old = now.since(row.received_at) > HOLD_AFTER;
        let open = row.is_open() && (old || row.is_held());
        let held = open || matches!(row.state, State::DeadLetter | State::Quarantined);
        // The body of a conflicting delivery was held when it was written. Its row is already
        // `done`, so the body must expire again.
        let let_go = row.state == State::Done && row.key.is_conflicting();
        if !(held || let_go) {
            return;
        }
        let days = self.body_days(row.key.source()).to_string();
        if let BodyAt::Bucket(key) = &row.body_at
            && let Err(error) = self.tag(key, if held { HELD } else { &days }).await
        {
            tracing::warn!(event.id = %row.id(), error = format!("{error:#}"), "could not set the retention tag of a body in the bucket");
        }
    }

    /// Holds the bodies of new dead letters, oldest first, at most once an hour. Returns the number
    /// of held bodies, or `None` if the last scan was less than an hour ago. If the time limit is
    /// reached, the next scan handles the remaining dead letters. An unreadable row or a failed
    /// hold is logged, and the scan continues with the other dead letters.
    pub async fn hold_dead_letters(&self, now: UnixMillis) -> anyhow::Result<Option<u64>> {
        let last = self.get("SYS", "HELD").await?;
        let last = last.as_ref().and_then(|item| item::time(item, "at"));
        if last.is_some_and(|last| now.since(last) < EVERY) {
            return Ok(None);
        }
        let from = last.unwrap_or_default() - OVERLAP;
        let until = tokio::time::Instant::now() + LOOK_BUDGET;
        let (mut held, mut reached) = (0, now);
        for shard in 0..WORK_SHARDS {
            let mut place = None;
            loop {
                let (died, next) = self.died_between(shard, from, now, place).await?;
                let last = died.last().map(|(_, at)| *at);
                let holding = died.iter().map(|(key, _)| self.hold_dead(key));
                let done: Vec<bool> = stream::iter(holding)
                    .buffer_unordered(AT_ONCE)
                    .collect()
                    .await;
                held += done.iter().filter(|done| **done).count() as u64;
                place = next;
                if place.is_none() {
                    break;
                }
                if tokio::time::Instant::now() > until {
                    reached = reached.min(last.unwrap_or(from));
                    break;
                }
            }
        }
        self.change_item("SYS", "HELD", transition::retention::held_until(reached))
            .await?;
        Ok(Some(held))
    }

    /// Holds the body of a dead letter, and returns whether it is held.
    async fn hold_dead(&self, key: &EventKey) -> bool {
        let hold = async {
            let Some(row) = self.event(key).await? else {
                return Ok(false);
            };
            self.hold_body(&row).await.map(|()| true)
        };
        hold.await.unwrap_or_else(|error: anyhow::Error| {
            tracing::error!(event.key = %key, error = format!("{error:#}"), "could not remove the expiry of the body of {key}");
            false
        })
    }

    /// Returns dead letters, oldest first, with the time at which each became a dead letter. Also
    /// returns the position of the next page.
    async fn died_between(
        &self,
        shard: u8,
        from: UnixMillis,
        to: UnixMillis,
        place: Option<Item>,
    ) -> anyhow::Result<(Vec<(EventKey, UnixMillis)>, Option<Item>)> {
        let page = self
            .table
            .query()
            .index_name("work")
            .key_condition_expression("gpk = :shard AND gsk BETWEEN :from AND :to")
            .expression_attribute_values(":shard", item::s(format!("D#{shard}")))
            .expression_attribute_values(":from", item::ms(from.max(UnixMillis(0))))
            .expression_attribute_values(":to", item::ms(to))
            .limit(PAGE)
            .set_exclusive_start_key(place)
            .send()
            .await
            .context("list the dead letters")?;
        let found = page.items().iter().filter_map(|keys| {
            let key = EventKey::from_pk(item::text(keys, "pk")?)?;
            Some((key, item::time(keys, "gsk")?))
        });
        Ok((found.collect(), page.last_evaluated_key))
    }
}

fn is_no_such_key(
    error: &aws_sdk_s3::operation::put_object_tagging::PutObjectTaggingError,
) -> bool {
    aws_sdk_s3::error::ProvideErrorMetadata::code(error) == Some("NoSuchKey")
}
