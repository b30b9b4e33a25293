//! The report of a trial as JSON, `webhookctl/trial.report/v1`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use shared::monitoring::trial::{Finding, LATE, RECOVERY, Times};

use super::figures::{Figures, Named};
use super::report::Scope;
use crate::output::time::rfc3339;
use crate::trial::{deadline, limits};

#[derive(Serialize)]
pub(super) struct Document<'f> {
    context: &'f str,
    as_of: String,
    source: &'f str,
    since: String,
    until: String,
    events: u64,
    requests: u64,
    /// The number of events without a recorded answer of the route.
    no_outcome: usize,
    /// The events that the route has not accepted yet, and that the provider may send again.
    pending: u64,
    /// The recorded requests by outcome.
    outcomes: &'f BTreeMap<String, u64>,
    lost: Lost<'f>,
    doubled: Found<'f>,
    late: Late<'f>,
    slow: Slow<'f>,
    route_ms: Percentiles,
    mitt_alone_ms: Percentiles,
    mitt_added_ms: Percentiles,
    verdicts: Verdicts<'f>,
}

#[derive(Serialize)]
struct Found<'f> {
    count: usize,
    events: &'f [Named],
    /// Whether there are more events than `events` has.
    truncated: bool,
}

#[derive(Serialize)]
struct Lost<'f> {
    #[serde(flatten)]
    found: Found<'f>,
    outcomes: &'f BTreeMap<String, u64>,
    /// After this time without an accepted request, an event counts as lost.
    horizon_s: u64,
    /// How many lost events a retry would probably have delivered. This is an estimate.
    recoverable_estimate: usize,
    recovery_s: u64,
}

#[derive(Serialize)]
struct Late<'f> {
    #[serde(flatten)]
    found: Found<'f>,
    after_s: u64,
    longest_s: Option<u64>,
}

#[derive(Serialize)]
struct Slow<'f> {
    #[serde(flatten)]
    found: Found<'f>,
    after_ms: u64,
    /// The provider's timeout, if the preset knows it.
    provider_limit_ms: Option<u64>,
}

#[derive(Serialize)]
struct Percentiles {
    p50: Option<u64>,
    p95: Option<u64>,
    p99: Option<u64>,
}

#[derive(Serialize)]
struct Verdicts<'f> {
    /// Requests that Mitt would have rejected.
    rejected_by_mitt_accepted_by_route: Requests<'f>,
    accepted_by_mitt_refused_by_route: Refused<'f>,
}

#[derive(Serialize)]
struct Requests<'f> {
    count: usize,
    requests: &'f [String],
}

#[derive(Serialize)]
struct Refused<'f> {
    count: u64,
    events: &'f [Named],
    truncated: bool,
}

pub(super) fn document<'f>(
    scope: &'f Scope<'f>,
    figures: &'f Figures,
    context: &'f str,
) -> Document<'f> {
    let report = &figures.report;
    let limits = limits(Some(scope.source));
    let late = figures.count(Finding::Late) > 0;
    Document {
        context,
        as_of: rfc3339(scope.now.0),
        source: &scope.source.name,
        since: rfc3339(scope.span.from.0),
        until: rfc3339(scope.span.to.0),
        events: report.events,
        requests: report.requests,
        no_outcome: figures.count(Finding::Unknown),
        pending: report.pending,
        outcomes: &report.outcomes,
        lost: Lost {
            found: Found::of(figures, Finding::Lost),
            outcomes: &report.lost_outcomes,
            horizon_s: limits.horizon.as_secs(),
            recoverable_estimate: report.recoverable(),
            recovery_s: RECOVERY.as_secs(),
        },
        doubled: Found::of(figures, Finding::Doubled),
        late: Late {
            found: Found::of(figures, Finding::Late),
            after_s: LATE.as_secs(),
            longest_s: report.longest_delay.filter(|_| late).map(|d| d.as_secs()),
        },
        slow: Slow {
            found: Found::of(figures, Finding::Slow),
            after_ms: millis(limits.slow),
            provider_limit_ms: deadline(scope.source).map(millis),
        },
        route_ms: Percentiles::of(&report.took),
        mitt_alone_ms: Percentiles::of(&report.own),
        mitt_added_ms: Percentiles::of(&report.hop),
        verdicts: verdicts(figures),
    }
}

fn verdicts(figures: &Figures) -> Verdicts<'_> {
    let named = &figures.refused_named;
    Verdicts {
        rejected_by_mitt_accepted_by_route: Requests {
            count: figures.rejected_and_accepted.len(),
            requests: &figures.rejected_and_accepted,
        },
        accepted_by_mitt_refused_by_route: Refused {
            count: figures.refused,
            events: named,
            truncated: figures.refused > named.len() as u64,
        },
    }
}

impl<'f> Found<'f> {
    fn of(figures: &'f Figures, finding: Finding) -> Self {
        let (count, events) = (figures.count(finding), figures.named(finding));
        Self {
            count,
            events,
            truncated: count > events.len(),
        }
    }
}

impl Percentiles {
    fn of(times: &Times) -> Self {
        let [p50, p95, p99] = [50, 95, 99].map(|percent| times.within(percent).map(millis));
        Self { p50, p95, p99 }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
