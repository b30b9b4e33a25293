//! `sources show`: shows one source.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use shared::base::clock::UnixMillis;
use shared::inbox::ledger::{Row, State, Waiting};
use shared::sources::{SecretStore, Source};
use shared::webhook::event::Via;

use super::destinations::{self, Destination};
use super::health::{Checked, Health};
use super::pause::Pause;
use super::request::Requests;
use super::retention::Retention;
use super::rotation::{Rotation, Told};
use super::secrets::{self, Used};
use super::traffic::{self, MOST};
use super::upkeep::Upkeep;
use super::{Known, find, list, reveal};
use crate::cli::{Global, SourcesShowArgs};
use crate::outage_tolerance::Outage;
use crate::output::count::{Count, thousands};
use crate::output::table::{Facts, aligned};
use crate::output::time::{age, duration};
use crate::output::{Exit, Printer};
use crate::preset_text as words;
use crate::target::Deployment;

/// The configuration of a source, and facts from the inbox.
#[derive(Serialize)]
struct Shown {
    source: String,
    preset: String,
    variant: String,
    path: String,
    /// The URL that the provider signs, if it differs from the URL that the catcher sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_url: Option<String>,
    signed: String,
    proves: String,
    dedupe_by: String,
    window: String,
    secret: String,
    secret_store: SecretStore,
    max_body_bytes: usize,
    quarantine_per_day: u32,
    attempts: u32,
    retention: Retention,
    #[serde(flatten)]
    requests: Requests,
    actions: Vec<String>,
    destinations: Vec<Destination>,
    retries: String,
    by: &'static str,
    docs: String,
    /// The longest outage that loses no events, and the reasons.
    outage: Outage,
    #[serde(flatten)]
    seen: Option<Seen>,
}

#[derive(Serialize)]
struct Seen {
    url: Option<String>,
    /// The number of inspected rows. They are the newest of the last 24 hours.
    looked_at: usize,
    last_24h: Count,
    open: Count,
    dead_letters: Count,
    /// The number of failed events among the inspected rows.
    failed: usize,
    found_by_sync: usize,
    refused_today: u32,
    secrets: Option<Vec<Used>>,
    /// The values of the live secrets by their labels. Only `--reveal` sets them.
    #[serde(skip_serializing_if = "Option::is_none")]
    revealed: Option<BTreeMap<String, String>>,
    health: Health,
    paused: Option<Pause>,
    rotation: Option<Told>,
    note: Option<String>,
    #[serde(flatten)]
    upkeep: Upkeep,
    advice: Vec<String>,
}

pub(super) async fn show(
    args: SourcesShowArgs,
    global: &Global,
    out: &mut Printer,
) -> anyhow::Result<Exit> {
    let now = UnixMillis::now();
    let known = Known::open(&args.at, global).await?;
    let source = find(known.config(), &args.source)?;
    let mut shown = configured(source);
    match &known {
        Known::Config(_, said) => out.say(said),
        Known::Inbox(inbox) => {
            let (seen, trouble) = see(inbox, source, &args, global, now).await?;
            destinations::look(&inbox.ledger, &mut shown.destinations, now).await?;
            if let Some(trouble) = trouble {
                out.say(&format!("the secrets cannot be read: {trouble:#}"));
            }
            shown.seen = Some(seen);
        }
    }
    let text = text(&shown, source, now.0);
    out.document("sources.show", &shown, &shown.source, &text)?;
    out.tip(&format!("webhookctl sources presets {}", shown.preset));
    Ok(Exit::Done)
}

