//! `quarantine reverify`: verifies rejected requests again, for example after an operator has
//! corrected a wrong secret. If a request now matches, it enters the inbox.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;
use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::rejected::{Entered, RejectedRequest, Verdict};

use super::confirm::let_in;
use super::finding::{Found, added};
use super::reach::{Keys, door};
use super::{asked, chosen};
use crate::audit::{self, Change};
use crate::cli::{Global, ReverifyArgs};
use crate::output::column::short_id;
use crate::output::count::plural;
use crate::output::time::rfc3339;
use crate::output::{Exit, Printer, Progress};
use crate::target::Deployment;

/// The result of the command.
#[derive(Default, Serialize)]
struct Report {
    dry_run: bool,
    sources: Vec<OfSource>,
    /// The events that are now in the inbox, as `source:event-id`.
    events: Vec<String>,
    /// The operator who ran the command.
    by: Option<String>,
}

#[derive(Default, Serialize)]
struct OfSource {
    #[serde(rename = "source")]
    name: String,
    requests: usize,
    /// The number of live secrets.
    secrets: usize,
    /// The number of matching requests for each secret.
    matches: BTreeMap<String, usize>,
    /// The time when each of these secrets was stored, if known.
    added: BTreeMap<String, Added>,
    /// The number of requests that stay in the quarantine, for each reason.
    stay: BTreeMap<String, usize>,
    handshakes: usize,
    new: usize,
    /// The number of events that had already arrived in another delivery.
    known: usize,
    conflicting: usize,
    /// The id of one of the requests that stay in the quarantine.
    example: Option<String>,
}

#[derive(Serialize)]
struct Added {
    at: String,
    /// Whether all matching requests arrived before the secret was stored.
    after_receipt: bool,
    #[serde(skip)]
    millis: UnixMillis,
}

pub(super) async fn reverify(
    args: ReverifyArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let inbox = Deployment::open(&global.target).await?;
    if !args.dry_run {
        inbox.may_write("put requests into the inbox")?;
    }
    // A missing name of the queue or the bucket is an error before the command reads anything.
    let door = (!args.dry_run)
        .then(|| door(&inbox, global, &args.door_at))
        .transpose()?;
    let now = UnixMillis::now();
    let mut held = chosen(&inbox, &args.selection, now).await?;
    held.retain(|held| held.released.is_none());
    if held.is_empty() && !out.format.is_json() {
        out.say(&format!(
            "No requests in the quarantine ({}).",
            asked(&args.selection)
        ));
        return Ok(Exit::Done);
    }
    let keys = Keys::read(&inbox, global, &args.secrets_at, now).await?;
    // The requests are in the order of receipt, oldest first.
    held.reverse();
    let sources = by_source(&held, &inbox, &keys);
    let mut report = Report {
        dry_run: args.dry_run,
        ..Report::default()
    };
    if !args.dry_run {
        let all = || sources.values().flatten();
        let enter = all().filter(|found| found.secret().is_some());
        let_in(enter.count(), args.confirm, &inbox, out)?;
        let changes = all().filter(|found| found.is_genuine());
        report.by = noted(&inbox, &args, changes.count()).await?;
    }
    // A dry run needs no progress display, because all requests are already checked.
    let mut progress = if door.is_some() {
        Progress::new(out, "checked", held.len())
    } else {
        Progress::Quiet
    };
    for (name, all) in sources {
        let mut source = OfSource {
            name: name.to_owned(),
            requests: all.len(),
            secrets: keys.of(name).len(),
            ..OfSource::default()
        };
        for found in all {
            source.note(&found);
            if let Some(door) = &door {
                let events = &mut report.events;
                enter(&inbox, door, &found, &mut source, events).await?;
            }
            progress.step();
        }
        report.sources.push(source);
    }
    progress.end();
    let text = text(&report, now);
    out.document("quarantine.reverify", &report, "", &text)?;
    Ok(Exit::Done)
}

