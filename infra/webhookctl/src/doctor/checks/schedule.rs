//! Checks whether the tasks of backup-sync run on schedule. Each task stores the time of its last
//! completion in the table.

use std::time::Duration;

use shared::base::timing::{ROUND_EVERY, SYNC_EVERY};
use shared::sources::Source;

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, SourceFacts, Unknown};
use crate::output::time::{age, duration};

const HOUR: Duration = Duration::from_secs(3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

const FIX: &str =
    "check the log of backup-sync and its schedule: aws scheduler get-schedule --name STACK-TASK";

/// How often a task runs, and for which sources. A task that no source needs does not have to run.
pub(crate) struct Task {
    pub(crate) name: &'static str,
    pub(crate) every: Duration,
    pub(crate) wanted: fn(&Source) -> bool,
}

/// The tasks of backup-sync. A reconciliation must complete at least once a week.
pub(crate) const TASKS: [Task; 5] = [
    Task::new("sweep", ROUND_EVERY, |_| true),
    Task::new("drain", ROUND_EVERY, |_| true),
    Task::new("sync", SYNC_EVERY, |_| true),
    Task::new("endpoints", HOUR, |source| source.endpoint.is_some()),
    Task::new("reconcile", WEEK, |source| !source.reconcile.is_empty()),
];

impl Task {
    const fn new(name: &'static str, every: Duration, wanted: fn(&Source) -> bool) -> Self {
        Self {
            name,
            every,
            wanted,
        }
    }

    /// Returns the time after which a task that did not run counts as stopped.
    pub(crate) fn grace(&self) -> Duration {
        self.every * 3
    }
}

pub(super) static SWEEP: Check = Check {
    name: "schedule.sweep",
    title: "The sweep runs every five minutes",
    why: "Only the sweep finds events whose message was lost, and sends messages for retries that \
          are due.",
    fix: FIX,
    judge: |facts| ran(facts, "sweep", ROUND_EVERY, |_| true),
};

pub(super) static DRAIN: Check = Check {
    name: "schedule.drain",
    title: "The drain runs every five minutes",
    why: "Only the drain moves spilled events into the ledger, before SQS deletes them after 14 \
          days, and moves old events from the backlog queue to the work queue.",
    fix: FIX,
    judge: |facts| ran(facts, "drain", ROUND_EVERY, |_| true),
};

pub(super) static SYNC: Check = Check {
    name: "schedule.sync",
    title: "The sync runs every 15 minutes",
    why: "Only the sync finds events that never arrived, and detects that a source is silent.",
    fix: FIX,
    judge: |facts| ran(facts, "sync", SYNC_EVERY, |_| true),
};

pub(super) static ENDPOINTS: Check = Check {
    name: "schedule.endpoints",
    title: "backup-sync checks the providers' subscriptions every hour",
    why: "A provider that disabled the endpoint sends no webhooks and no notification.",
    fix: FIX,
    judge: |facts| ran(facts, "endpoints", HOUR, |source| source.watched),
};

pub(super) static RECONCILE: Check = Check {
    name: "schedule.reconcile",
    title: "The reconciliation compares the providers' objects with yours",
    why: "Only a reconciliation finds changes that neither webhooks nor the sync reported.",
    fix: FIX,
    // A reconciliation must complete at least once a week.
    judge: |facts| ran(facts, "reconcile", WEEK, |source| source.reconciled),
};

fn ran(
    facts: &Facts,
    task: &str,
    every: Duration,
    wanted: fn(&SourceFacts) -> bool,
) -> Result<Finding, Unknown> {
    if !known(&facts.sources)?.iter().any(wanted) {
        return Ok(Finding::pass("no source uses this task"));
    }
    let grace = every * 3;
    let last = known(&facts.heartbeats)?.get(task);
    let said = |span: Duration| duration(span.as_secs());
    let want = format!("in the last {}", said(grace));
    match last {
        Some(last) if facts.now.since(*last) <= grace => {
            Ok(Finding::pass(format!("{} ago", age(last.0, facts.now.0))))
        }
        Some(last) => Ok(
            Finding::fail(format!("last completed {} ago", age(last.0, facts.now.0))).want(want),
        ),
        None => {
            let created = known(&facts.table)?.created;
            if created.is_some_and(|at| facts.now.since(at) < grace) {
                return Err(Unknown::Skipped("the stack is too new"));
            }
            Ok(Finding::fail("never completed").want(want))
        }
    }
}