fn configured(source: &Source) -> Shown {
    let verifier = &source.verifier;
    let preset = &verifier.preset;
    let scheme = preset.scheme(&verifier.variant);
    let say =
        |of: fn(&shared::webhook::preset::Scheme) -> String| scheme.map(of).unwrap_or_default();
    Shown {
        source: source.name.clone(),
        preset: preset.id.clone(),
        variant: verifier.variant.clone(),
        path: format!("/in/{}", source.name),
        public_url: verifier.trust.public_url.clone(),
        signed: format!(
            "{}, {}, in {}",
            say(words::message),
            say(words::method),
            say(words::place)
        ),
        proves: scheme.map(words::proven).unwrap_or_default().to_owned(),
        dedupe_by: words::dedupe(preset),
        window: say(words::window),
        secret: source.secret.clone(),
        secret_store: source.secret_store,
        max_body_bytes: source.max_body,
        quarantine_per_day: source.quarantine.per_day,
        attempts: source.backoff.attempts,
        retention: Retention::of(source),
        requests: Requests::of(source),
        actions: source.actions.iter().map(|a| a.name.clone()).collect(),
        destinations: destinations::configured(source),
        retries: words::retry(&preset.retry),
        by: list::by(source),
        docs: preset.docs.clone(),
        outage: Outage::of(source),
        seen: None,
    }
}

async fn see(
    inbox: &Deployment,
    source: &Source,
    args: &SourcesShowArgs,
    global: &Global,
    now: UnixMillis,
) -> anyhow::Result<(Seen, Option<anyhow::Error>)> {
    let name = &source.name;
    let (events, more) = traffic::last_day(&inbox.ledger, name, now, MOST).await?;
    let newest = args.events as usize;
    let newest = events.get(..newest.min(events.len())).unwrap_or_default();
    let rows = secrets::rows(&inbox.ledger, newest).await?;
    let open = traffic::waiting(inbox, Waiting::Open, now).await?;
    let dead = traffic::waiting(inbox, Waiting::Dead, now).await?;
    let tally = inbox.quarantine.tally(name, now).await?;
    let (live, trouble) = match secrets::live(inbox, global, &args.secrets_at, now).await {
        Ok(mut live) => (live.remove(name), None),
        Err(error) => (None, Some(error)),
    };
    let revealed = match &live {
        Some(live) if args.reveal => {
            let why = args.reason.as_deref().unwrap_or_default();
            Some(reveal::secrets(inbox, name, live, why).await?)
        }
        _ => None,
    };
    let count_live = live.as_ref().map(Vec::len);
    let mut used = live.map(|live| secrets::used(&live, &rows));
    let dead = traffic::of(&dead, name);
    let checked = Checked::read(inbox, source, count_live, dead.count, now).await?;
    if let Some(rotation) = &checked.rotation {
        for one in used.iter_mut().flatten().filter(|one| one.live) {
            one.rotation = rotation.part(one.slot());
        }
    }
    let by_webhook = count(&rows, |row| row.via == Via::Webhook);
    Ok((
        Seen {
            url: inbox
                .local
                .as_ref()
                .map(|local| format!("{}/in/{name}", local.url)),
            looked_at: rows.len(),
            last_24h: Count {
                count: events.len() as u64,
                or_more: more,
            },
            open: traffic::of(&open, name),
            dead_letters: dead,
            failed: count(&rows, |row| row.state == State::Failed),
            found_by_sync: count(&rows, |row| row.via == Via::BackupSync),
            refused_today: tally.map_or(0, |tally| tally.requests),
            advice: secrets::advice(used.as_deref().unwrap_or_default(), by_webhook),
            secrets: used,
            revealed,
            health: checked.health,
            paused: checked.pause,
            rotation: checked.rotation.as_ref().map(Rotation::told),
            note: checked.note,
            upkeep: Upkeep::read(inbox, source, now).await?,
        },
        trouble,
    ))
}

fn count(rows: &[Row], is: impl Fn(&Row) -> bool) -> usize {
    rows.iter().filter(|row| is(row)).count()
}

fn text(shown: &Shown, source: &Source, now: i64) -> String {
    let seen = shown.seen.as_ref();
    let facts = facts(shown, source, now).text();
    let mut text = format!("{}\n{facts}", aligned(&[head(shown)]));
    if let Some(note) = seen.and_then(|seen| seen.note.as_ref()) {
        let _ = write!(text, "\n  {note}\n");
    }
    for advice in seen.iter().flat_map(|seen| &seen.advice) {
        let _ = write!(text, "\n  {advice}\n");
    }
    // Each secret has its own line, so that it can be copied.
    let revealed = seen.and_then(|seen| seen.revealed.as_ref());
    for (label, secret) in revealed.into_iter().flatten() {
        let _ = write!(text, "\n  {label}\n{secret}\n");
    }
    text
}

