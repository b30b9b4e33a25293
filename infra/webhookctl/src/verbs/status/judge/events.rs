//! Items about events: dead letters, open events, and what waits for a decision.

use std::collections::BTreeMap;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Hold, Row, State};
use shared::inbox::rejected::RejectedRequest;
use shared::monitoring::hours::Brief;

use super::About;
use crate::completion_cache::{self, Kind};
use crate::fingerprint::{error_text, template};
use crate::output::count::{plural, thousands};
use crate::output::time::duration;
use crate::verbs::dlq::group::Group;
use crate::verbs::stats::LATE;
use crate::verbs::status::item::{Code, Item, Severity};

pub(super) fn items(about: &About<'_>) -> Vec<Item> {
    let mut items = dead_letters(about);
    items.extend(open(about));
    items.extend(rejected(about));
    items.extend(quarantined(about));
    items.extend(held(about));
    items
}

/// Returns an item for each error whose dead letters can be replayed. An operator has decided on the
/// others.
fn dead_letters(about: &About<'_>) -> Vec<Item> {
    let Ok((rows, or_more)) = &about.facts.dead else {
        return Vec::new();
    };
    let groups = Group::all(rows);
    let digits = Group::digits(&groups);
    let mut errors = Vec::new();
    let mut items = Vec::new();
    for group in &groups {
        let standings = group.standings(&about.inbox.config, about.now.0);
        if standings.open() == 0 {
            continue;
        }
        let error = group.error.first(digits);
        let more = if *or_more {
            ", and there may be more"
        } else {
            ""
        };
        let sources = group.sources();
        let text = format!("{}{more}; {}", group.message(), standings.next_action());
        let item = Item::new(Code::DeadLetters, Severity::Bad, text)
            .count(group.rows.len() as u64)
            .since(group.died_first())
            .command(format!("webhookctl dlq inspect {error}"));
        items.push(match sources.as_slice() {
            [source] => item.of(source),
            _ => item,
        });
        errors.push(error.to_owned());
    }
    completion_cache::keep(&about.inbox.name, Kind::Error, &errors);
    items
}

/// The open events of a source.
#[derive(Default)]
struct Open<'f> {
    failed: Vec<&'f Brief>,
    oldest: Option<&'f Brief>,
}

fn open(about: &About<'_>) -> Vec<Item> {
    let Ok(open) = &about.facts.open else {
        return Vec::new();
    };
    let mut by_source: BTreeMap<&str, Open<'_>> = BTreeMap::new();
    // A held event waits for an operator, and has its own item.
    for brief in open.briefs.iter().filter(|brief| !brief.is_held) {
        let of = by_source.entry(brief.key.source()).or_default();
        if brief.state == State::Failed {
            of.failed.push(brief);
        }
        let older = of
            .oldest
            .is_none_or(|oldest| brief.received_at < oldest.received_at);
        if older {
            of.oldest = Some(brief);
        }
    }
    let mut items = Vec::new();
    for (source, open) in by_source {
        items.extend(failing(about, source, &open));
        items.extend(late(about, source, &open));
    }
    items
}

/// Returns an item if events of the source failed. It is a warning if they are more than one percent
/// of the events of a day, as in `inbox stats`.
fn failing(about: &About<'_>, source: &str, open: &Open<'_>) -> Option<Item> {
    let oldest = open.failed.iter().min_by_key(|brief| brief.received_at)?;
    let count = open.failed.len() as u64;
    let counts = about.facts.counts.as_ref().ok();
    let received: u64 = counts.map_or(0, |counts| {
        let of_source = counts.arrived.iter().filter(|((of, _), _)| of == source);
        of_source.map(|(_, arrived)| arrived.events).sum()
    });
    let severity = if count * 100 > received {
        Severity::Warn
    } else {
        Severity::Note
    };
    let row = about.facts.failed.get(source);
    let error = row.and_then(error_text).map(template);
    let error = error.map_or_else(String::new, |error| format!("{error}; "));
    let text = format!(
        "{error}{} retried automatically; {} received in 24h",
        if count == 1 { "it is" } else { "they are" },
        thousands(received)
    );
    Some(
        Item::new(Code::Failing, severity, text)
            .of(source)
            .count(count)
            .since(Some(oldest.received_at))
            .command(format!("webhookctl inbox list -s {source} --status failed")),
    )
}

