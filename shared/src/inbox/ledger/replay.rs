//! Replays settled or failed events, each once per plan.
//!
//! A plan stores one item for each of its events, under `R#{plan}`, `I#{pk of the event}`. That
//! item and the state row change in one transaction. An interrupted replay can therefore start
//! again, and skips the events that the plan has already replayed.

use super::Plans;
use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_dynamodb::types::{PutRequest, TransactWriteItem, Update, WriteRequest};

use super::transition::replay::{APPLIED, PLANNED};
use super::transition::{Change, replay as transition};
use super::{Item, Row, State, item};
use crate::base::clock::UnixMillis;
use crate::base::timing::FIRST_LOOK;
use crate::inbox::table::Transaction;
use crate::webhook::event::EventKey;

/// The maximum number of items in one request:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html>
const LARGEST_BATCH: usize = 25;

/// The maximum number of tries of a transaction that conflicts with another write.
const TRIES: u32 = 5;

/// How an event is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Again<'a> {
    /// The plan that contains the event.
    pub plan: &'a str,
    /// The fencing token of the event when it was planned.
    pub seen: u64,
    /// Whether the replay clears the recorded effects and uses new idempotency keys.
    pub new_effects: bool,
}

/// The result of a replay of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The event is in state `received` again, and waits for its work message.
    Again,
    /// This plan has already replayed the event.
    Before,
    /// The event is neither settled nor failed, has changed since it was planned, or was erased.
    Moved,
    /// The event no longer exists.
    Gone,
}

/// An event of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub key: EventKey,
    /// The fencing token of the event when it was planned.
    pub seen: u64,
    /// The position in the plan, from 0.
    pub place: u64,
    /// When the event was replayed, if it was.
    pub applied_at: Option<UnixMillis>,
}

