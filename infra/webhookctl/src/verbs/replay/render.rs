//! The text output of `replay plan`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use shared::base::clock::UnixMillis;
use shared::inbox::ledger::Plan;

use super::decision::{LeftOut, Runs};
use super::document::document;
use super::plan::Judged;
use crate::inspect::view;
use crate::output::Printer;
use crate::output::count::thousands;
use crate::output::table::aligned;
use crate::output::time::{age, duration, rfc3339};
use crate::target::Deployment;

/// The default rate at which a plan is applied.
const RATE: u64 = 10;

/// The age below which the cause of a failure may still exist.
const FRESH_MS: i64 = 10 * 60 * 1000;

/// The number of types and of errors that are listed by name.
const NAMED: usize = 5;

pub(super) fn print(
    plan: &Plan,
    judged: &Judged,
    kept: bool,
    inbox: &Deployment,
    now: UnixMillis,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let warning = warning(judged, inbox, now);
    let text = text(plan, judged, kept, warning.as_deref(), inbox);
    let record = document(plan, None, warning, now);
    let id = if kept { plan.id.as_str() } else { "" };
    out.document("replay.plan", &record, id, &text)?;
    if kept {
        out.tip(&format!("webhookctl replay apply {}", plan.id));
    }
    Ok(())
}

fn text(
    plan: &Plan,
    judged: &Judged,
    kept: bool,
    warning: Option<&str>,
    inbox: &Deployment,
) -> String {
    let name = if kept {
        plan.id.as_str()
    } else {
        "without events"
    };
    let head = format!("Plan {name} in {}", inbox.name);
    let mut text = format!("{head:<58} nothing has been changed\n\n");
    text += &counted(&counts(plan, judged));
    if !kept {
        text += "\n  No event would run again, so there is nothing to apply.\n";
        return text;
    }
    let takes = duration((plan.count as u64).div_ceil(RATE).cast_signed());
    let mut rows = vec![
        said("types", &tally(judged.kinds())),
        said("errors", &errors(judged, inbox)),
        said("order", &order(judged, inbox)),
        said("takes", &format!("about {takes} at {RATE}/s")),
    ];
    rows.extend(warning.map(|warning| said("warning", warning)));
    rows.retain(|row| row.last().is_some_and(|cell| !cell.is_empty()));
    text += "\n";
    text += &indented(&rows);
    let good = rfc3339(plan.good_until.0);
    let _ = writeln!(
        text,
        "\n  valid until {} UTC; any operator who may replay can apply it",
        good.get(11..16).unwrap_or(&good)
    );
    text
}

/// Returns a row for each decision: its name, the number of events, and an explanation.
fn counts(plan: &Plan, judged: &Judged) -> Vec<(&'static str, u64, String)> {
    let mut rows = vec![("selected", plan.facts.selected, plan.facts.words.clone())];
    for (why, count) in &judged.runs {
        let said = match why {
            Runs::NotCommitted => "no side effect committed",
            Runs::SameKey => "side effect may have happened, repeated under the same key",
            Runs::Committed if plan.facts.new_effects => {
                "side effect may be committed, and is made again under a new key"
            }
            Runs::Committed => "done before; completed effects are skipped",
        };
        rows.push(("will run again", *count, said.to_owned()));
    }
    if judged.runs.is_empty() {
        rows.push(("will run again", 0, String::new()));
    }
    let done = [(&LeftOut::Done, &0)];
    let done = done
        .into_iter()
        .filter(|_| !judged.left.contains_key(&LeftOut::Done));
    for (why, count) in judged.left.iter().chain(done) {
        let advice = why.advice().filter(|_| *count > 0);
        let advice = advice.map_or(String::new(), |advice| {
            // A plan without events is not stored, so it has no id.
            if judged.events.is_empty() {
                format!("   ({advice})")
            } else {
                format!("   ({advice}; see `replay show {} --left-out`)", plan.id)
            }
        });
        rows.push(("left out", *count, format!("{}{advice}", why.text())));
    }
    rows
}

fn counted(rows: &[(&'static str, u64, String)]) -> String {
    let counts = rows.iter().map(|(_, count, _)| thousands(*count));
    let counts: Vec<String> = counts.collect();
    let width = counts.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for ((name, _, said), count) in rows.iter().zip(counts) {
        let line = format!("  {name:<14}  {count:>width$}   {said}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn said(name: &str, text: &str) -> Vec<String> {
    vec![format!("{name:<14}"), text.to_owned()]
}

fn indented(rows: &[Vec<String>]) -> String {
    let lines = aligned(rows);
    let mut text = String::new();
    for line in lines.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Returns the types by frequency, such as `issues.opened 183 · pull_request.closed 69`.
fn tally(counts: BTreeMap<String, u64>) -> String {
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = counts.len().saturating_sub(NAMED);
    let named = counts.into_iter().take(NAMED);
    let named = named.map(|(name, count)| format!("{name} {}", thousands(count)));
    let named: Vec<String> = named
        .chain((more > 0).then(|| format!("and {more} more")))
        .collect();
    named.join(" · ")
}

fn errors(judged: &Judged, inbox: &Deployment) -> String {
    let mut counts: BTreeMap<String, (String, u64)> = BTreeMap::new();
    for row in judged.running() {
        if let Some(error) = view(row, &inbox.config).last_error {
            let found = counts.entry(error.fingerprint).or_insert((error.text, 0));
            found.1 += 1;
        }
    }
    let counts = counts.into_iter();
    let named = counts.map(|(fingerprint, (text, count))| (format!("{fingerprint} {text}"), count));
    tally(named.collect())
}

fn order(judged: &Judged, inbox: &Deployment) -> String {
    let ordered = inbox.config.sources().filter(|source| {
        let concerned = judged.events.iter();
        let mut concerned = concerned.map(|event| event.key.source());
        source.order.is_some() && concerned.any(|name| name == source.name)
    });
    let names: Vec<&str> = ordered.map(|source| source.name.as_str()).collect();
    if names.is_empty() {
        return "by received time".to_owned();
    }
    format!(
        "by received time, one at a time for each entity of {} (the source's order)",
        names.join(", ")
    )
}

/// Returns a warning if an error of the planned events occurred so recently that its cause may
/// still exist.
fn warning(judged: &Judged, inbox: &Deployment, now: UnixMillis) -> Option<String> {
    let failures = judged.running().filter_map(|row| {
        let error = view(row, &inbox.config).last_error?;
        let at = row.history.iter().map(|moment| moment.at.0).max()?;
        Some((at, error.fingerprint))
    });
    let (at, fingerprint) = failures.max()?;
    (now.0 - at < FRESH_MS).then(|| {
        let age = age(at, now.0);
        format!("the newest {fingerprint} failure is {age} old; make sure that its cause is fixed")
    })
}

impl Judged {
    /// Returns the rows of the events that run again.
    fn running(&self) -> impl Iterator<Item = &shared::inbox::ledger::Row> {
        let keys: std::collections::HashSet<_> =
            self.events.iter().map(|event| &event.key).collect();
        self.rows.iter().filter(move |row| keys.contains(&row.key))
    }

    fn kinds(&self) -> BTreeMap<String, u64> {
        let mut kinds = BTreeMap::new();
        for row in self.running() {
            *kinds.entry(row.kind.clone()).or_default() += 1;
        }
        kinds
    }
}
