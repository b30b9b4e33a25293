//! Items about sources: their sync, their endpoints, and what operators began.

use shared::base::clock::UnixMillis;
use shared::delivery::breaker::{Position, refuses};
use shared::monitoring::coverage::Counts;
use shared::monitoring::endpoint::Health;
use shared::monitoring::source_records::SourceRecords;
use shared::sources::Source;
use shared::webhook::missing::PathUse;

use super::About;
use crate::output::count::{plural, thousands};
use crate::output::time::{age, duration, rfc3339};
use crate::verbs::missing_paths::text_of;
use crate::verbs::sources::Rotation;
use crate::verbs::status::item::{Code, Item, Severity};
use crate::verbs::sync::facts::{Silence, percent, standing};

/// The share of missed events in percent, above which gaps are a warning.
const MISSED: f64 = 1.0;

pub(super) fn items(about: &About<'_>) -> Vec<Item> {
    let mut items = Vec::new();
    let config = &about.inbox.config;
    let chosen = config
        .sources()
        .filter(|source| about.chosen.has_source(&source.name));
    for source in chosen {
        let records = about.facts.sources.as_ref().ok();
        if let Some(record) = records.and_then(|records| records.get(&source.name)) {
            items.extend(of_record(about, source, record));
        }
        items.extend(lost(about, source));
        items.extend(paused(about, source));
        items.extend(rotation(about, source));
    }
    items.extend(breakers(about));
    items.extend(drift(about));
    items.extend(missing(about));
    items
}

fn of_record(about: &About<'_>, source: &Source, record: &SourceRecords) -> Vec<Item> {
    let now = about.now;
    let items = [
        endpoint(source, record),
        gaps(source, record),
        behind(source, record, now),
        silent(source, record, now),
    ];
    items.into_iter().flatten().collect()
}

fn endpoint(source: &Source, record: &SourceRecords) -> Option<Item> {
    source.endpoint.as_ref()?;
    let status = record.endpoint.as_ref()?;
    let severity = match status.finding.health {
        Health::Good => return None,
        Health::EventsMissing => Severity::Warn,
        Health::Disabled | Health::Missing | Health::WrongUrl => Severity::Bad,
    };
    let note = status.finding.note.as_ref();
    let note = note.map_or(String::new(), |note| format!(", {note}"));
    let text = format!(
        "the subscription is {}{note}",
        health(status.finding.health)
    );
    Some(
        Item::new(Code::Endpoint, severity, text)
            .of(&source.name)
            .since(Some(status.since))
            .command(format!("webhookctl endpoint show {}", source.name)),
    )
}

fn health(health: Health) -> &'static str {
    match health {
        Health::Good => "good",
        Health::Disabled => "disabled at the provider",
        Health::Missing => "missing at the provider",
        Health::WrongUrl => "for another URL",
        Health::EventsMissing => "not for all types of events",
    }
}

fn gaps(source: &Source, record: &SourceRecords) -> Option<Item> {
    let mut counts = Counts::default();
    for day in &record.days {
        counts.merge(day.counts.clone());
    }
    let rate = counts.miss_rate();
    let severity = if rate.is_some_and(|rate| rate >= MISSED) {
        Severity::Warn
    } else {
        Severity::Note
    };
    let first = counts.gaps.iter().map(|gap| gap.happened).min();
    let text = format!(
        "no webhook arrived, but the sync stored {}: {} of {} ({})",
        if counts.sync == 1 { "it" } else { "them" },
        thousands(counts.sync),
        plural(counts.all(), "event"),
        percent(rate)
    );
    (counts.sync > 0).then(|| {
        Item::new(Code::Gaps, severity, text)
            .of(&source.name)
            .count(counts.sync)
            .since(first)
            .command(format!("webhookctl sync gaps -s {}", source.name))
    })
}

fn behind(source: &Source, record: &SourceRecords, now: UnixMillis) -> Option<Item> {
    source.sync.as_ref()?;
    let state = record.sync.as_ref();
    let text = match (
        standing(state, true, now),
        state.and_then(|state| state.cursor),
    ) {
        ("late", Some(cursor)) => format!("no complete run for {}", age(cursor.0, now.0)),
        ("late", None) => "no run was complete yet".to_owned(),
        _ => return None,
    };
    Some(
        Item::new(Code::SyncBehind, Severity::Warn, text)
            .of(&source.name)
            .since(state.and_then(|state| state.cursor))
            .command(format!("webhookctl sync status -s {}", source.name)),
    )
}

fn silent(source: &Source, record: &SourceRecords, now: UnixMillis) -> Option<Item> {
    let silence = Silence::of(source, &record.gaps, None, now);
    let note = silence.note()?;
    Some(
        Item::new(Code::Silent, Severity::Warn, note)
            .of(&source.name)
            .since(record.gaps.last)
            .command(format!("webhookctl sync status -s {}", source.name)),
    )
}

