//! `replay apply`: applies a plan, or resumes it from its last checkpoint.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{
    Plan, PlanClaim, PlanEvent, PlanLease, PlanRun, PlanState, plan_digest,
};

use super::confirm::confirmed;
use super::document::document;
use super::executor::{Engine, LEASE, Pace, Stop};
use super::outcome::{signed, words};
use super::progress::Watch;
use super::{named, queue, record, short, untouched};
use crate::audit::{Change, who};
use crate::cli::{QueueAt, ReplayApplyArgs};
use crate::interrupt::Interrupt;
use crate::output::time::{clock, duration};
use crate::output::{CliError, Exit, Printer};
use crate::target::Deployment;

pub(super) type Args = ReplayApplyArgs;

impl ReplayApplyArgs {
    /// Returns the options with the defaults of the command line, and with the given count.
    pub(super) fn usual(plan: String, confirm: Option<u64>) -> Self {
        Self {
            plan,
            confirm,
            rate: 10,
            canary: 5,
            stop_at: 10,
            no_wait: false,
            dry_run: false,
            timeout: 15 * 60,
            reason: None,
            accept_proposed: false,
            queue_at: QueueAt::default(),
        }
    }

    fn pace(&self) -> Pace {
        Pace {
            rate: self.rate.max(1),
            canary: self.canary,
            stop_at: self.stop_at,
            wait: !self.no_wait,
            timeout: Duration::from_secs(self.timeout),
        }
    }
}

pub(super) async fn apply(
    args: Args,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let plan = named(inbox, &args.plan, now).await?;
    if plan.state == PlanState::Finished {
        return ended(&plan, inbox, out).await;
    }
    applicable(&plan, now)?;
    let events = inbox.ledger.plans().plan_order(&plan.id).await?;
    unchanged(&plan, &events)?;
    if args.dry_run {
        return dry_run(&plan, &events, inbox, out).await;
    }
    inbox.may_write("replay")?;
    let queue = queue(inbox, &args.queue_at)?;
    let by = who(inbox).await?;
    confirmed(&plan, &args, &by, inbox, out)?;
    let pace = args.pace();
    let why = args.reason.as_deref().unwrap_or(&plan.facts.reason);
    let lease = begin(&plan, (&by, why), pace, inbox).await?;
    let (interrupt, watch) = match &inbox.caller.run {
        Some(run) => (
            run.interrupt.clone(),
            Watch::Told(Arc::clone(run), events.len()),
        ),
        None => (Interrupt::listen(), Watch::new(out)),
    };
    let parts = (&inbox.ledger, &queue, &*inbox.config);
    let mut engine = Engine::new(parts, lease, events, pace, interrupt, watch).await?;
    let stop = engine.run().await;
    engine.watch.end();
    let stop = match stop {
        Ok(stop) => stop,
        Err(error) => {
            // Without the release of the lease, the next `apply` would have to wait until the lease
            // expires. If the release fails, the first error is still the result.
            let _ = give_back(engine, "failed").await;
            return Err(error.context(format!(
                "plan {} stopped; resume it with `webhookctl replay apply {}`",
                plan.id, plan.id
            )));
        }
    };
    finish(engine, stop, inbox, out).await
}

/// Returns an error if the plan cannot be applied, or cannot be applied now.
fn applicable(plan: &Plan, now: UnixMillis) -> Result<(), CliError> {
    match plan.standing(now) {
        PlanState::Expired => {
            let ago = duration((now.0 - plan.good_until.0) / 1000);
            let message = format!("plan {} expired {ago} ago", plan.id);
            Err(CliError::refused("replay.expired", message)
                .tip(format!("webhookctl replay plan --like {}", plan.id)))
        }
        PlanState::Cancelled => {
            let by = plan
                .cancelled_by
                .as_deref()
                .map_or("another operator", short);
            let message = format!("plan {} was cancelled by {by}", plan.id);
            Err(CliError::refused("replay.cancelled", message)
                .tip(format!("webhookctl replay plan --like {}", plan.id)))
        }
        _ if plan.is_held(now) => Err(locked(plan, now)),
        PlanState::Planned | PlanState::Running | PlanState::Finished => Ok(()),
    }
}

