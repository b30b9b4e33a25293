//! The report of a trial as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use shared::monitoring::trial::{Finding, LATE, RECOVERY, Times};
use shared::sources::Source;

use super::figures::{Figures, Named};
use super::report::Scope;
use crate::output::count::{plural, thousands};
use crate::output::time::{duration, rfc3339};
use crate::trial::{deadline, limits};

/// The maximum number of events that the text names for each finding.
const FEW: usize = 20;

/// The width of the first column.
const WIDTH: usize = 10;

pub(super) fn page(scope: &Scope<'_>, figures: &Figures) -> String {
    let report = &figures.report;
    let mut text = head(scope, figures);
    if report.events == 0 {
        let name = &scope.source.name;
        let _ = writeln!(text, "No event of a trial of {name} arrived in this time.");
    } else {
        findings(scope, figures, &mut text);
        let slower = slower(scope.source, figures);
        line(&mut text, "slower", &slower);
    }
    line(&mut text, "verdicts", &verdicts(figures));
    named(&mut text, &figures.refused_named);
    if report.events > 0 {
        line(&mut text, "Mitt", &mitt(figures));
    }
    text
}

fn head(scope: &Scope<'_>, figures: &Figures) -> String {
    let report = &figures.report;
    let route = scope.source.trial.as_ref();
    let route = route.map_or(String::new(), |trial| {
        format!(" · route {}", host(&trial.url))
    });
    format!(
        "{} · {} to {} · {} in {}{route}\n",
        scope.source.name,
        rfc3339(scope.span.from.0),
        rfc3339(scope.span.to.0),
        plural(report.events, "event"),
        plural(report.requests, "request"),
    )
}

/// The host of a URL. Paths of routes can contain secrets.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

fn findings(scope: &Scope<'_>, figures: &Figures, text: &mut String) {
    let report = &figures.report;
    let limits = limits(Some(scope.source));
    let lost = figures.count(Finding::Lost);
    let mut said = format!("{} never got a 2xx", plural(lost, "event"));
    if lost > 0 {
        let _ = write!(
            said,
            " ({}); estimate: {} of them would have met a healthy route within {}",
            outcomes(&report.lost_outcomes),
            thousands(report.recoverable()),
            duration(RECOVERY.as_secs()),
        );
    }
    if report.pending > 0 {
        let _ = write!(
            said,
            "; {} more may still be retried, for {}",
            thousands(report.pending),
            duration(limits.horizon.as_secs()),
        );
    }
    finding(scope, figures, Finding::Lost, &said, text);
    let doubled = format!(
        "{} got a 2xx more than once: the route did the work again unless it drops repetitions",
        plural(figures.count(Finding::Doubled), "event")
    );
    finding(scope, figures, Finding::Doubled, &doubled, text);
    let late = figures.count(Finding::Late);
    let mut said = format!(
        "{} got the first 2xx more than {} after the first request",
        plural(late, "event"),
        duration(LATE.as_secs())
    );
    if let Some(longest) = report.longest_delay.filter(|_| late > 0) {
        let _ = write!(said, "; longest {}", duration(longest.as_secs()));
    }
    finding(scope, figures, Finding::Late, &said, text);
    let slow = format!(
        "{} got an answer after more than {}",
        plural(figures.count(Finding::Slow), "event"),
        short(limits.slow)
    );
    finding(scope, figures, Finding::Slow, &slow, text);
    let unknown = figures.count(Finding::Unknown);
    if unknown > 0 {
        let said = format!(
            "{} without a recorded answer: the route may have processed it or not",
            plural(unknown, "event")
        );
        finding(scope, figures, Finding::Unknown, &said, text);
    }
}

/// Appends a finding, its first events, and the command that lists them.
fn finding(scope: &Scope<'_>, figures: &Figures, what: Finding, said: &str, text: &mut String) {
    line(text, what.as_str(), said);
    let count = figures.count(what);
    named(text, figures.named(what));
    if count > 0 {
        let (source, since) = (&scope.source.name, rfc3339(scope.span.from.0));
        let list = format!("list: webhookctl inbox list -s {source} --tee {what} --since {since}");
        line(text, "", &list);
    }
}

/// Appends the ids of the first events.
fn named(text: &mut String, named: &[Named]) {
    for event in named.iter().take(FEW) {
        line(text, "", &format!("{}  {}", event.id, event.dedupe_key));
    }
}

fn line(text: &mut String, name: &str, said: &str) {
    let _ = writeln!(text, "{name:<WIDTH$} {said}");
}

/// Describes the outcomes, such as `31 timeout, 6 × 500`.
fn outcomes(counts: &BTreeMap<String, u64>) -> String {
    let said = counts.iter().map(|(outcome, count)| {
        let count = thousands(count);
        match outcome.parse::<u16>() {
            Ok(status) => format!("{count} × {status}"),
            Err(_) => format!("{count} {outcome}"),
        }
    });
    said.collect::<Vec<_>>().join(", ")
}

fn slower(source: &Source, figures: &Figures) -> String {
    let report = &figures.report;
    let limit = deadline(source).map(|limit| {
        let name = &source.verifier.preset.name;
        format!(" (limit of {name} {})", short(limit))
    });
    format!(
        "route {}{} · Mitt alone would have answered in {}",
        percentiles(&report.took, &[50, 95, 99]),
        limit.unwrap_or_default(),
        percentiles(&report.own, &[50, 99]),
    )
}

fn verdicts(figures: &Figures) -> String {
    format!(
        "{} that Mitt would have rejected and the route accepted · {} the other way round",
        plural(figures.rejected_and_accepted.len(), "request"),
        plural(figures.refused, "event"),
    )
}

fn mitt(figures: &Figures) -> String {
    let report = &figures.report;
    format!(
        "{} without a recorded answer · Mitt added {}",
        plural(figures.count(Finding::Unknown), "event"),
        percentiles(&report.hop, &[50, 99]),
    )
}

/// Returns percentiles such as `p50 212 ms  p99 8.4 s`, or `an unknown time` without durations.
fn percentiles(times: &Times, percents: &[usize]) -> String {
    let said = percents.iter().filter_map(|percent| {
        let within = times.within(*percent)?;
        Some(format!("p{percent} {}", short(within)))
    });
    let said = said.collect::<Vec<_>>().join("  ");
    if said.is_empty() {
        "an unknown time".to_owned()
    } else {
        said
    }
}

/// Returns a duration such as `212 ms` or `8.4 s`.
fn short(time: Duration) -> String {
    match time.as_millis() {
        ms @ 0..1000 => format!("{ms} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