fn lost(about: &About<'_>, source: &Source) -> Option<Item> {
    let lost = about.facts.lost.as_ref().ok()?.get(&source.name)?;
    let text = format!(
        "the provider no longer lists {} to {}",
        rfc3339(lost.from.0),
        rfc3339(lost.to.0)
    );
    Some(
        Item::new(Code::Lost, Severity::Bad, text)
            .of(&source.name)
            .since(Some(lost.noted))
            .command(format!(
                "webhookctl sync gaps -s {} --since {}",
                source.name,
                rfc3339(lost.from.0)
            )),
    )
}

fn paused(about: &About<'_>, source: &Source) -> Option<Item> {
    let flag = about.facts.pauses.as_ref().ok()?.get(&source.name)?;
    let open = about.facts.open.as_ref().ok();
    let waits = open.map_or(0, |open| {
        let of_source = open.briefs.iter();
        let of_source = of_source.filter(|brief| brief.key.source() == source.name);
        of_source.count()
    });
    let text = format!(
        "by {}: {}; {} wait",
        flag.who,
        flag.why,
        plural(waits, "event")
    );
    Some(
        Item::new(Code::Paused, Severity::Note, text)
            .of(&source.name)
            .count(waits as u64)
            .since(Some(flag.at))
            .command(format!("webhookctl sources resume {}", source.name)),
    )
}

fn rotation(about: &About<'_>, source: &Source) -> Option<Item> {
    let flag = about.facts.rotations.as_ref().ok()?.get(&source.secret)?;
    // The command that ends the rotation reports a flag that cannot be read.
    let rotation: Rotation = serde_json::from_str(&flag.doc).ok()?;
    rotation.is_over(about.now).then(|| {
        Item::new(
            Code::RotationOverdue,
            Severity::Warn,
            rotation.note(about.now),
        )
        .of(&source.name)
        .since(Some(flag.at))
        .command(format!(
            "webhookctl sources rotate-secret {} --finish",
            source.name
        ))
    })
}

/// Returns an item for each open breaker of a configured destination.
fn breakers(about: &About<'_>) -> Vec<Item> {
    let breakers = about.facts.breakers.as_ref().ok();
    let open = breakers.into_iter().flatten();
    let items = open.filter_map(|(destination, (position, since))| {
        let sources = users(about, destination);
        let first = sources.first()?;
        let state = match position {
            Position::Closed => return None,
            Position::Probing => "the next event tests it".to_owned(),
            Position::Open { until, refused } => {
                let left = duration((until.0 - about.now.0).max(0) / 1000);
                let why = refused.map_or(String::new(), |status| format!("{}; ", refuses(status)));
                format!("{why}tested again in {left}")
            }
        };
        let others = match sources.len() {
            1 => String::new(),
            several => format!(" ({several} sources)"),
        };
        let text = format!("{destination} is not called{others}; {state}");
        let item = Item::new(Code::BreakerOpen, Severity::Warn, text)
            .since(Some(*since))
            .command(format!("webhookctl sources show {first}"));
        Some(match sources.as_slice() {
            [only] => item.of(only),
            _ => item,
        })
    });
    items.collect()
}

/// Returns the chosen sources that call a destination.
fn users<'f>(about: &About<'f>, destination: &str) -> Vec<&'f str> {
    let calls = |source: &Source| {
        let mut called = source.actions.iter();
        called.any(|action| {
            let of_action = action.destination.as_ref();
            of_action.is_some_and(|it| it.name == destination)
        })
    };
    let sources = about.inbox.config.sources();
    let users = sources.filter(|source| about.chosen.has_source(&source.name) && calls(source));
    users.map(|source| source.name.as_str()).collect()
}

fn drift(about: &About<'_>) -> Vec<Item> {
    let reports = about.facts.drift.as_ref().ok();
    let drifted = reports.into_iter().flatten().filter(|report| {
        let repaired = report.repair.as_ref().is_some_and(|repair| repair.complete);
        report.counts.drifted() > 0 && !repaired
    });
    let items = drifted.map(|report| {
        let text = format!(
            "{}: {} of {} objects differ",
            report.name,
            report.counts.drifted(),
            report.counts.compared
        );
        let unrepaired = report.unrepaired.as_ref();
        let text = text + &unrepaired.map_or(String::new(), |why| format!("; not repaired: {why}"));
        Item::new(Code::Drift, Severity::Warn, text)
            .of(&report.source)
            .count(report.counts.drifted())
            .since(Some(report.started))
            .command(format!("webhookctl reconcile report {}", report.id))
    });
    items.collect()
}

/// Returns an item for each path that events of a chosen source lacked in the last day.
fn missing(about: &About<'_>) -> Vec<Item> {
    let records = about.facts.missing_paths.as_ref().ok();
    let items = records.into_iter().flatten().filter_map(|record| {
        let source = about.inbox.config.source(&record.source)?;
        let severity = if record.missing.used_for == PathUse::Account {
            Severity::Note
        } else {
            Severity::Warn
        };
        let item = Item::new(Code::PathMissing, severity, text_of(source, record))
            .of(&source.name)
            .count(record.events)
            .since(Some(record.first))
            .command(format!("webhookctl sources show {}", source.name));
        about.chosen.has_source(&source.name).then_some(item)
    });
    items.collect()
}
