//! The checks: each judges facts and makes no requests.

mod alarm;
mod concurrency;
mod context;
mod event;
mod function;
mod iam;
pub(crate) mod queue;
pub(crate) mod schedule;
mod secret;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod timing;
mod versions;

use super::Check;

/// All checks, in display order.
pub(crate) static ALL: &[&Check] = &[
    &context::ACCOUNT,
    &context::NAMES,
    &timing::CHAIN,
    &timing::LONG,
    &timing::WINDOW,
    &timing::CATCHER,
    &queue::PARTIAL_BATCH,
    &queue::MAPPED,
    &queue::REDRIVE,
    &queue::DLQ_RETENTION,
    &queue::MAX_RECEIVES,
    &queue::SPILL,
    &queue::DEPTH,
    &queue::WORK_DEAD_LETTERS,
    &queue::FAILED_RUNS,
    &function::ACTIVE,
    &function::SETTINGS,
    &function::ENDPOINTS,
    &function::VERSION,
    &function::ARCHITECTURE,
    &concurrency::CONCURRENCY,
    &table::ACTIVE,
    &table::TTL,
    &table::RECOVERY,
    &table::PROTECTED,
    &secret::PRESENT,
    &secret::AGE,
    &secret::UNUSED,
    &schedule::SWEEP,
    &schedule::DRAIN,
    &schedule::SYNC,
    &schedule::ENDPOINTS,
    &schedule::RECONCILE,
    &alarm::PRESENT,
    &alarm::ACTIONS,
    &alarm::RINGING,
    &source::OUTAGE,
    &source::SYNC,
    &source::SILENT,
    &source::PATHS,
    &source::SUBSCRIPTION,
    &source::BREAKER,
    &source::PAUSED,
    &source::ROTATION,
    &source::LONG_ACTIONS,
    &source::TRIAL,
    &versions::IN_FORCE,
    &event::DEAD_LETTERS,
    &iam::READ,
    &iam::WRITE,
    &END_TO_END,
];

/// This check runs only with `--end-to-end`, because it sends a webhook.
pub(crate) static END_TO_END: Check = Check {
    name: "end_to_end.canary",
    title: "A webhook goes through the public URL and is processed",
    why: "Only a complete delivery shows that the URL, the API, the catcher, the secret, the \
          ledger, the queue and the processor work together.",
    fix: "check the step that the error names; `webhookctl inbox inspect` of the event shows more",
    judge: |_| Err(super::Unknown::Skipped("only with --end-to-end")),
};
