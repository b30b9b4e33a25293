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

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::aws::Lazy;
use crate::sources::ordering::Order;
use crate::sources::policy::Retentions;
pub use arrivals::{OtherArrival, Seen};
pub use audit_log::{AuditAction, AuditEntry, AuditLog};
pub use body::{Body, MissingBody, StoredBody};
pub(crate) use body::{BodyLocation, Encoding, Packed, unpack};
pub use claim::{Claim, ExpiredLease, Lease};
pub use conflict::{Decided, MOST_OF_DAY, MOST_OF_ONE, TooManyConflicts};
pub use cursor::{Cursor, ResumePoint, SyncLease, SyncStore};
pub use erase::{By, Erased};
pub use operator_flag::{FlagKind, FlagResult, Operations, OperatorFlag};
pub use order::{EntityLock, EntityOrder, OrderEntry, Predecessor, VersionCheck};
pub use pages::{Cost, HourPart, Next, Page};
pub use plan::{
    KEEP_PLAN, Plan, PlanClaim, PlanEvent, PlanFacts, PlanLease, PlanLeftOut, PlanOutcome, PlanRun,
    PlanState, Plans, plan_digest, plan_id,
};
pub use read::{Listed, Waiting};
pub use receive::Received;
pub use recent::{Checksum, FoundBy, RecentEvents, SweepCheckpoint};
pub use replay::{Again, Planned, Replayed};
pub use row::{BadRow, BodyAt, EffectRow, EffectState, Moment, Row, State};
pub use search::Stored;
pub use settle::{Settled, Settlement};
pub use sweep::{Capacity, CapacityRequest, QueueCapacity, SweepDecision, SweepResult, SweepStore};
pub use sync_state::{Lost, SyncState};
use transition::Change;

pub(crate) use crate::inbox::item;
pub use crate::inbox::item::Item;
pub(crate) use crate::inbox::table::Write;
use crate::inbox::table::{self, Returns, Table};

/// The version of rows that this code writes.
pub const SCHEMA: u32 = 1;

/// The newest version that this code works on: of the next one, it knows what it needs and
/// keeps what it does not.
pub const NEWEST_SCHEMA: u32 = SCHEMA + 1;

/// The table with the rows, and the bucket with the bodies that are too large for it.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) table: Table,
    bodies: Option<(Lazy<aws_sdk_s3::Client>, String)>,
    retentions: Retentions,
    /// The sources whose events stand in line.
    strict: Arc<BTreeMap<String, Order>>,
}

impl Ledger {
    /// `bodies` is the bucket for large bodies; without it they cannot be kept or read.
    pub fn new(
        dynamodb: aws_sdk_dynamodb::Client,
        table: impl Into<String>,
        bodies: Option<(aws_sdk_s3::Client, String)>,
    ) -> Self {
        Self {
            table: Table::new(dynamodb, table),
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

    /// The table of this ledger, for the other items of the inbox.
    pub(crate) fn table(&self) -> &Table {
        &self.table
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
        self.table.update((pk, sk), change, Returns::All).await
    }

    /// Puts an item under a condition; without one the put replaces what is there.
    pub(crate) async fn put(
        &self,
        what: &'static str,
        item: Item,
        condition: Option<(&str, Item)>,
    ) -> anyhow::Result<Write> {
        self.table
            .put(what, item, condition, Returns::Refused)
            .await
    }

    /// Reads an item that is never changed under its key. Any replica may answer, at half the price;
    /// only an item that is missing there is read again from the leader.
    async fn immutable(&self, pk: &str, sk: &str) -> anyhow::Result<Option<Item>> {
        match self.table.get_eventually(READ, (pk, sk), None).await? {
            Some(item) => Ok(Some(item)),
            None => self.get(pk, sk).await,
        }
    }

    pub(crate) async fn get(&self, pk: &str, sk: &str) -> anyhow::Result<Option<Item>> {
        self.table.get(READ, (pk, sk)).await
    }
}

const READ: &str = "read an item of the ledger";

/// Whether DynamoDB failed: it did not answer, or refused what it would accept later. An error of S3,
/// such as `AccessDenied` on a body, concerns one event and says nothing about the table.
pub fn is_unavailable(error: &anyhow::Error) -> bool {
    table::is_failed_call(error) && !is_permanent_rejection(error)
}

/// Whether DynamoDB, or a limit of the ledger, rejects this event now and would reject it again. The
/// table itself is available.
pub fn is_permanent_rejection(error: &anyhow::Error) -> bool {
    error.is::<TooManyConflicts>() || table::is_invalid_item(error)
}
