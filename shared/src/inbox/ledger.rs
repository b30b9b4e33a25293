//! The ledger: one row for each event, and every change of it.
//!
//! All rows of the inbox are in one DynamoDB table, defined in `template.yaml`. What a change
//! asks for and does is in [`transition`], as pure functions; what a refused change means is
//! decided over rows, beside the method that made it. Besides this module only
//! [`quarantine`](crate::inbox::quarantine), [`keyring`](crate::inbox::keyring),
//! [`fetch_back`](crate::inbox::fetch_back), [`breaker`](crate::delivery::breaker) and [`rates`](crate::delivery::rates) talk to the table, each to items of its own.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | state row | `E#{source}#{event id}` | `M` |
//! | body | same | `B#{first 16 hex digits of its hash}` |
//! | body seen | `E#{source}#~{hash of the body}` | `S` |
//! | copies and tallies of quarantined events | `Q#{source}#…` | see `apart.rs` |
//! | event of a replay plan | `R#{plan}` | `I#{pk of the event}` |
//! | what operators did | `LOG#{yyyymm}` | `{time}#{random}` |
//! | bodies of dead letters | `SYS` | `HELD` |
//! | how far the sweep has looked by time | same | `FRESH` |
//! | when a round of backup-sync ended | same | `HB#{task}` |
//! | paused sources, secrets in rotation | same | `PAUSE#{source}`, `ROTATION#{secret}` |
//! | how many events came in an hour | same | `STAT#{yyyymmddhh}` |
//! | sync cursor | `SYNC#{source}` | `CURSOR` |
//! | which events came which way | same | `DAY#{yyyymmdd}`, of a run between two pages `TALLY` |
//! | rhythm of the webhooks | same | `RHYTHM` |
//! | time that no list reaches any more | same | `LOST#{when it begins}` |
//! | state of its endpoint | `SYNC#{source}` | `ENDPOINT` |
//! | drift report, whose turn it is | `SYNC#{source}` | `RECON#{name}#{time}`, `TURN#{name}` |
//! | lock of an entity, its guard | `O#{source}#{entity}` | `L`, `V` |
//! | place of an event in strict order | same | `P#{version} {hash of the event's key}` |
//! | replay plan, its events, the plans of a month | `R#{plan}`, `PLANS#{yyyymm}` | see `plan.rs` |

mod arrivals;
mod audit_log;
mod body;
mod claim;
mod conflict;
mod cursor;
mod dead_letters;
mod dictionary;
mod erase;
mod heartbeat;
pub(crate) mod item;
mod operator_flag;
mod order;
pub(crate) mod pages;
mod plan;
pub(crate) mod read;
pub(crate) mod receive;
mod recent;
mod redelivery;
mod replay;
mod retention;
mod row;
mod search;
mod settle;
mod sweep;
mod sync_state;
pub mod transition;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};

use crate::aws::Lazy;
use crate::sources::ordering::Order;
use crate::sources::policy::Retentions;
pub use arrivals::{OtherArrival, Seen};
pub use audit_log::{AuditAction, AuditEntry, AuditLog};
pub use body::{Body, NoBody, StoredBody};
pub(crate) use body::{BodyLocation, Encoding, Packed, unpack};
pub use claim::{Claim, ExpiredLease, Lease};
pub use conflict::{Decided, MOST_OF_DAY, MOST_OF_ONE, TooManyConflicts};
pub use cursor::{Cursor, ResumePoint, SyncLease};
pub use erase::{By, Erased};
pub use operator_flag::{FlagKind, FlagResult, OperatorFlag};
pub use order::{EntityLock, OrderEntry, Predecessor, VersionCheck};
pub use pages::{Cost, HourPart, Next, Page};
pub use plan::{
    KEEP_PLAN, Plan, PlanClaim, PlanEvent, PlanFacts, PlanLease, PlanLeftOut, PlanOutcome, PlanRun,
    PlanState, plan_digest, plan_id,
};
pub use read::{Listed, Waiting};
pub use receive::Received;
pub use recent::{Checksum, FoundBy, RecentEvents, SweepCheckpoint};
pub use replay::{Again, Planned, Replayed};
pub use row::{BadRow, BodyAt, EffectRow, EffectState, Moment, Row, State};
pub use search::Stored;
pub use settle::{Settled, Settlement};
pub use sweep::{Capacity, CapacityRequest, QueueCapacity, SweepDecision, SweepResult};
pub use sync_state::{Lost, SyncState};
use transition::Change;

/// The attributes of an item.
pub type Item = HashMap<String, AttributeValue>;

/// The version of rows that this code writes.
pub const SCHEMA: u32 = 1;

/// The newest version that this code works on: of the next one, it knows what it needs and
/// keeps what it does not.
pub const NEWEST_SCHEMA: u32 = SCHEMA + 1;

/// The table with the rows, and the bucket with the bodies that are too large for it.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) table: String,
    bodies: Option<(Lazy<aws_sdk_s3::Client>, String)>,
    retentions: Retentions,
    /// The sources whose events stand in line.
    strict: Arc<BTreeMap<String, Order>>,
}

/// What DynamoDB made of a conditional write.
pub(crate) enum Write {
    /// It was applied. The item as it is now, where that was asked for.
    Applied(Option<Item>),
    /// Its condition did not hold. The item as it stands, if there is one.
    Refused(Option<Item>),
}

impl Ledger {
    /// `bodies` is the bucket for large bodies; without it they cannot be kept or read.
    pub fn new(
        dynamodb: aws_sdk_dynamodb::Client,
        table: impl Into<String>,
        bodies: Option<(aws_sdk_s3::Client, String)>,
    ) -> Self {
        Self {
            dynamodb,
            table: table.into(),
            bodies: bodies.map(|(s3, bucket)| (s3.into(), bucket)),
            retentions: Retentions::default(),
            strict: Arc::default(),
        }
    }