fn by_source<'h>(
    held: &'h [RejectedRequest],
    inbox: &Deployment,
    keys: &Keys,
) -> BTreeMap<&'h str, Vec<Found<'h>>> {
    let mut sources: BTreeMap<&str, Vec<Found<'_>>> = BTreeMap::new();
    for held in held {
        let found = Found::new(held, &inbox.config, Some(keys));
        sources.entry(&held.source).or_default().push(found);
    }
    sources
}

/// Writes the audit log entry before any request enters the inbox. Writes no entry if no request
/// enters.
async fn noted(
    inbox: &Deployment,
    args: &ReverifyArgs,
    count: usize,
) -> anyhow::Result<Option<String>> {
    if count == 0 {
        return Ok(None);
    }
    let why = audit::reason("quarantine.reason", args.why.as_deref().unwrap_or_default())?;
    let who = Change {
        what: "quarantine.reverify",
        why,
        selection: asked(&args.selection),
        count,
    }
    .record(inbox)
    .await?;
    Ok(Some(who))
}

async fn enter(
    inbox: &Deployment,
    door: &shared::inbox::Inbox,
    found: &Found<'_>,
    source: &mut OfSource,
    events: &mut Vec<String>,
) -> anyhow::Result<()> {
    let now = UnixMillis::now();
    match &found.verdict {
        Some(Verdict::Genuine(event)) => {
            let entered = inbox.quarantine.release(door, found.held, event, now);
            let what = || format!("put {} into the inbox", found.held.id);
            match entered.await.with_context(what)? {
                Entered::New => source.new += 1,
                Entered::Known => source.known += 1,
                Entered::Apart => source.conflicting += 1,
            }
            events.push(event.key().to_string());
        }
        Some(Verdict::Handshake) => {
            let released = inbox.quarantine.mark_released(found.held, None, now);
            let what = || format!("put {} into the inbox", found.held.id);
            released.await.with_context(what)?;
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
                if let Some(millis) = found.added {
                    let added = self.added.entry(secret.clone()).or_insert_with(|| Added {
                        at: rfc3339(millis.0),
                        after_receipt: true,
                        millis,
                    });
                    added.after_receipt &= found.came_before();
                }
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

impl OfSource {
    fn text(&self, now: UnixMillis) -> String {
        let mut text = format!(
            "{} of {}, checked with {}\n",
            plural(self.requests, "request"),
            self.name,
            plural(self.secrets, "secret")
        );
        for (secret, count) in &self.matches {
            let stored = self.added.get(secret);
            let when = added(stored.map(|it| it.millis), now);
            let before = match stored {
                Some(it) if it.after_receipt => "; received before the secret was added",
                _ => "",
            };
            let _ = writeln!(text, "  {count:>4}  match secret {secret}{when}{before}");
        }
        if self.handshakes > 0 {
            let _ = writeln!(text, "  {:>4}  are handshakes, not events", self.handshakes);
        }
        for (reason, count) in &self.stay {
            let _ = writeln!(text, "  {count:>4}  stay: {reason}");
        }
        if let Some(example) = &self.example {
            let example = short_id(example);
            let _ = writeln!(text, "        see: webhookctl quarantine inspect {example}");
        }
        text
    }
}

fn text(report: &Report, now: UnixMillis) -> String {
    let mut text: String = report.sources.iter().map(|it| it.text(now)).collect();
    let sum = |count: fn(&OfSource) -> usize| report.sources.iter().map(count).sum::<usize>();
    let genuine = sum(|source| source.matches.values().sum());
    if report.dry_run {
        let _ = writeln!(
            text,
            "Nothing was changed. Without --dry-run, {genuine} go to the inbox with their \
             original time of receipt."
        );
        return text;
    }
    let apart = match sum(|source| source.conflicting) {
        0 => String::new(),
        apart => format!(", {apart} quarantined because their id or body belongs to another event"),
    };
    let _ = writeln!(
        text,
        "{genuine} accepted → inbox ({} new, {} already stored{apart})     {} stay",
        sum(|source| source.new),
        sum(|source| source.known),
        sum(|source| source.stay.values().sum()),
    );
    if let Some(by) = &report.by {
        let _ = writeln!(
            text,
            "recorded in the audit log as released by {by}: webhookctl log --what quarantine"
        );
    }
    text
}
