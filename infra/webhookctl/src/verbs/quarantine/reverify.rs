//! `quarantine reverify`: what was refused through a fault of ours enters the inbox.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use serde::Serialize;
use shared::clock::Millis;
use shared::quarantine::{Entered, Held, Verdict};

use super::finding::Found;
use super::reach::{Keys, door};
use super::{asked, chosen, plural};
use crate::cli::{Global, ReverifyArgs};
use crate::output::format::short_id;
use crate::output::{Exit, Printer};
use crate::place::Inbox;

/// What was found, and what became of it.
#[derive(Default, Serialize)]
struct Report {
    dry_run: bool,
    sources: Vec<OfSource>,
    /// Events that are in the inbox now, as `source:event-id`.
    events: Vec<String>,
}

#[derive(Default, Serialize)]
struct OfSource {
    #[serde(rename = "source")]
    name: String,
    requests: usize,
    /// How many secrets are live.
    secrets: usize,
    /// How many match which secret.
    matches: BTreeMap<String, usize>,
    /// Why the others stay.
    stay: BTreeMap<String, usize>,
    handshakes: usize,
    new: usize,
    /// They had arrived by another delivery.
    known: usize,
    kept_apart: usize,
    /// One that stays, to look at.
    example: Option<String>,
}

pub(super) async fn reverify(
    args: ReverifyArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Inbox::open(global)?;
    if !args.dry_run {
        inbox.may_write("put requests into the inbox")?;
    }
    // Before anything is read: without it nothing could be done with what is found.
    let door = (!args.dry_run)
        .then(|| door(&inbox, global, &args.door_at))
        .transpose()?;
    let now = Millis::now();
    let mut held = chosen(&inbox, &args.selection, now).await?;
    held.retain(|held| held.released.is_none());
    if held.is_empty() && !out.format.is_json() {
        out.say(&format!(
            "No request waits in the quarantine ({}).",
            asked(&args.selection)
        ));
        return Ok(Exit::Done);
    }
    let keys = Keys::read(&inbox, global, &args.secrets_at, now).await?;
    let mut report = Report {
        dry_run: args.dry_run,
        ..Report::default()
    };
    // Oldest first, as they would have come.
    held.reverse();
    let mut sources: BTreeMap<&str, Vec<&Held>> = BTreeMap::new();
    for held in &held {
        sources.entry(&held.source).or_default().push(held);
    }
    for (name, held) in sources {
        let mut source = OfSource {
            name: name.to_owned(),
            requests: held.len(),
            secrets: keys.of(name).len(),
            ..OfSource::default()
        };
        for held in held {
            let found = Found::new(held, &inbox.config, Some(&keys));
            source.note(&found);
            if let Some(door) = &door {
                enter(&inbox, door, &found, &mut source, &mut report.events)
                    .await
                    .with_context(|| format!("let {} into the inbox", held.id))?;
            }
        }
        report.sources.push(source);
    }
    let text = text(&report);
    out.document("quarantine.reverify", &report, "", &text)?;
    Ok(Exit::Done)
}

async fn enter(
    inbox: &Inbox,
    door: &shared::inbox::Inbox,
    found: &Found<'_>,
    source: &mut OfSource,
    events: &mut Vec<String>,
) -> anyhow::Result<()> {
    let now = Millis::now();
    match &found.verdict {
        Some(Verdict::Genuine(event)) => {
            let entered = inbox.quarantine.release(door, found.held, event, now);
            match entered.await? {
                Entered::New => source.new += 1,
                Entered::Known => source.known += 1,
                Entered::Apart => source.kept_apart += 1,
            }
            events.push(event.key().to_string());
        }
        Some(Verdict::Handshake) => {
            inbox
                .quarantine
                .mark_released(found.held, None, now)
                .await?;
        }
        Some(Verdict::Refused(_) | Verdict::Damaged) | None => {}
    }
    Ok(())
}

impl OfSource {
    fn note(&mut self, found: &Found<'_>) {
        let stays = match &found.verdict {
            Some(Verdict::Genuine(_)) => {
                let secret = found.secret().unwrap_or_default().to_owned();
                *self.matches.entry(secret).or_default() += 1;
                return;
            }
            Some(Verdict::Handshake) => {
                self.handshakes += 1;
                return;
            }
            Some(Verdict::Refused(reason)) => reason.as_str(),
            Some(Verdict::Damaged) => "damaged",
            None => "not_checked",
        };
        *self.stay.entry(stays.to_owned()).or_default() += 1;
        self.example = Some(found.held.id.to_string());
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut genuine = 0;
    for source in &report.sources {
        let _ = writeln!(
            text,
            "{} of {}, checked with {}",
            plural(source.requests, "request"),
            source.name,
            plural(source.secrets, "secret")
        );
        for (secret, count) in &source.matches {
            genuine += count;
            let _ = writeln!(text, "  {count:>4}  match secret {secret}");
        }
        if source.handshakes > 0 {
            let _ = writeln!(
                text,
                "  {:>4}  are handshakes, not events",
                source.handshakes
            );
        }
        for (reason, count) in &source.stay {
            let _ = writeln!(text, "  {count:>4}  stay: {reason}");
        }
        if let Some(example) = &source.example {
            let example = short_id(example);
            let _ = writeln!(text, "        see: webhookctl quarantine inspect {example}");
        }
    }
    if report.dry_run {
        let _ = writeln!(
            text,
            "Nothing was changed. Without --dry-run, {genuine} go to the inbox as of their time of receipt."
        );
        return text;
    }
    let sum = |count: fn(&OfSource) -> usize| report.sources.iter().map(count).sum::<usize>();
    let apart = match sum(|source| source.kept_apart) {
        0 => String::new(),
        apart => format!(", {apart} kept apart, as their id or body belongs to another event"),
    };
    let _ = writeln!(
        text,
        "{genuine} accepted → inbox ({} new, {} were there already{apart})     {} stay",
        sum(|source| source.new),
        sum(|source| source.known),
        sum(|source| source.stay.values().sum()),
    );
    text
}
