//! Timeouts that depend on each other.

use shared::base::timing::{
    AFTER_ACTION, CLOCK_MARGIN, EFFECT_TIMEOUT, KEEP_BUDGET, LEASE, LONGEST_ACTION, SEND_BUDGET,
};

use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Unknown};

/// The visibility timeout of a queue as a multiple of the function timeout, as AWS recommends.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
const TIMES: u64 = 6;

pub(super) static CHAIN: Check = Check {
    name: "timing.chain",
    title: "Effect < lease ≤ function timeout < visibility",
    why: "If a message becomes visible while a worker processes its event, SQS delivers it to a \
          second worker. If a function ends before its lease, its events wait until the lease \
          expires.",
    fix: "set Timeout of the processor and VisibilityTimeout of both queues to the values in \
          template.yaml, 60 and 365 seconds",
    judge: chain,
};

pub(super) static LONG: Check = Check {
    name: "timing.long_actions",
    title: "Longest action < timeout of its function < visibility",
    why: "If the function for long actions ends before an action, another worker repeats the call. \
          If a message becomes visible before the function ends, SQS delivers it to a second worker.",
    fix: "set Timeout of LongProcessor and VisibilityTimeout of LongQueue to the values in \
          template.yaml, 900 and 960 seconds",
    judge: long,
};

pub(super) static WINDOW: Check = Check {
    name: "timing.window",
    title: "The visibility timeout includes the batch window",
    why: "The visibility timeout of a message begins before Lambda waits for a full batch.",
    fix: "set MaximumBatchingWindowInSeconds of the mapping to 0, or raise VisibilityTimeout",
    judge: window,
};

pub(super) static CATCHER: Check = Check {
    name: "timing.catcher",
    title: "The timeout of the catcher is longer than its budget",
    why: "The catcher answers within its budget even if the stores do not respond. With a shorter \
          timeout, Lambda stops the catcher before it answers.",
    fix: "set Timeout of the catcher to the value in template.yaml, 10 seconds",
    judge: catcher,
};

fn chain(facts: &Facts) -> Result<Finding, Unknown> {
    let timeout = known(&facts.functions.processor)?.timeout_s;
    let work_queue = known(&facts.queues.work_queue)?.visibility_s;
    let backlog = known(&facts.queues.backlog)?.visibility_s;
    let visibility = work_queue.min(backlog);
    let (effect, lease) = (EFFECT_TIMEOUT.as_secs() + 10, LEASE.as_secs());
    let found = format!("{effect}s ≤ {lease}s, timeout {timeout}s, visibility {visibility}s");
    let want = format!(
        "{lease}s ≤ timeout, {TIMES} × timeout ≤ visibility ({}s)",
        timeout * TIMES
    );
    if effect > lease || lease > timeout || timeout >= visibility {
        return Ok(Finding::fail(found).want(want));
    }
    if visibility < timeout * TIMES {
        return Ok(Finding::warn(found).want(want));
    }
    Ok(Finding::pass(format!(
        "{lease}s ≤ {timeout}s < {visibility}s ({TIMES} × timeout, as AWS recommends)"
    )))
}

fn long(facts: &Facts) -> Result<Finding, Unknown> {
    let Some((queue, function)) = facts.long()? else {
        return Ok(Finding::pass("the stack has no long actions"));
    };
    let needed = (LONGEST_ACTION + AFTER_ACTION + CLOCK_MARGIN).as_secs();
    let (timeout, visibility) = (function.timeout_s, queue.visibility_s);
    if needed > timeout || timeout >= visibility {
        let found = format!("timeout {timeout}s, visibility {visibility}s");
        return Ok(Finding::fail(found).want(format!("{needed}s ≤ timeout < visibility")));
    }
    Ok(Finding::pass(format!(
        "{needed}s ≤ {timeout}s < {visibility}s"
    )))
}

fn window(facts: &Facts) -> Result<Finding, Unknown> {
    let mappings = known(&facts.mappings)?;
    let work = (
        known(&facts.queues.work_queue)?,
        known(&facts.functions.processor)?.timeout_s * TIMES,
    );
    let long = facts.long()?;
    let long = long.map(|(queue, function)| (queue, function.timeout_s));
    let mut passed = Vec::new();
    for (queue, hidden) in std::iter::once(work).chain(long) {
        let of_queue = mappings.iter().filter(|it| it.queue_arn == queue.arn);
        let window = of_queue.map(|it| it.window_s).max().unwrap_or_default();
        let (visibility, needed) = (queue.visibility_s, hidden + window);
        let found = format!("window {window}s, visibility {visibility}s");
        if visibility < needed {
            return Ok(Finding::fail(found).want(format!("visibility {needed}s or more")));
        }
        passed.push(found);
    }
    Ok(Finding::pass(passed.join("; ")))
}

fn catcher(facts: &Facts) -> Result<Finding, Unknown> {
    let timeout = known(&facts.functions.catcher)?.timeout_s;
    let budget = (KEEP_BUDGET + SEND_BUDGET).as_secs_f64();
    let found = format!("timeout {timeout}s, budget {budget:.1}s");
    if std::time::Duration::from_secs(timeout) <= KEEP_BUDGET + SEND_BUDGET {
        return Ok(Finding::fail(found).want(format!("more than {budget:.1}s")));
    }
    Ok(Finding::pass(found))
}