    /// The same with a bucket whose client is made when a large body comes.
    #[must_use]
    pub fn with_bucket(self, s3: Lazy<aws_sdk_s3::Client>, bucket: impl Into<String>) -> Self {
        Self {
            bodies: Some((s3, bucket.into())),
            ..self
        }
    }

    /// The table that it is in, for those who keep items of their own there.
    pub(crate) fn table(&self) -> (&aws_sdk_dynamodb::Client, &str) {
        (&self.dynamodb, &self.table)
    }

    /// Applies a change to the state row `pk`.
    async fn change(&self, pk: &str, change: Change) -> anyhow::Result<Write> {
        self.change_item(pk, "M", change).await
    }

    pub(crate) async fn change_item(
        &self,
        pk: &str,
        sk: &str,
        change: Change,
    ) -> anyhow::Result<Write> {
        let what = change.what;
        let request = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .key("pk", item::s(pk))
            .key("sk", item::s(sk))
            .update_expression(change.update)
            .condition_expression(change.condition)
            .set_expression_attribute_values(
                Some(change.values).filter(|values| !values.is_empty()),
            )
            .set_expression_attribute_names(Some(change.names).filter(|names| !names.is_empty()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let answer = retry_on_transaction_conflict(async || request.clone().send().await).await;
        match answer {
            Ok(output) => Ok(Write::Applied(output.attributes)),
            Err(error) => match error.as_service_error() {
                Some(aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException(
                    refused,
                )) => Ok(Write::Refused(refused.item.clone())),
                _ => Err(error).context(what),
            },
        }
    }

    /// Puts an item under a condition; without one the put always holds.
    pub(crate) async fn put(
        &self,
        what: &'static str,
        item: Item,
        condition: Option<(&str, Item)>,
    ) -> anyhow::Result<Write> {
        let mut request = self
            .dynamodb
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        if let Some((condition, values)) = condition {
            request = request
                .condition_expression(condition)
                .set_expression_attribute_values(Some(values).filter(|values| !values.is_empty()));
        }
        let answer = retry_on_transaction_conflict(async || request.clone().send().await).await;
        match answer {
            Ok(_) => Ok(Write::Applied(None)),
            Err(error) => match error.as_service_error() {
                Some(aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException(
                    refused,
                )) => Ok(Write::Refused(refused.item.clone())),
                _ => Err(error).context(what),
            },
        }
    }

    /// An item that is never changed under its key, so that any replica's will do. Half the price,
    /// unless it was written a moment ago.
    async fn immutable(&self, pk: &str, sk: &str) -> anyhow::Result<Option<Item>> {
        match self.read(pk, sk, false).await? {
            Some(item) => Ok(Some(item)),
            None => self.get(pk, sk).await,
        }
    }

    pub(crate) async fn get(&self, pk: &str, sk: &str) -> anyhow::Result<Option<Item>> {
        self.read(pk, sk, true).await
    }

    async fn read(&self, pk: &str, sk: &str, consistent: bool) -> anyhow::Result<Option<Item>> {
        let answer = self
            .dynamodb
            .get_item()
            .table_name(&self.table)
            .key("pk", item::s(pk))
            .key("sk", item::s(sk))
            .consistent_read(consistent)
            .send()
            .await
            .context("read an item of the ledger")?;
        Ok(answer.item)
    }
}

/// Whether DynamoDB failed: it did not answer, or refused what it would accept later. An error of S3, such as
/// `AccessDenied` on a body, concerns one event and says nothing about the table.
pub fn is_unavailable(error: &anyhow::Error) -> bool {
    use aws_sdk_dynamodb::operation::{get_item, put_item, query, update_item};
    let of_dynamodb = error.is::<SdkError<put_item::PutItemError>>()
        || error.is::<SdkError<update_item::UpdateItemError>>()
        || error.is::<SdkError<get_item::GetItemError>>()
        || error.is::<SdkError<query::QueryError>>();
    of_dynamodb && !is_permanent_rejection(error)
}

/// Whether the event was refused as such, by DynamoDB or by a bound of ours: the ledger is there,
/// and would refuse it again.
pub fn is_permanent_rejection(error: &anyhow::Error) -> bool {
    use aws_sdk_dynamodb::operation::put_item::PutItemError;
    if error.is::<TooManyConflicts>() {
        return true;
    }
    let Some(error) = error.downcast_ref::<SdkError<PutItemError>>() else {
        return false;
    };
    matches!(error, SdkError::ConstructionFailure(_))
        || matches!(
            error.as_service_error().and_then(|error| error.code()),
            Some(
                "ValidationException"
                    | "SerializationException"
                    | "ItemCollectionSizeLimitExceededException"
            )
        )
}

/// A transaction on the same row, such as a replay, makes a write fail for a moment. The SDK
/// does not count that among what it tries again.
async fn retry_on_transaction_conflict<T, E, R>(
    send: impl AsyncFn() -> Result<T, SdkError<E, R>>,
) -> Result<T, SdkError<E, R>>
where
    E: ProvideErrorMetadata,
{
    let mut tries = 0;
    loop {
        match send().await {
            Err(error)
                if tries < 3
                    && error.as_service_error().and_then(|e| e.code())
                        == Some("TransactionConflictException") =>
            {
                tries += 1;
                tokio::time::sleep(
                    Duration::from_millis(20).mul_f64(1.0 + 4.0 * crate::base::backoff::jitter()),
                )
                .await;
            }
            answer => return answer,
        }
    }
}