/// Returns an item if an event of the source has waited for too long. The events of a paused source
/// wait because an operator wants it.
fn late(about: &About<'_>, source: &str, open: &Open<'_>) -> Option<Item> {
    let paused = about.facts.pauses.as_ref().ok();
    if paused.is_some_and(|paused| paused.contains_key(source)) {
        return None;
    }
    let oldest = open.oldest?;
    let waits = about.now.since(oldest.received_at);
    let said = |span: std::time::Duration| duration(span.as_secs());
    let text = format!(
        "the oldest event waits {}, limit {}",
        said(waits),
        said(LATE)
    );
    (waits > LATE).then(|| {
        Item::new(Code::Late, Severity::Warn, text)
            .of(source)
            .since(Some(oldest.received_at))
            .command(format!(
                "webhookctl inbox list -s {source} --status {}",
                oldest.state.as_str()
            ))
    })
}

/// Returns an item for each source with rejected requests. Anyone can send a request without a
/// signature, so only requests that look signed are a warning.
fn rejected(about: &About<'_>) -> Vec<Item> {
    let rejected = about.facts.rejected.as_ref().ok();
    let some = rejected.into_iter().flatten();
    let some = some.filter_map(|(source, held)| {
        let oldest = held.iter().map(|held| held.received_at).min()?;
        let signed = held.iter().any(|held| {
            let reason = held.reason.as_str();
            matches!(
                reason,
                "bad_signature" | "timestamp_too_old" | "timestamp_in_future"
            )
        });
        let severity = if signed {
            Severity::Warn
        } else {
            Severity::Note
        };
        let item = Item::new(
            Code::Rejected,
            severity,
            format!("{}; kept in the quarantine", reasons(held)),
        )
        .of(source)
        .count(held.len() as u64)
        .since(Some(oldest))
        .command(format!("webhookctl quarantine list -s {source}"));
        Some(item)
    });
    some.collect()
}

/// Returns the reasons with their counts, such as `bad_signature 9, missing_header 3`.
fn reasons(held: &[RejectedRequest]) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for held in held {
        *counts.entry(&held.reason).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let reasons = counts
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"));
    reasons.collect::<Vec<_>>().join(", ")
}

fn quarantined(about: &About<'_>) -> Vec<Item> {
    let mut by_source: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in about.facts.quarantined.iter().flatten() {
        by_source.entry(row.key.source()).or_default().push(row);
    }
    let item = |(source, rows): (&str, Vec<&Row>)| {
        let oldest = rows.iter().map(|row| row.received_at).min();
        let count = rows.len() as u64;
        let text = match rows.iter().find_map(|row| row.reason.as_deref()) {
            Some(reason) => format!("{}: {reason}", plural(count, "event")),
            None => plural(count, "event"),
        };
        // Without a time, the list has the events of the last day.
        let days = oldest.map_or(0, |at| about.now.since(at).as_secs() / (24 * 3600));
        let since = match days {
            0 => String::new(),
            days => format!(" --since {}d", days + 1),
        };
        Item::new(Code::Quarantined, Severity::Warn, text)
            .of(source)
            .count(count)
            .since(oldest)
            .command(format!(
                "webhookctl inbox list -s {source} --status quarantined{since}"
            ))
    };
    by_source.into_iter().map(item).collect()
}

/// Returns an item for each source with events that wait for an approval.
fn held(about: &About<'_>) -> Vec<Item> {
    let mut by_source: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for (row, hold) in about.facts.held.iter().flatten() {
        by_source.entry(row.key.source()).or_default().push(hold);
    }
    let item = |(source, holds): (&str, Vec<&Hold>)| {
        let count = holds.len() as u64;
        let first = holds.iter().min_by_key(|hold| hold.expires);
        let expires = first.map_or(String::new(), |hold| {
            let left = hold.expires.since(about.now).as_secs();
            format!(
                "; the first expires in {}, rule {}",
                duration(left),
                hold.rule
            )
        });
        let text = format!("{} for an approval{expires}", waits(count));
        Item::new(Code::Held, Severity::Warn, text)
            .of(source)
            .count(count)
            .since(holds.iter().map(|hold| hold.at).min())
            .command(format!("webhookctl hold list -s {source}"))
    };
    by_source.into_iter().map(item).collect()
}

fn waits(count: u64) -> &'static str {
    if count == 1 { "it waits" } else { "they wait" }
}

/// The time of the first dead letter of a group.
impl Group<'_> {
    fn died_first(&self) -> Option<UnixMillis> {
        let oldest = self.oldest()?;
        Some(oldest.dead_at.unwrap_or(oldest.received_at))
    }
}
