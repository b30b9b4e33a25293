//! The concurrent executions of the account, which all functions of the Region share.

use std::fmt::Write as _;

use super::schedule::TASKS;
use crate::doctor::facts::known;
use crate::doctor::{Check, Facts, Finding, Mapping, Unknown};

/// The executions that the catcher needs at least, so that a burst of webhooks gets no 5xx.
const CATCHER: u64 = 10;

/// The number of executions that a mapping without a maximum begins with.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
const WITHOUT_MAXIMUM: u64 = 5;

/// The scheduled tasks that can run at once: those that report when they are done, and the count.
const SCHEDULES: u64 = TASKS.len() as u64 + 1;

pub(super) static CONCURRENCY: Check = Check {
    name: "function.concurrency",
    title: "The account has enough concurrent executions",
    why: "All functions of the account in this Region share one limit. If the processors and the \
          scheduled tasks use it up, Lambda cannot start the catcher, and senders get 5xx. A new \
          account can have a limit of 10.",
    fix: "request a higher limit: aws service-quotas request-service-quota-increase --service-code \
          lambda --quota-code L-B99A9384 --desired-value 1000; until you have it, deploy with \
          ProcessorConcurrency=2",
    judge: concurrency,
};

fn concurrency(facts: &Facts) -> Result<Finding, Unknown> {
    let account = known(&facts.account)?;
    let mappings = known(&facts.mappings)?;
    let workers: u64 = mappings.iter().map(most).sum();
    let needed = workers + SCHEDULES + CATCHER;
    let (limit, free) = (account.concurrent, account.unreserved);
    let mut found = format!("{limit} concurrent executions");
    if limit != free {
        let _ = write!(found, ", {free} of them not reserved");
    }
    if free >= needed {
        return Ok(Finding::pass(found));
    }
    let want = format!(
        "{needed} or more: {workers} for the queues, {SCHEDULES} for schedules, {CATCHER} for the \
         catcher"
    );
    Ok(Finding::warn(found).want(want))
}

fn most(mapping: &Mapping) -> u64 {
    mapping.max_concurrency.unwrap_or(WITHOUT_MAXIMUM)
}
