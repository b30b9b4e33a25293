//! The ledger: one row for each event, and every change to that row.
//!
//! All rows of the inbox are in one DynamoDB table, which `template.yaml` defines. [`transition`]
//! defines the condition and the update of each change, as pure functions. If DynamoDB refuses a
//! change, the method that requested it finds the reason in the row that DynamoDB returns. These
//! modules also access the table, each for its own items: [`rejected`](crate::inbox::rejected),
//! [`keyring`](crate::inbox::keyring), [`fetch_back`](crate::inbox::fetch_back),
//! [`source_versions`](crate::inbox::source_versions),
//! [`breaker`](crate::delivery::breaker) and [`rates`](crate::delivery::rates). The modules of
//! [`monitoring`](crate::monitoring) access the table through this module.
//!
//! | item | pk | sk |
//! |---|---|---|
//! | state row | `E#{source}#{event id}` | `M` |
//! | answer of a destination | same | `A#{effect}#{run}#{attempt}`, see `delivery/answers.rs` |
//! | plan of a worker that waits for an approval | same | `P#{effect}#{hash}`, see `work_plan.rs` |
//! | body, and the request of its delivery (`rq`) | same | `B#{first 16 hex digits of its hash}` |
//! | marker of a content or signature that an event has used | `E#{source}#~{hash}` | `S` |
//! | copies and counts of quarantined events | `Q#{source}#…` | see `conflict.rs` |
//! | event of a replay plan | `R#{plan}` | `I#{pk of the event}` |
//! | audit log of operators | `LOG#{yyyymm}` | `{time}#{random}` |
//! | current version of the sources, each version | `CFG` | `CURRENT`, `V#{version}` |
//! | time until which the bodies of dead letters are held | `SYS` | `HELD` |
//! | checkpoint of the sweep over recent events | same | `FRESH` |
//! | heartbeat: when a task of backup-sync last ended | same | `HB#{task}` |
//! | effects that a rule has allowed in a window | same | `CAP#…`, see `effect_rate.rs` |
//! | paused sources, secrets in rotation | same | `PAUSE#{source}`, `ROTATION#{secret}` |
//! | number of events received in an hour | same | `STAT#{yyyymmddhh}` |
//! | hours with events | same | `HOURS#{yyyymmdd}`, see `time_index.rs` |
//! | last period of a source that the provider no longer lists | same | `LOST#{source}` |
//! | sync cursor | `SYNC#{source}` | `CURSOR` |
//! | coverage: events by arrival path | same | `DAY#{yyyymmdd}`; `TALLY` between two pages |
//! | usual interval between webhooks | same | `RHYTHM` |
//! | period that the provider no longer lists | same | `LOST#{start of the period}` |
//! | state of the provider's webhook endpoint | `SYNC#{source}` | `ENDPOINT` |
//! | drift report, lease of a reconciliation | `SYNC#{source}` | `RECON#{name}#{time}`, `TURN#{name}` |
//! | lock of an entity, its version guard | `O#{source}#{entity}` | `L`, `V` |
//! | order entry of an event in strict order | same | `P#{version} {hash of the event's key}` |
//! | replay plan, its events, plans of a month | `R#{plan}`, `PLANS#{yyyymm}` | see `plan.rs` |

mod arrivals;
mod audit_log;
mod body;
mod claim;
mod conflict;
mod cursor;
mod dead_letters;
mod dictionary;
mod effect_rate;
mod erase;
mod heartbeat;
mod hold;
mod keep;
mod operator_flag;
mod order;
pub(crate) mod pages;
mod plan;
mod policies;
pub(crate) mod read;
pub(crate) mod receive;
mod recent;
mod redelivery;
mod repetition;
mod replay;
mod request;
mod retention;
mod row;
mod search;
mod settle;
mod sweep;
mod sync_state;
mod time_index;
pub mod transition;
mod trial;
mod work;
mod work_plan;