fn head(shown: &Shown) -> Vec<String> {
    let variant = match shown.variant.as_str() {
        "default" => String::new(),
        variant => format!("variant {variant}"),
    };
    let seen = shown.seen.as_ref();
    let working = seen.map(|seen| match &seen.paused {
        Some(_) => "paused",
        None => "processing",
    });
    let health = seen
        .map(|seen| seen.health.as_str())
        .filter(|word| *word != "paused");
    let mut head = vec![shown.source.clone(), shown.preset.clone(), variant];
    head.extend([working, health].into_iter().flatten().map(str::to_owned));
    head.retain(|part| !part.is_empty());
    head
}

fn facts(shown: &Shown, source: &Source, now: i64) -> Facts {
    let seen = shown.seen.as_ref();
    let url = seen.and_then(|seen| seen.url.clone());
    let mut facts = Facts::default();
    facts.add(
        "url",
        url.unwrap_or_else(|| format!("https://<api>{}", shown.path)),
    );
    facts.maybe("public url", shown.public_url.as_ref());
    facts.add("signed", &shown.signed);
    facts.add("proves", &shown.proves);
    facts.add("dedupe by", &shown.dedupe_by);
    facts.add("tolerance", &shown.window);
    match seen {
        None => facts.add("secret", &shown.secret),
        Some(seen) => facts.all("secrets", secret_lines(seen, &shown.secret, now)),
    }
    if shown.secret_store == SecretStore::SecretsManager {
        facts.add("stored in", "Secrets Manager");
    }
    let limits = format!(
        "{} bytes per request, {} rejected requests stored per day",
        thousands(shown.max_body_bytes),
        shown.quarantine_per_day
    );
    facts.add("limits", limits);
    shown.requests.add_to(&mut facts, &shown.path);
    facts.add("attempts", format!("{} in a run", shown.attempts));
    facts.add("retention", shown.retention.text());
    let destinations = shown.destinations.iter();
    facts.all(
        "actions",
        destinations.map(|destination| destination.text(now)),
    );
    if let Some(seen) = seen {
        facts.add("last 24h", traffic_line(seen));
        seen.upkeep.add_to(&mut facts, now);
    }
    if let Some(sync) = &source.sync {
        let overlap = duration(sync.overlap.as_secs());
        facts.add(
            "overlap",
            format!("the sync starts {overlap} before its cursor"),
        );
    }
    facts.add("retries", format!("by the provider: {}", shown.retries));
    let why = shown.outage.why.iter().cloned();
    facts.all("outage", std::iter::once(shown.outage.text()).chain(why));
    facts.add("docs", &shown.docs);
    facts
}

fn secret_lines(seen: &Seen, name: &str, now: i64) -> Vec<String> {
    let Some(secrets) = &seen.secrets else {
        return vec![format!("{name}, unknown")];
    };
    if secrets.is_empty() {
        return vec![format!("no secret is stored as {name}")];
    }
    let lines = secrets.iter().map(|used| {
        let live = used.fingerprint.as_deref().unwrap_or("no longer live");
        let since = used.since.as_ref().map(|since| format!("  since {since}"));
        let part = used.rotation.as_ref().map(|part| format!("  {part}"));
        let last = match used.last {
            Some(at) => format!("last used {} ago", age(at, now)),
            None => "not used".to_owned(),
        };
        format!(
            "{}  {live}{}{}  {last}  {} of {}",
            used.label,
            since.unwrap_or_default(),
            part.unwrap_or_default(),
            used.proved,
            seen.looked_at
        )
    });
    lines.collect()
}

fn traffic_line(seen: &Seen) -> String {
    format!(
        "{} received · {} open, {} in total · {} rejected today · of the newest {}: \
         {} failed, {} found by sync",
        seen.last_24h,
        seen.open,
        seen.dead_letters.of("dead letter"),
        seen.refused_today,
        seen.looked_at,
        seen.failed,
        seen.found_by_sync
    )
}
