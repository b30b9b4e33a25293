//! Items about the deployment: queues, scheduled tasks and replays.

use shared::inbox::ledger::{Plan, PlanState};

use super::About;
use crate::doctor::{Known, MOST_WAITING, Queue, TASKS};
use crate::output::count::plural;
use crate::output::time::{age, duration};
use crate::verbs::status::item::{Code, Item, Severity};

const QUEUES: &str = "webhookctl doctor --only queue";

pub(super) fn items(about: &About<'_>) -> Vec<Item> {
    let mut items = queues(about);
    items.extend(heartbeats(about));
    items.extend(plans(about));
    items
}

fn queues(about: &About<'_>) -> Vec<Item> {
    let queues = &about.facts.queues;
    let visible = |queue: &Known<Queue>| queue.as_ref().map_or(0, |queue| queue.visible);
    let mut items = Vec::new();
    let dead = visible(&queues.work_dead_letters);
    if dead > 0 {
        let text = "messages that the processor could not handle";
        let item = Item::new(Code::WorkDeadLetters, Severity::Warn, text);
        items.push(item.count(dead).command(QUEUES));
    }
    let spill = queues.spill.as_ref();
    let spilled = spill.map_or(0, |queue| queue.visible + queue.in_flight);
    if spilled > 0 {
        let text = "events wait in the spill queue for the table";
        let item = Item::new(Code::SpillWaiting, Severity::Warn, text);
        items.push(item.count(spilled).command(QUEUES));
    }
    let fed = [
        Some(&queues.work_queue),
        Some(&queues.backlog),
        queues.long.as_ref(),
    ];
    let waiting: u64 = fed.into_iter().flatten().map(visible).sum();
    if fed
        .into_iter()
        .flatten()
        .any(|queue| visible(queue) > MOST_WAITING)
    {
        let text = "messages wait for the processor";
        let item = Item::new(Code::QueueBacklog, Severity::Warn, text);
        items.push(item.count(waiting).command(QUEUES));
    }
    items
}

/// Returns an item for each task of backup-sync that should have run. A new stack has not run all of
/// them yet.
fn heartbeats(about: &About<'_>) -> Vec<Item> {
    let Ok(beats) = &about.facts.heartbeats else {
        return Vec::new();
    };
    let created = about.facts.table.as_ref().ok();
    let created = created.and_then(|table| table.created);
    let wanted = TASKS.iter().filter(|task| {
        let mut sources = about.inbox.config.sources();
        sources.any(task.wanted)
    });
    let items = wanted.filter_map(|task| {
        let last = beats.get(task.name).copied();
        let since = last.or(created);
        // Without the age of the table, a task that never ran cannot be told from a new stack.
        if about.now.since(since?) <= task.grace() {
            return None;
        }
        let every = duration(task.every.as_secs());
        let text = match last {
            Some(last) => format!(
                "{} last completed {} ago, runs every {every}",
                task.name,
                age(last.0, about.now.0)
            ),
            None => format!("{} never completed, runs every {every}", task.name),
        };
        let item = Item::new(Code::Heartbeat, Severity::Bad, text).since(since);
        Some(item.command(format!("webhookctl doctor --only schedule.{}", task.name)))
    });
    items.collect()
}

/// Returns an item for each replay that began and did not end, and that no process runs.
fn plans(about: &About<'_>) -> Vec<Item> {
    let plans = about.facts.plans.as_ref().ok();
    let stopped = plans
        .into_iter()
        .flatten()
        .filter(|plan| plan.standing(about.now) == PlanState::Running && !plan.is_held(about.now));
    stopped.map(stopped_plan).collect()
}

fn stopped_plan(plan: &Plan) -> Item {
    let left = plan.count.saturating_sub(plan.next);
    let last = plan.runs.last();
    let why = last.and_then(|run| run.end.as_deref());
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    let text = format!("{}, {} left{why}", plan.id, plural(left, "event"));
    let since = last
        .and_then(|run| run.to)
        .map(shared::base::clock::UnixMillis);
    Item::new(Code::PlanStopped, Severity::Warn, text)
        .count(left as u64)
        .since(since.or(Some(plan.made_at)))
        .command(format!("webhookctl replay status {}", plan.id))
}
