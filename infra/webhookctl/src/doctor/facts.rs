//! Facts about a deployment: `gather` reads them, `checks` judges them, and tests construct them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::SourcesReport;
use shared::inbox::source_versions::VersionFacts;

use super::Finding;
use crate::outage_tolerance::Outage;
use crate::output::count::Count;
use crate::target::Names;

/// A fact, or why it is unknown.
pub(crate) type Known<T> = Result<T, Unknown>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The local stack does not have this resource.
    NotHere,
    /// The context does not name this resource.
    Unnamed(&'static str),
    /// The permission for this IAM action is missing.
    Denied(String),
    /// The AWS request failed with this message.
    Failed(String),
    /// The fact was not read, for this reason.
    Skipped(&'static str),
}

#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub now: UnixMillis,
    pub context: String,
    pub names: Names,
    pub region: Option<String>,
    /// The account that the context names.
    pub expected_account: Option<String>,
    pub caller: Known<Caller>,
    pub account: Known<AccountLimit>,
    pub functions: Functions,
    pub mappings: Known<Vec<Mapping>>,
    pub queues: Queues,
    pub table: Known<Table>,
    /// The attribute that DynamoDB uses to expire rows.
    pub ttl: Known<Option<String>>,
    /// Whether the table can be restored to any second of the last 35 days.
    pub recovery: Known<bool>,
    pub alarms: Known<Vec<Alarm>>,
    pub secrets: Known<Vec<Stored>>,
    /// When each task of backup-sync last completed.
    pub heartbeats: Known<BTreeMap<String, UnixMillis>>,
    pub dead_letters: Known<Count>,
    pub sources: Known<Vec<SourceFacts>>,
    pub versions: Known<Versions>,
    /// Whether the operator may change rows.
    pub may_write: Known<()>,
}

#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub account: String,
    pub arn: String,
}