impl Plans<'_> {
    /// Writes the events of a plan in order, each with its fencing token. A repeated call before
    /// the plan is applied is safe.
    pub async fn plan_events(
        self,
        plan: &str,
        events: &[(EventKey, u64)],
        expires: UnixMillis,
    ) -> anyhow::Result<()> {
        let items = events.iter().enumerate().map(|(place, (key, seen))| {
            Item::from([
                ("pk".to_owned(), item::s(plan_pk(plan))),
                ("sk".to_owned(), item::s(planned_sk(key))),
                ("st".to_owned(), item::s(PLANNED)),
                ("seen".to_owned(), item::n(seen)),
                ("n".to_owned(), item::n(place)),
                ("ttl".to_owned(), item::n(expires.secs())),
            ])
        });
        let puts = items.map(|item| {
            let put = PutRequest::builder().set_item(Some(item)).build()?;
            anyhow::Ok(WriteRequest::builder().put_request(put).build())
        });
        let puts = puts.collect::<anyhow::Result<Vec<_>>>()?;
        for batch in puts.chunks(LARGEST_BATCH) {
            self.put_all(batch.to_vec()).await?;
        }
        Ok(())
    }

    async fn put_all(self, mut batch: Vec<WriteRequest>) -> anyhow::Result<()> {
        let mut wait = Duration::from_millis(50);
        while !batch.is_empty() {
            let request = self.table.client().batch_write_item();
            let answer = request.request_items(self.table.name(), batch).send().await;
            let left = answer.context("write the events of a plan")?;
            let mut left = left.unprocessed_items.unwrap_or_default();
            batch = left.remove(self.table.name()).unwrap_or_default();
            if !batch.is_empty() {
                // DynamoDB throttled these items.
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(5));
            }
        }
        Ok(())
    }

    /// Returns the events of a plan, in the order of the plan.
    pub async fn planned(self, plan: &str) -> anyhow::Result<Vec<Planned>> {
        let mut found = Vec::new();
        let mut start = None;
        loop {
            let request = self.table.query();
            let page = request
                .key_condition_expression("pk = :plan AND begins_with(sk, :event)")
                .expression_attribute_values(":plan", item::s(plan_pk(plan)))
                .expression_attribute_values(":event", item::s("I#"))
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .send()
                .await
                .context("read the events of a plan")?;
            found.extend(page.items().iter().filter_map(planned));
            start = page.last_evaluated_key;
            if start.is_none() {
                break;
            }
        }
        found.sort_by_key(|event: &Planned| event.place);
        Ok(found)
    }

    /// Replays an event that is done, a dead letter or failed. The event starts a new run in state
    /// `received`, and its attempt count starts at 0. The caller sends the work message. If that message is lost, the sweep sends
    /// another one.
    pub async fn replay(
        self,
        key: &EventKey,
        again: &Again<'_>,
        now: UnixMillis,
    ) -> anyhow::Result<Replayed> {
        let pk = key.pk();
        for _ in 0..TRIES {
            let Some(old) = self.get(&pk, "M").await? else {
                return Ok(Replayed::Gone);
            };
            let row = Row::read(&old)?;
            if !may_be_replayed(&row, again) {
                return self.before_or_moved(key, again).await;
            }
            let (seen, look) = (again.seen, now + FIRST_LOOK);
            let change = transition::replay(&row, seen, again.plan, again.new_effects, look, now);
            let writes = [
                self.part(&pk, "M", change)?,
                self.part(
                    &plan_pk(again.plan),
                    &planned_sk(key),
                    transition::apply(now),
                )?,
            ];
            match self
                .table
                .transact("replay an event", writes.to_vec())
                .await?
            {
                Transaction::Applied => {
                    // The body may expire soon, so it must be held.
                    let state = State::Received;
                    self.hold_if_old(&Row { state, ..row }, now).await;
                    return Ok(Replayed::Again);
                }
                Transaction::Refused(_) => return self.before_or_moved(key, again).await,
                Transaction::Conflict => {}
            }
            let wait =
                Duration::from_millis(20).mul_f64(1.0 + 4.0 * crate::base::backoff::jitter());
            tokio::time::sleep(wait).await;
        }
        anyhow::bail!(
            "event {key} changed during each try, so it was not replayed; run the command again"
        )
    }

    async fn before_or_moved(self, key: &EventKey, again: &Again<'_>) -> anyhow::Result<Replayed> {
        let item = self.get(&plan_pk(again.plan), &planned_sk(key)).await?;
        let item = item.with_context(|| format!("plan {} does not contain {key}", again.plan))?;
        let applied = item::text(&item, "st") == Some(APPLIED);
        Ok(if applied {
            Replayed::Before
        } else {
            Replayed::Moved
        })
    }

    fn part(self, pk: &str, sk: &str, change: Change) -> anyhow::Result<TransactWriteItem> {
        let update = Update::builder()
            .table_name(self.table.name())
            .key("pk", item::s(pk))
            .key("sk", item::s(sk))
            .update_expression(change.update)
            .condition_expression(change.condition)
            .set_expression_attribute_values(Some(change.values))
            .set_expression_attribute_names(Some(change.names).filter(|names| !names.is_empty()))
            .build()?;
        Ok(TransactWriteItem::builder().update(update).build())
    }
}

/// Returns whether an event can be replayed. The event must be settled or failed, and unchanged
/// since the plan was made.
fn may_be_replayed(row: &Row, again: &Again<'_>) -> bool {
    let settled = matches!(row.state, State::Done | State::DeadLetter | State::Failed);
    settled
        && row.epoch == again.seen
        && row.erased_at.is_none()
        // This code cannot claim a row of a newer version, so the event would stay open forever.
        && !row.is_too_new()
}

fn plan_pk(plan: &str) -> String {
    format!("R#{plan}")
}

fn planned_sk(key: &EventKey) -> String {
    format!("I#{}", key.pk())
}

fn planned(item: &Item) -> Option<Planned> {
    let applied = item::text(item, "st")? == APPLIED;
    Some(Planned {
        key: EventKey::from_pk(item::text(item, "sk")?.strip_prefix("I#")?)?,
        seen: item::number(item, "seen")?,
        place: item::number(item, "n")?,
        applied_at: item::time(item, "at").filter(|_| applied),
    })
}