fn locked(plan: &Plan, now: UnixMillis) -> CliError {
    let run = plan.runs.last();
    let by = run.map_or("another operator", |run| short(&run.by));
    let since = run.map_or(String::new(), |run| {
        let since = clock(run.from, now.0);
        format!(" since {}", since.split('.').next().unwrap_or(&since))
    });
    let message = format!(
        "plan {} is being applied by {by}{since} ({} of {})",
        plan.id, plan.next, plan.count
    );
    CliError::new("replay.locked", Exit::Busy, message)
        .tip(format!("webhookctl replay status {}", plan.id))
}

/// Checks that the stored events are those from which the plan was made.
fn unchanged(plan: &Plan, events: &[PlanEvent]) -> Result<(), CliError> {
    if events.len() == plan.count && plan_digest(events.iter()) == plan.facts.sha256 {
        return Ok(());
    }
    let message = format!(
        "the stored events of plan {} have changed since it was made",
        plan.id
    );
    Err(CliError::refused("replay.changed", message)
        .note("nothing was replayed")
        .tip(format!("webhookctl replay plan --like {}", plan.id)))
}

/// Writes the audit log entry, then takes the lease of the plan. The command does both before it
/// changes any event.
async fn begin(
    plan: &Plan,
    (by, why): (&str, &str),
    pace: Pace,
    inbox: &Deployment,
) -> anyhow::Result<PlanLease> {
    let now = UnixMillis::now();
    let change = Change {
        what: "replay.apply",
        why,
        selection: format!("{} of {}", plan.id, plan.facts.words),
        count: plan.count,
    };
    change.record_as(by, inbox).await?;
    let run = PlanRun {
        by: by.to_owned(),
        through: inbox.through(),
        from: now.0,
        rate: pace.rate,
        ..PlanRun::default()
    };
    let owner = format!("{by} {}", shared::inbox::ledger::plan_id()?);
    let claim = inbox
        .ledger
        .plans()
        .begin_plan(&plan.id, &owner, &run, now, LEASE);
    match claim.await? {
        PlanClaim::Leased(lease) => Ok(*lease),
        PlanClaim::Refused(plan) => {
            let now = UnixMillis::now();
            applicable(&plan, now)?;
            // Another process has finished or released the plan between the two calls.
            Err(locked(&plan, now).into())
        }
        PlanClaim::Missing => anyhow::bail!("plan {} no longer exists", plan.id),
    }
}

/// Counts the events that would run now. These are the events that have not changed since the plan
/// was made.
async fn dry_run(
    plan: &Plan,
    events: &[PlanEvent],
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let (mut run, mut changed) = (0, 0);
    for event in events.iter().skip(plan.next) {
        let row = inbox.ledger.event(&event.key).await?;
        let late = event.until.is_some_and(|until| now >= until);
        match row {
            Some(row) if row.epoch == event.epoch && !late => run += 1,
            _ => changed += 1,
        }
    }
    let text = format!(
        "{}: {run} would run again now; {changed} would be left out, because they have changed; \
         nothing was changed\n",
        plan.id
    );
    let document = serde_json::json!({"id": plan.id, "run": run, "changed": changed});
    out.document("replay.dry_run", &document, &plan.id, &text)?;
    Ok(Exit::Done)
}

/// Prints the outcome of a plan that is already finished.
async fn ended(plan: &Plan, inbox: &Deployment, out: &mut Printer) -> anyhow::Result<Exit> {
    let seen = record::seen(inbox, plan).await?;
    let exit = exit_of(Stop::Finished, seen.outcome.failed);
    let text = format!(
        "plan {} is finished: {}; nothing is left to do\n",
        plan.id,
        words(&seen.outcome)
    );
    let record = document(plan, Some(seen), None, UnixMillis::now());
    out.document("replay.run", &record, &plan.id, &text)?;
    Ok(exit)
}

fn exit_of(stop: Stop, failed: usize) -> Exit {
    match stop {
        Stop::Failed { .. } => Exit::Partial,
        Stop::Finished if failed > 0 => Exit::Partial,
        Stop::Finished => Exit::Done,
        Stop::Interrupted => Exit::Interrupted,
        Stop::TimedOut => Exit::Timeout,
        Stop::Lost => Exit::Busy,
    }
}