use crate::aws::{Lazy, TableClient};
pub use arrivals::{OtherArrival, Seen};
pub(crate) use audit_log::entry as audit_entry;
pub use audit_log::{AuditAction, AuditEntry, AuditLog, Through};
pub use body::{Body, Content, MissingBody, StoredBody};
pub(crate) use body::{BodyLocation, Encoding, Packed, unpack};
pub use claim::{Claim, ExpiredLease, Lease};
pub use conflict::{Decided, MOST_OF_DAY, MOST_OF_ONE, TooManyConflicts};
pub use cursor::{Cursor, ResumePoint, SyncLease, SyncStore};
pub use effect_rate::CountedEffects;
pub use erase::{By, Erased};
pub use heartbeat::SourcesReport;
pub use hold::{Approval, Hold, HoldDecision, WHOLE_EVENT};
pub use operator_flag::{FlagKind, FlagResult, Operations, OperatorFlag};
pub use order::{EntityLock, EntityOrder, OrderEntry, Predecessor, VersionCheck};
pub use pages::{Cost, HourPart, Next, Page};
pub use plan::{
    KEEP_PLAN, Plan, PlanClaim, PlanEvent, PlanFacts, PlanLease, PlanLeftOut, PlanOutcome, PlanRun,
    PlanState, Plans, plan_digest, plan_id,
};
use policies::CurrentPolicies;
pub use read::{Listed, Waiting};
pub use receive::Received;
pub use recent::{Checksum, FoundBy, RecentEvents, SweepCheckpoint, recent_span};
pub use repetition::{Repetition, Repetitions};
pub use replay::{Again, Planned, Replayed};
pub use request::UnreadableRequest;
pub(crate) use request::{InRow, pack_as_text, unpack as unpack_request};
pub use row::{BadRow, BodyAt, EffectLease, EffectRow, EffectState, Moment, Row, State};
pub use search::Stored;
pub use settle::{REFUSED, Settled, Settlement};
pub use sweep::{Capacity, CapacityRequest, QueueCapacity, SweepDecision, SweepResult, SweepStore};
pub use sync_state::{Lost, SyncState};
pub(crate) use time_index::Counted;
use time_index::TimeIndex;
pub use time_index::{ActiveHours, FIRST, ReadLimits, Reading, SourceEntries, crowded};
use transition::Change;
pub use trial::{
    MOST_ANSWERS, NewerRow, RouteAnswer, RouteOutcome, TRIAL_SCHEMA, TrialAnswers, TrialRecord,
};
pub use work::{Intended, WorkClaim, WorkLease};
pub use work_plan::WorkPlan;

pub(crate) use crate::inbox::item;
pub use crate::inbox::item::Item;
pub(crate) use crate::inbox::table::Write;
use crate::inbox::table::{self, Returns, Table};

/// The version of rows that this code writes.
pub const SCHEMA: u32 = 1;

/// The newest row version that this code processes. In a row of the next version, this code reads
/// the attributes that it knows, and keeps all other attributes. Rows of a trial have the version
/// [`TRIAL_SCHEMA`] and are not processed. Rows of workers and rows that wait for an approval have the
/// version [`PARKED_SCHEMA`], and the processor does not claim them.
pub const NEWEST_SCHEMA: u32 = SCHEMA + 1;

/// The version of a row that waits for a worker or for an approval, or that a worker holds. Releases
/// that do not know such rows refuse this version.
pub const PARKED_SCHEMA: u32 = TRIAL_SCHEMA + 1;

const _: () = assert!(NEWEST_SCHEMA < PARKED_SCHEMA);

/// The sort keys of the answers that destinations gave begin with this.
pub(crate) const ANSWER_PREFIX: &str = "A#";

/// The table for the rows, and the bucket for bodies that are too large for the table.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) table: Table,
    bodies: Option<(Lazy<aws_sdk_s3::Client>, String)>,
    policies: CurrentPolicies,
    time: TimeIndex,
}

impl Ledger {
    /// `bodies` is the bucket for large bodies. Without it, large bodies cannot be stored or read.
    pub fn new(
        dynamodb: impl Into<TableClient>,
        table: impl Into<String>,
        bodies: Option<(aws_sdk_s3::Client, String)>,
    ) -> Self {
        Self {
            table: Table::new(dynamodb, table),
            bodies: bodies.map(|(s3, bucket)| (s3.into(), bucket)),
            policies: CurrentPolicies::default(),
            time: TimeIndex::default(),
        }
    }

    /// Adds a bucket for large bodies. The S3 client is created when it is first used.
    #[must_use]
    pub fn with_bucket(self, s3: Lazy<aws_sdk_s3::Client>, bucket: impl Into<String>) -> Self {
        Self {
            bodies: Some((s3, bucket.into())),
            ..self
        }
    }

    /// Returns the table, for modules that store other items of the inbox in the table.
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

    /// Puts an item if the condition holds. Without a condition the put replaces an existing item.
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

    /// Reads an immutable item. The first read is eventually consistent, at half the price. If it
    /// finds no item, a strongly consistent read follows.
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

/// Returns whether the error is from a failed DynamoDB call that can succeed later. Either DynamoDB
/// did not respond, or its rejection is not permanent. Returns `false` for an S3 error, such as
/// `AccessDenied` for a body, because that error concerns one event and not the table.
pub fn is_unavailable(error: &anyhow::Error) -> bool {
    table::is_failed_call(error) && !is_permanent_rejection(error)
}

/// Returns whether DynamoDB or a limit of the ledger permanently rejects this event. The table
/// itself is available.
pub fn is_permanent_rejection(error: &anyhow::Error) -> bool {
    error.is::<TooManyConflicts>() || error.is::<NewerRow>() || table::is_invalid_item(error)
}
