//! How long what is settled is kept, and that what is not settled stays whole.
//!
//! A row gets its time to expire when its event is done; a body has one from the start, because an
//! update of it costs as much as writing it again. So the body of an event that stays open, or
//! became a dead letter, has to be held back: the sweep does that long before its time.

use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_s3::types::{Tag, Tagging};
use futures::stream::{self, StreamExt as _};

use super::transition::{self, WORK_SHARDS};
use super::{BodyAt, Item, Ledger, Row, State, item};
use crate::base::clock::UnixMillis;
use crate::sources::policy::{BODY_DAYS, Retention, Retentions};
use crate::webhook::event::EventKey;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The tag that says which rule an object falls under.
const TAG: &str = "mitt-keep";

/// The value of the tag that no rule is for.
const HELD: &str = "open";

/// From this age on, the body of an open event is held back: half of the shortest time that a body
/// is ever kept, whatever its source says today. It said something else when the body came, perhaps.
const HOLD_AFTER: Duration = Duration::from_secs(36 * 3600);

/// Dead letters that are held at the same time.
const AT_ONCE: usize = 16;

/// How long one look at the dead letters may take. The next one goes on where it ended.
const LOOK_BUDGET: Duration = Duration::from_secs(60);

/// How often the dead letters are looked through for bodies to hold.
const EVERY: Duration = Duration::from_secs(3600);

/// How far a look goes back behind the one before: the index may have been late by this much.
const OVERLAP: Duration = Duration::from_secs(600);

/// Dead letters of one part of the index that are read at once.
const PAGE: i32 = 500;

impl Ledger {
    /// Keeps things as long as the sources say; otherwise as long as the default says.
    #[must_use]
    pub fn keeping(self, retentions: Retentions) -> Self {
        Self { retentions, ..self }
    }

    pub(crate) fn retention(&self, source: &str) -> Retention {
        self.retentions.get(source).copied().unwrap_or_default()
    }

    /// The tag of an object with a body of this source.
    pub(super) fn body_tag(&self, source: &str) -> String {
        format!("{TAG}={}", self.body_days(source))
    }

    fn body_days(&self, source: &str) -> u64 {
        self.retention(source).bodies.as_secs() / DAY.as_secs()
    }

    /// Holds the body of an event that has been open for long. The next look tries again what
    /// fails, and there are many before its time.
    pub(super) async fn hold_if_old(&self, row: &Row, now: UnixMillis) {
        if row.is_open()
            && now.since(row.received_at) > HOLD_AFTER
            && let Err(error) = self.hold_body(row).await
        {
            tracing::warn!(event.id = %row.id(), error = format!("{error:#}"), "could not hold a body");
        }
    }

    /// The body shall not expire.
    async fn hold_body(&self, row: &Row) -> anyhow::Result<()> {
        match (&row.body_at, &row.sha) {
            (BodyAt::Row, Some(sha)) => {
                let sk = super::body::body_sk(sha);
                let change = transition::hold_body();
                self.change_item(&row.key.pk(), &sk, change).await?;
            }
            (BodyAt::Bucket(key), _) => self.tag(key, HELD).await?,
            // In the row itself it stays as long as the row, which has no time to expire.
            (BodyAt::Inline, _) | (BodyAt::Row, None) => {}
        }
        Ok(())
    }

    /// The event is done: a body that was held back, or may have been, expires again.
    pub(super) async fn release_body(&self, row: &Row, now: UnixMillis) -> anyhow::Result<()> {
        let retention = self.retention(row.key.source());
        let old = now.since(row.received_at) > HOLD_AFTER;
        if !old && row.run == 0 && !row.key.is_conflicting() {
            return Ok(());
        }
        match (&row.body_at, &row.sha) {
            (BodyAt::Row, Some(sha)) => {
                let sk = super::body::body_sk(sha);
                let expires = (row.received_at + retention.bodies).max(now + DAY);
                let change = transition::release_body(expires);
                self.change_item(&row.key.pk(), &sk, change).await?;
            }
            (BodyAt::Bucket(key), _) => {
                let days = self.body_days(row.key.source()).to_string();
                self.tag(key, &days).await?;
            }
            (BodyAt::Inline, _) | (BodyAt::Row, None) => {}
        }
        Ok(())
    }

    /// The object waits for a decision, however long it takes.
    pub(super) async fn hold_object(&self, key: &str) -> anyhow::Result<()> {
        self.tag(key, HELD).await
    }

    /// No row points to the object: the rule with the fewest days removes it. What fails is
    /// removed later, by the rule that it has.
    pub(super) async fn drop_object(&self, key: &str) {
        if let Err(error) = self.tag(key, &BODY_DAYS[0].to_string()).await {
            tracing::warn!(
                error = format!("{error:#}"),
                "could not shorten the time of a body that belongs to no row"
            );
        }
    }

    async fn tag(&self, key: &str, value: &str) -> anyhow::Result<()> {
        let (s3, bucket) = self
            .bodies
            .as_ref()
            .context("a large body, but no bucket is configured")?;
        let tag = Tag::builder().key(TAG).value(value).build()?;
        let tags = Tagging::builder().tag_set(tag).build()?;
        let request = s3.put_object_tagging().bucket(bucket).key(key);
        match request.tagging(tags).send().await {
            Ok(_) => Ok(()),
            // There is nothing left that could expire.
            Err(error) if error.as_service_error().is_some_and(is_no_such_key) => Ok(()),
            Err(error) => Err(error).context("say how long a body in the bucket is kept"),
        }
    }

    /// A second delivery has put the body in the bucket again, under a rule: what is not settled
    /// stays out of all rules.
    pub(super) async fn hold_again(&self, row: &Row, now: UnixMillis) {
        let open = row.is_open() && now.since(row.received_at) > HOLD_AFTER;
        let held = open || matches!(row.state, State::DeadLetter | State::Quarantined);
        // A conflicting delivery was held before its row turned out to be settled.
        let let_go = row.state == State::Done && row.key.is_conflicting();
        if !(held || let_go) {
            return;
        }
        let days = self.body_days(row.key.source()).to_string();
        if let BodyAt::Bucket(key) = &row.body_at
            && let Err(error) = self.tag(key, if held { HELD } else { &days }).await
        {
            tracing::warn!(event.id = %row.id(), error = format!("{error:#}"), "could not hold a body");
        }
    }

    /// Holds the bodies of what became a dead letter since the last time, once an hour, the oldest
    /// first. Returns how many, or nothing when it was not yet time. What there is no time for is
    /// left to the next look; a row that cannot be read, or held, is in the log, and keeps no other
    /// one waiting.
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
        self.change_item("SYS", "HELD", transition::held_until(reached))
            .await?;
        Ok(Some(held))
    }

    /// Whether the body of a dead letter is held now.
    async fn hold_dead(&self, key: &EventKey) -> bool {
        let hold = async {
            let Some(row) = self.event(key).await? else {
                return Ok(false);
            };
            self.hold_body(&row).await.map(|()| true)
        };
        hold.await.unwrap_or_else(|error: anyhow::Error| {
            tracing::error!(event.key = %key, error = format!("{error:#}"), "could not hold the body of {key}");
            false
        })
    }

    /// Dead letters and when they died, the oldest first, and the place to go on from.
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