/// The concurrent executions of the account in this Region.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AccountLimit {
    pub concurrent: u64,
    /// What is not reserved for single functions.
    pub unreserved: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Functions {
    pub catcher: Known<Function>,
    pub processor: Known<Function>,
    /// The function for long actions, if the names of the stack contain one.
    pub long_processor: Option<Known<Function>>,
    pub backup_sync: Known<Function>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Function {
    pub timeout_s: u64,
    pub state: Option<String>,
    pub last_update: Option<String>,
    /// The version of Mitt that the function was deployed from.
    pub version: Option<String>,
    /// The architecture that Lambda starts the program on, such as `arm64`.
    pub architecture: Option<String>,
    pub environment: BTreeMap<String, String>,
}

/// The event source mapping of a queue that triggers a processor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapping {
    /// The ARN of the queue.
    pub queue_arn: String,
    pub state: String,
    pub window_s: u64,
    /// The maximum number of executions at once.
    pub max_concurrency: Option<u64>,
    pub reports_item_failures: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Queues {
    pub work_queue: Known<Queue>,
    pub backlog: Known<Queue>,
    /// The queue for long actions, if the names of the stack contain one.
    pub long: Option<Known<Queue>>,
    pub work_dead_letters: Known<Queue>,
    pub spill: Known<Queue>,
    pub ops_dead_letters: Known<Queue>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    pub url: String,
    pub arn: String,
    pub visibility_s: u64,
    pub retention_s: u64,
    pub redrive: Option<Redrive>,
    pub visible: u64,
    pub in_flight: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redrive {
    pub target_arn: String,
    pub max_receives: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub status: String,
    pub created: Option<UnixMillis>,
    /// Each index and its status.
    pub indexes: BTreeMap<String, String>,
    pub deletion_protection: Option<bool>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Alarm {
    pub name: String,
    pub metric: String,
    /// The values of its dimensions.
    pub about: Vec<String>,
    pub actions: usize,
    pub ringing: bool,
}

/// A stored secret. Its value is not read.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The kind of the secret: `ingress`, `egress` or `provider-api`.
    pub kind: String,
    pub name: String,
    pub slot: String,
    pub age: Duration,
}

/// A secret that a source needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wanted {
    pub kind: &'static str,
    pub name: String,
}

#[derive(Debug, Clone)]
pub(crate) struct SourceFacts {
    pub name: String,
    pub secrets: Vec<Wanted>,
    pub outage: Outage,
    /// The state of its sync, if it has one.
    pub sync: Option<&'static str>,
    /// A message such as `silent 36m20s, usually every 4m`, if the source is silent.
    pub silent: Option<String>,
    /// Whether backup-sync checks the subscription at the provider.
    pub watched: bool,
    pub reconciled: bool,
    /// The state of the subscription at the provider, if it is unhealthy.
    pub dark: Option<Dark>,
    /// A message such as `paused 3m ago by alice: a bad release`, if the source is paused.
    pub paused: Option<String>,
    /// A message, if the rotation of its secret is overdue.
    pub overdue: Option<String>,
    /// A message such as `action reports has a timeout of 5m`, if the source needs the function for
    /// long actions.
    pub long: Option<String>,
    /// Whether the source has a trial.
    pub trial: bool,
    /// What events of the last day lacked, each as a sentence.
    pub missing: Vec<String>,
    /// Destinations whose circuit breaker is open.
    pub breakers: Vec<OpenBreaker>,
}

/// The sources that operators applied, and the sources that the functions use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Versions {
    pub applied: Option<VersionFacts>,
    /// The newest report, and its time.
    pub report: Option<(UnixMillis, SourcesReport)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Dark {
    pub health: String,
    pub note: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct OpenBreaker {
    pub destination: String,
    pub until: Option<UnixMillis>,
    /// The last status, if the destination refuses every request.
    pub refused: Option<u16>,
}

impl Unknown {
    pub(super) fn finding(&self, facts: &Facts) -> Finding {
        let finding = Finding::not_checked(format!("not checked: {}", self.reason(&facts.context)));
        match self {
            Self::Unnamed(_) => finding.fix(format!(
                "webhookctl context add {} --refresh",
                facts.context
            )),
            _ => finding,
        }
    }

    /// Returns the reason, for the inbox of this name.
    pub(crate) fn reason(&self, context: &str) -> String {
        match self {
            Self::NotHere => "the local stack does not have this resource".to_owned(),
            Self::Unnamed(what) => format!("{context} does not name {what}"),
            Self::Denied(action) => format!("you lack the permission {action}"),
            Self::Failed(said) => said.clone(),
            Self::Skipped(why) => (*why).to_owned(),
        }
    }
}

impl Facts {
    /// Returns the IAM actions that AWS denied.
    pub(super) fn denied(&self) -> BTreeSet<&str> {
        let Functions {
            catcher,
            processor,
            long_processor,
            backup_sync,
        } = &self.functions;
        let mut all: Vec<Option<&Unknown>> = vec![
            self.caller.as_ref().err(),
            self.account.as_ref().err(),
            catcher.as_ref().err(),
            processor.as_ref().err(),
            backup_sync.as_ref().err(),
            self.mappings.as_ref().err(),
            self.table.as_ref().err(),
            self.ttl.as_ref().err(),
            self.recovery.as_ref().err(),
            self.alarms.as_ref().err(),
            self.secrets.as_ref().err(),
            self.heartbeats.as_ref().err(),
            self.dead_letters.as_ref().err(),
            self.sources.as_ref().err(),
            self.versions.as_ref().err(),
        ];
        all.extend(long_processor.iter().map(|known| known.as_ref().err()));
        let queues = self.queues.each().into_iter();
        all.extend(queues.map(|(_, queue)| queue.as_ref().err()));
        let denied = all
            .into_iter()
            .flatten()
            .filter_map(|unknown| match unknown {
                Unknown::Denied(action) => Some(action.as_str()),
                _ => None,
            });
        denied.collect()
    }
}

impl Queues {
    /// Returns each queue with its name in the template.
    pub(crate) fn each(&self) -> Vec<(&'static str, &Known<Queue>)> {
        let always = [
            ("WorkQueue", &self.work_queue),
            ("BacklogQueue", &self.backlog),
            ("WorkDeadLetters", &self.work_dead_letters),
            ("SpillQueue", &self.spill),
            ("OpsDeadLetters", &self.ops_dead_letters),
        ];
        let long = self.long.iter().map(|queue| ("LongQueue", queue));
        always.into_iter().chain(long).collect()
    }
}

impl Facts {
    /// Returns the queue and the function for long actions, if the stack has them.
    pub(super) fn long(&self) -> Result<Option<(&Queue, &Function)>, Unknown> {
        match (&self.queues.long, &self.functions.long_processor) {
            (Some(queue), Some(function)) => Ok(Some((known(queue)?, known(function)?))),
            _ => Ok(None),
        }
    }

    /// Returns whether backup-sync has a queue for long actions, if it reports that.
    pub(super) fn reported_long_actions(&self) -> Option<bool> {
        let versions = self.versions.as_ref().ok()?;
        versions.report.as_ref()?.1.long_actions
    }
}

/// Returns the fact, or the reason why it is unknown.
pub(super) fn known<T>(fact: &Known<T>) -> Result<&T, Unknown> {
    fact.as_ref().map_err(Clone::clone)
}