async fn give_back(engine: Engine<'_>, end: &str) -> anyhow::Result<()> {
    let (ledger, next) = (engine.ledger, engine.next);
    let lease = with_end(engine.lease, end);
    ledger.plans().pause_plan(lease, next).await
}

fn with_end(mut lease: PlanLease, end: &str) -> PlanLease {
    lease.run.to = Some(UnixMillis::now().0);
    lease.run.end = Some(end.to_owned());
    lease
}

async fn finish(
    engine: Engine<'_>,
    stop: Stop,
    inbox: &Deployment,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let (outcome, failures) = (engine.outcome(), engine.failures());
    let (next, unrung, from) = (engine.next, engine.unrung, engine.lease.run.from);
    let (id, count, limit) = (
        engine.lease.plan.id.clone(),
        engine.events.len(),
        engine.pace.stop_at,
    );
    let end = match stop {
        Stop::Finished => "finished".to_owned(),
        Stop::Failed { failed, of } => format!("stopped: {failed} of {of} failed again"),
        Stop::Interrupted if inbox.caller.run.is_some() => "stopped from the console".to_owned(),
        Stop::Interrupted => "stopped with Ctrl-C".to_owned(),
        Stop::TimedOut => "stopped waiting for outcomes (--timeout)".to_owned(),
        Stop::Lost => "lost the lease, or the plan was cancelled".to_owned(),
    };
    if next == count && stop != Stop::Lost {
        let lease = with_end(engine.lease, &end);
        inbox
            .ledger
            .plans()
            .finish_plan(lease, &outcome, UnixMillis::now())
            .await?;
    } else {
        give_back(engine, &end).await?;
    }
    if unrung > 0 {
        out.say(&format!(
            "{unrung} messages could not be sent; the sweep sends them within ten minutes."
        ));
    }
    let left = count - next;
    let took = duration((UnixMillis::now().0 - from) / 1000);
    let plan = inbox.ledger.plans().plan(&id).await?;
    let plan = plan.ok_or_else(|| anyhow::anyhow!("plan {id} no longer exists"))?;
    let exit = exit_of(stop, outcome.failed);
    let error = failures.first().map(|f| f.fingerprint.as_str());
    let tips = tips(stop, left, &id, error);
    let seen = record::Seen { outcome, failures };
    let text = text(stop, left, limit, &id, &took, &seen);
    let record = document(&plan, Some(seen), None, UnixMillis::now());
    out.document("replay.run", &record, &id, &text)?;
    for tip in tips {
        out.tip(&tip);
    }
    Ok(exit)
}

fn text(stop: Stop, left: usize, limit: u32, id: &str, took: &str, seen: &record::Seen) -> String {
    let mut text = match stop {
        Stop::Failed { failed, of } => format!(
            "stopped: {failed} of {of} failed again (limit {limit}%); {}; fix the cause, then apply \
             the plan again\n",
            untouched(left)
        ),
        Stop::Interrupted if left > 0 => format!(
            "stopped; queued events still run, {}; apply the plan again to continue\n",
            untouched(left)
        ),
        Stop::Lost => {
            format!("stopped: another operator has taken over or cancelled plan {id}\n")
        }
        Stop::Finished | Stop::TimedOut | Stop::Interrupted => {
            format!("{} in {took}\n", signed(&seen.outcome))
        }
    };
    for failure in &seen.failures {
        let _ = writeln!(text, "{}", record::failed(failure));
    }
    text
}

/// Returns the commands to run next. Each can be pasted as it is.
fn tips(stop: Stop, left: usize, id: &str, error: Option<&str>) -> Vec<String> {
    match (stop, error) {
        (Stop::Failed { .. }, _) => vec![format!("webhookctl replay apply {id}")],
        (Stop::Interrupted, _) if left > 0 => vec![format!("webhookctl replay apply {id}")],
        (Stop::Lost, _) => vec![format!("webhookctl replay status {id}")],
        (_, Some(error)) => vec![
            format!("webhookctl inbox list --error {error}"),
            format!("webhookctl replay show {id}"),
        ],
        (_, None) => vec![format!("webhookctl replay show {id}")],
    }
}
